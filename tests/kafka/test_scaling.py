"""Starting more does more, on the real Kafka with real processes: work moves to who comes and from who dies.

One story with simulated work (an engine that sleeps): a worker, a second that joins in mid-round, the first killed, the second
stopped past its session while a third takes over. Each test reads one promise off it.
"""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bat_events.cli.main import app
from bat_events.codec import Fact
from bat_events.deciders.interface import Draft
from bat_events.errors import LogError
from bat_events.events.rounds import GroupRequested
from bat_events.log.admin import admin_client, apply_topics, group_offsets
from bat_events.log.interface import Outgoing
from bat_events.log.kafka import KafkaWriter
from bat_events.log.local_kafka import LocalKafka
from bat_events.log.local_kafka_config import Layout, server_properties
from bat_events.service.context import Context
from bat_events.service.metrics_lag import Lag, LagReader
from bat_events.service.runtime import Status
from bat_events.service.services import Service, worker
from bat_events.settings import load_settings
from bench.scaling_parts.fleet import Feeder, Fleet, pieces, request, until
from tests.e2e.commands import Home

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

PARTITIONS = 8
WORK_MS = 250
WAITING = 32
SESSION_S = int(server_properties(Layout(root=Path("unused")), 1, 2)["group.consumer.session.timeout.ms"]) / 1000
TRANSACTION_S = 11.0  # its time-out, and how often the broker looks
MOVES_S = 5.0  # 2 s on an idle machine (bench/scaling.py); tests run beside others


@dataclass
class Story:
    """What was seen. Times in seconds."""

    joined_s: float = 0.0
    died_s: float = 0.0
    died_at_work: bool = (
        True  # else it may have left a transaction open, which holds its partition until that times out
    )
    stopped: list[Lag] = field(default_factory=list)
    stopped_later: list[Lag] = field(default_factory=list)
    stopped_told_s: float = 0.0  # how old the stopped process's own file was
    begun: Counter[str] = field(default_factory=Counter)
    moves: int = 0
    committed: Counter[str] = field(default_factory=Counter)
    asked: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    end: list[Lag] = field(default_factory=list)
    metrics: str = ""
    poisoned: list[Lag] = field(default_factory=list)
    listed: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture(scope="module")
def story(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    home = tmp_path_factory.mktemp("scaling")
    with Fleet(kafka, home, "t-scaling", PARTITIONS) as fleet:
        yield _tell(fleet)


def _tell(fleet: Fleet) -> Story:
    story = Story()
    lag = LagReader(fleet.kafka.login("monitor", fleet.namespace), fleet.namespace)
    (first,) = fleet.start()
    fleet.await_shares(1)
    feeder = Feeder(fleet, WORK_MS, WAITING)
    until(lambda: len(_begun(fleet, first.pid)) > 2, "the round is under way", 20)

    (second,) = fleet.start()
    until(lambda: bool(_begun(fleet, second.pid)), "the second has work", 60)
    polls = next(note["at"] for note in fleet.notes() if note["pid"] == second.pid and note["what"] == "polls")
    story.joined_s = min(_begun(fleet, second.pid).values()) - polls

    fleet.await_shares(2)
    owned = _owned_without(fleet, second.pid)
    until(lambda: fleet.last(first.pid) == "begun", "the first is at work", 20)
    killed = time.time()
    first.kill()
    first.wait()
    story.died_at_work = fleet.last(first.pid) == "begun"
    until(lambda: bool(_begun(fleet, second.pid, owned, killed)), "the dead one's work goes on", 60)
    story.died_s = min(_begun(fleet, second.pid, owned, killed).values()) - killed

    second.send_signal(signal.SIGSTOP)
    time.sleep(0.5)  # a transaction that it had asked for comes to its end
    story.stopped = _of(lag, "rollout")
    told = next((fleet.home / "run" / fleet.namespace).glob(f"rollout.{second.pid}.prom"))
    (third,) = fleet.start()
    time.sleep(1.0)
    story.stopped_later = _of(lag, "rollout")
    story.stopped_told_s = time.time() - told.stat().st_mtime
    until(lambda: bool(_begun(fleet, third.pid)), "the third has the stopped one's work", 60)
    second.send_signal(signal.SIGCONT)
    feeder.finish(120)

    until(lambda: all(row.position == row.end for row in _of(lag, "rollout")), "markers are passed", 10)
    story.end = _of(lag, "rollout")
    story.offsets = group_offsets(admin_client(fleet.admin), f"{fleet.namespace}.rollout")[0]
    story.begun = Counter(note["work"] for note in fleet.notes() if note["what"] == "begun")
    story.moves = 4  # one joined, one died, one stopped, and it came back
    story.committed, story.answered, story.asked = feeder.outputs.ids, feeder.outputs.groups, feeder.asked
    feeder.outputs.close()

    poison = Outgoing(topic="group", partition=0, key=b"poison", value=b"\0junk", headers=())
    KafkaWriter(bootstrap=fleet.admin, namespace=fleet.namespace, name="bench").publish([poison])
    until(lambda: _of(lag, "rollout") != story.end, "the poison is there", 10)
    until(lambda: all(row.position == row.end for row in _of(lag, "rollout")), "the poison is parked", 20)
    story.poisoned = _of(lag, "rollout")
    time.sleep(1.2)  # each process writes its metrics once a second
    story.metrics = "".join(path.read_text() for path in (fleet.home / "run" / fleet.namespace).glob("*.prom"))
    done = CliRunner(env=fleet.env).invoke(app, ["lag", "--json"])
    assert done.exit_code == 0, done.output
    story.listed = json.loads(done.output)
    lag.close()
    return story


def _begun(fleet: Fleet, pid: int, partitions: Sequence[int] | None = None, since: float = 0.0) -> dict[str, float]:
    """Work that a process began, with when; only of some partitions, or after a moment."""
    return {
        note["work"]: note["at"]
        for note in fleet.notes()
        if note["what"] == "begun"
        and note["pid"] == pid
        and note["at"] > since
        and (partitions is None or note["partition"] in partitions)
    }


def _owned_without(fleet: Fleet, other: int) -> list[int]:
    """The partitions that a process does not have now: each member is known by what it began last."""
    owners = fleet.owners()
    last = max((n for n in fleet.notes() if n["what"] == "begun" and n["pid"] == other), key=lambda n: n["at"])
    return [partition for partition, owner in owners.items() if owner != owners[last["partition"]]]


def _of(lag: LagReader, service: str) -> list[Lag]:
    return [row for row in lag.read() if row.service == service]


def test_a_worker_that_joins_in_mid_round_has_work_within_seconds(story: Story) -> None:
    assert 0 < story.joined_s < MOVES_S


def test_the_work_of_a_killed_worker_goes_on_soon_after_its_session(story: Story) -> None:
    held_s = SESSION_S if story.died_at_work else max(SESSION_S, TRANSACTION_S)
    assert 0 < story.died_s < held_s + MOVES_S


def test_every_group_is_answered_once_and_only_what_was_in_flight_is_done_again(story: Story) -> None:
    assert story.answered == story.asked
    assert set(story.committed.values()) == {1}  # a stopped worker that wakes up commits nothing any more
    assert set(story.begun) == story.asked
    assert sum(story.begun.values()) - len(story.begun) <= story.moves  # one is in flight at each worker


def test_a_stopped_worker_does_not_look_healthy_from_outside(story: Story) -> None:
    assert sum(row.records for row in story.stopped) > 0
    assert sum(row.position for row in story.stopped_later) == sum(row.position for row in story.stopped)
    now = time.time()
    waited = max(row.age_s(now) for row in story.stopped_later)
    assert waited > WORK_MS / 1000
    later = {row.partition: row.oldest_ms for row in story.stopped_later}
    assert all(later[row.partition] == row.oldest_ms for row in story.stopped if row.records)  # so its age grows
    assert story.stopped_told_s > 1.0


def test_nothing_waits_where_all_is_done_not_even_markers(story: Story) -> None:
    assert len(story.end) == PARTITIONS
    assert [(row.records, row.oldest_ms) for row in story.end] == [(0, None)] * PARTITIONS
    ends = {("t-scaling.group", row.partition): row.end for row in story.end}
    assert dict(story.offsets) == ends  # an autoscaler compares just these two
    assert sum(row.end for row in story.end) > len(story.asked)  # there were markers to pass


def test_poison_moves_the_offset_so_that_it_calls_for_no_workers(story: Story) -> None:
    assert [(row.records, row.oldest_ms) for row in story.poisoned] == [(0, None)] * PARTITIONS
    assert 'bat_dead_letters_open{service="rollout"} 1.0' in story.metrics


def test_the_command_says_the_same(story: Story) -> None:
    rows = [row for row in story.listed if row["service"] == "rollout"]
    assert [row["records"] for row in rows] == [0] * PARTITIONS
    assert {row["members"] for row in rows} <= {1, 2}
    assert {row["service"] for row in story.listed} >= {"synthesizer", "judge", "evaluator"}


# -- long work


class Slow:
    """Work that takes as long as it is told."""

    name, version, topic = "rollout", 1, "group"
    outputs: tuple[str, ...] = ("rollout",)

    def __init__(self) -> None:
        self.begun = 0

    def wants(self, fact: Fact) -> bool:
        return isinstance(fact.event, GroupRequested)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        self.begun += 1
        time.sleep(fact.event.seed / 1000)  # type: ignore[attr-defined]
        return []


def test_work_that_outlasts_the_poll_interval_keeps_its_membership(
    kafka: LocalKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bat_events.log import kafka as module

    interval_ms = 2000
    opened = module.open_consumer
    monkeypatch.setattr(
        module,
        "open_consumer",
        lambda address, **more: opened(address, **more, **{"max.poll.interval.ms": interval_ms}),
    )
    with Fleet(kafka, tmp_path, "t-long-work", 2) as fleet:
        settings = load_settings(home=tmp_path, namespace=fleet.namespace, kafka={"security": "scram"})
        login = kafka.login("rollout", fleet.namespace)
        context = Context(settings=settings, bootstrap=login, status=Status(service="rollout"))
        slow = Slow()
        service = worker(context, slow, instance="a")
        log: Any = service.machines[0]._log  # type: ignore[attr-defined]
        work = pieces([2 * interval_ms, 10, 10, 10])
        _step(service, lambda: len(log.assigned()) == 2)
        KafkaWriter(bootstrap=fleet.admin, namespace=fleet.namespace, name="bench").publish(
            [request(piece, 2, 1) for piece in work]
        )
        rebalances = log.rebalances
        _step(service, lambda: slow.begun == len(work) and not service.machines[0]._job)  # type: ignore[attr-defined]
        assert log.rebalances == rebalances
        assert sum(offset for (topic, _), offset in _offsets(fleet).items() if topic.endswith(".group")) >= len(work)

        # The test can fail: without a sign of life the same work loses its partitions.
        monkeypatch.setattr(module.KafkaWorkerLog, "keep_alive", lambda _: None)
        late = pieces([2 * interval_ms], first=9)
        KafkaWriter(bootstrap=fleet.admin, namespace=fleet.namespace, name="bench").publish([request(late[0], 2, 1)])
        with pytest.raises(LogError, match="maximum poll interval"):
            _step(service, lambda: log.rebalances > rebalances)
        for closer in service.closers:
            closer()


def _offsets(fleet: Fleet) -> Mapping[tuple[str, int], int]:
    return group_offsets(admin_client(fleet.admin), f"{fleet.namespace}.rollout")[0]


def _step(service: Service, condition: Any, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        service.machines[0].step(0.05)


def _scraped(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
    except OSError:
        return ""
    return text


def test_lag_alone_is_answered_to_prometheus_until_it_is_stopped(kafka: LocalKafka, tmp_path: Path) -> None:
    home = Home(tmp_path, kafka=kafka, namespace="t-lag")
    apply_topics(kafka.login(), "t-lag", partitions=2)
    assert "BAT_METRICS__PORT" in _failed(home, "lag", "--serve")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "bat_events.cli.main", "lag", "--serve"]
    with subprocess.Popen(command, env={**home.env, "BAT_METRICS__PORT": str(port)}) as serving:
        try:
            until(lambda: "bat_lag_observed 1.0" in _scraped(port), "lag is scraped", 90)
            lags = re.findall(r'bat_group_lag_records{[^}]*service="(rollout|judge)"[^}]*} (\S+)', _scraped(port))
            assert sorted(lags) == [("judge", "0.0")] * 2 + [("rollout", "0.0")] * 2
            serving.terminate()
            assert serving.wait(30) == 0
        finally:
            serving.kill()


def _failed(home: Home, *words: str) -> str:
    done = CliRunner(env=home.env).invoke(app, list(words))
    assert done.exit_code != 0
    return done.output


def test_a_supervisor_answers_prometheus_for_all_its_services(kafka: LocalKafka, tmp_path: Path) -> None:
    home = Home(tmp_path, kafka=kafka, namespace="t-scrape")
    apply_topics(kafka.login(), "t-scrape", partitions=2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home.env["BAT_METRICS__PORT"] = str(port)

    def scraped() -> str:
        return _scraped(port)

    with home.serving("gate", "teacher"):
        until(
            lambda: {"gate", "teacher"} <= set(re.findall(r'bat_position{.*service="([a-z]+)"', scraped())),
            "both services are scraped",
            90,
        )
        text = scraped()
    assert 'service="gate"' in text
    assert 'service="teacher"' in text
    assert 'bat_group_lag_records{partition="1",service="rollout",topic="group"} 0.0' in text
    assert 'bat_group_members{service="rollout"} 0.0' in text
    assert "bat_lag_observed 1.0" in text
