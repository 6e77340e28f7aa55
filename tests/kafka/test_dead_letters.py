"""Poison on the real Kafka: one of each kind, a record that kills its process, redrive in order, and a campaign that halts."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bat_events.cli.main import app
from bat_events.codec import Fact
from bat_events.deciders.dead_letters import DeadLetters
from bat_events.deciders.interface import Draft
from bat_events.deciders.versions import versions_of
from bat_events.domain.grouping import state_id
from bat_events.errors import DecodeError, LogError
from bat_events.events.bank import SynthesisFailed, SynthesisRequested
from bat_events.events.boundary import EvaluationReported
from bat_events.events.campaign import CampaignStarted, LogicVersion
from bat_events.events.plan import CampaignPlan
from bat_events.events.promotion import CheckpointPromoted
from bat_events.events.rounds import EvaluationRequested
from bat_events.events.training import CheckpointProduced
from bat_events.log.admin import apply_topics
from bat_events.log.interface import Outgoing
from bat_events.log.kafka import KafkaReader, KafkaWriter
from bat_events.log.local_kafka import LocalKafka
from bat_events.log.topics import SCHEMA_TOPIC, TOPICS
from bat_events.producers.dead_letters import OPERATORS, Plane, discard, read_letters, redrive
from bat_events.service.context import Context
from bat_events.service.reactor import DeciderRules
from bat_events.service.runtime import Retryable, RetryPolicy, Status
from bat_events.service.services import Service, reactor, worker
from bat_events.settings import load_settings
from tests.e2e.commands import Home
from tests.support.samples import sample, written

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

CAMPAIGN = "c1"
PARTITIONS = {spec.name: 2 if spec.parallel else 1 for spec in TOPICS}

# A real service process: the synthesizer's user, group and loop, with a handler that does what a file says.
_SERVICE = """
import json, os, signal, sys
from pathlib import Path
from bat_events.cli.common import make_context
from bat_events.service.run import run_service
from bat_events.service.runtime import Retryable, RetryPolicy
from bat_events.service.services import worker
from bat_events.settings import load_settings
from bat_events.deciders.interface import Draft
from bat_events.events.bank import SynthesisFailed, SynthesisRequested

file, instance = Path(sys.argv[1]), sys.argv[2]

class Handler:
    name, version, topic, outputs = "synthesizer", 1, "bank.request", ("bank.state",)

    def wants(self, fact):
        return isinstance(fact.event, SynthesisRequested)

    def handle(self, fact):
        request = fact.event
        what = json.loads(file.read_text()).get(str(request.ordinal))
        if what == "kills":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "fails":
            raise Retryable("the disk is away")
        same = {name: getattr(request, name) for name in ("state", "focus", "track", "outcome", "ordinal")}
        event = SynthesisFailed(**same, reason="echo")
        return [Draft(event=event, campaign=fact.envelope.campaign, cause=fact.id, ordinal=0, key=request.state)]

def build(name, context):
    service = worker(context, Handler(), instance=instance)
    service.machines[0]._retry = RetryPolicy(waits_s=(0.05,), deaths=2)
    return service

sys.exit(run_service("synthesizer", make_context(load_settings(), "synthesizer"), build))
"""


class Bench:
    """A namespace with users and topics, and ways to write to it as anybody."""

    def __init__(self, kafka: LocalKafka, namespace: str, path: Path) -> None:
        self.kafka, self.namespace = kafka, namespace
        self.home = Home(path, kafka=kafka, namespace=namespace)
        apply_topics(kafka.login(), namespace, partitions=2)
        self.closers: list[Callable[[], None]] = []
        self._contexts: dict[str, Context] = {}

    def write(self, *outputs: Outgoing) -> None:
        queue = {"message.max.bytes": 32 << 20}
        KafkaWriter(bootstrap=self.kafka.login(), namespace=self.namespace, name="test", queue=queue).publish(
            [replace(out, partition=out.partition % PARTITIONS[out.topic]) for out in outputs]
        )

    def context(self, principal: str) -> Context:
        """This process as a principal; making one parses every schema."""
        if principal not in self._contexts:
            self._contexts[principal] = self._context(principal)
        return self._contexts[principal]

    def command(self, *words: str) -> str:
        """What a command prints, run in this process: starting another costs seconds."""
        done = CliRunner(env=self.home.env).invoke(app, list(words))
        assert done.exit_code == 0, done.output
        return done.output

    def _context(self, principal: str) -> Context:
        settings = load_settings(home=self.home.path, namespace=self.namespace, kafka={"security": "scram"})
        login = self.kafka.login(principal, self.namespace)
        return Context(settings=settings, bootstrap=login, status=Status(service=principal))

    def letters(self, plane: Plane = "training") -> DeadLetters:
        return read_letters(self.context(OPERATORS[plane]), plane)

    def facts(self, *topics: str) -> list[Fact]:
        reader = KafkaReader(bootstrap=self.kafka.login(), namespace=self.namespace, topics=topics)
        codec, found = self.context("dlq").codec, []
        while not reader.caught_up():
            for record in reader.poll(500, 0.2):
                try:
                    found.append(codec.decode(record))
                except DecodeError:
                    continue
        reader.close()
        return found

    def run(self, service: Service, condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Step a service in this thread until something holds, looked for when it is idle or long at work."""
        self.closers += service.closers
        deadline = time.monotonic() + timeout_s
        for number in itertools.count():
            busy = [machine.step(0.05) for machine in service.machines]
            if (not any(busy) or number % 50 == 0) and condition():
                return
            assert time.monotonic() < deadline, "it did not come to pass"


@pytest.fixture
def bench(kafka: LocalKafka, namespace: str, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(kafka, namespace, tmp_path)
    yield made
    for closer in made.closers:
        closer()


def until(condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.2)


def request(ordinal: int, key: str, *, campaign: str = CAMPAIGN) -> Outgoing:
    event = sample(SynthesisRequested).model_copy(update={"ordinal": ordinal})
    state = state_id(campaign, event.focus, event.track, event.outcome, ordinal)
    return written(event.model_copy(update={"state": state}), campaign=CAMPAIGN, ordinal=ordinal, key=key)


def with_header(out: Outgoing, name: str, value: bytes) -> Outgoing:
    return replace(out, headers=tuple((n, value if n == name else v) for n, v in out.headers))


def test_one_of_each_kind_of_poison_is_parked_and_a_person_decides(bench: Bench, tmp_path: Path) -> None:
    keys = {"bad_body": 0, "unknown_schema": 2, "bad_envelope": 4, "too_large": 6, "impossible": 8}
    keys |= {"retries_exhausted": 10, "kills_consumer": 12}
    poison = {key: request(number, key) for key, number in keys.items()}
    poison["bad_body"] = replace(poison["bad_body"], value=b"\0junk")
    poison["unknown_schema"] = with_header(poison["unknown_schema"], "ce_type", b"bat.SynthesisRequested.v99")
    poison["bad_envelope"] = replace(poison["bad_envelope"], headers=())
    poison["too_large"] = replace(poison["too_large"], value=bytes(9 << 20))  # lz4 makes it small enough for the broker
    poison["impossible"] = request(8, "impossible", campaign="another")
    behaviour = tmp_path / "behaviour.json"
    behaviour.write_text(json.dumps({"10": "fails", "12": "kills"}))
    for key, number in keys.items():
        bench.write(poison[key], request(number + 1, key))
    bench.write(request(98, "sound"), request(99, "sound too"))

    exits: list[int] = []
    started = 0

    def serve() -> "subprocess.Popen[bytes]":
        nonlocal started
        started += 1
        words = [sys.executable, "-c", _SERVICE, str(behaviour), f"i{started}"]
        return subprocess.Popen(words, env=bench.home.env)

    process = serve()
    try:

        def all_parked() -> bool:
            nonlocal process
            if process.poll() is not None:  # as a supervisor would
                exits.append(process.returncode)
                process = serve()
            return len(bench.letters().open()) >= 2 * len(keys)

        until(all_parked, "everything is parked", 120)
        until(lambda: _answered(bench) == [98, 99], "the other keys are answered")
        assert set(exits) == {-signal.SIGKILL}
        assert len(exits) in (2, 3)  # the first death may be of a record that was not the first in its partition
        found = {letter.key: letter for letter in bench.letters().open() if letter.event.cause != "behind"}
        assert {key: letter.event.cause for key, letter in found.items()} == {key: key for key in keys}
        assert found["kills_consumer"].event.attempts == 2
        assert found["too_large"].event.value_bytes == 9 << 20

        listed = json.loads(bench.command("dlq", "list", "--json"))
        assert [row["cause"] for row in listed].count("behind") == len(keys)
        shown = bench.command("dlq", "show", found["unknown_schema"].place)
        assert "is no event: UnknownSchema" in shown
        assert "read without checks" in shown
        shown = bench.command("dlq", "show", found["retries_exhausted"].id[:10])
        assert '"ordinal":10' in shown
        assert "the disk is away" in shown

        behaviour.write_text("{}")
        assert "tries" in bench.command("dlq", "redrive", found["kills_consumer"].place, "--reason", "mended")
        assert "leaves" in bench.command("dlq", "discard", found["bad_body"].id)
        operator = bench.context("dlq")
        redrive(operator, "training", found["retries_exhausted"].place, "the disk is back")
        for key in ("unknown_schema", "bad_envelope", "too_large", "impossible"):
            discard(operator, "training", found[key].id, "junk")
        with pytest.raises(LogError, match="is discarded already"):
            discard(operator, "training", found["impossible"].id, "again")
        until(lambda: not bench.letters().open(), "nothing waits any more")
        by_key = {key: [n for n in _answered(bench) if n in (number, number + 1)] for key, number in keys.items()}
        assert by_key == {
            k: [n, n + 1] if k in ("kills_consumer", "retries_exhausted") else [n + 1] for k, n in keys.items()
        }
        told = sorted(bench.facts("bank.state"), key=lambda fact: fact.envelope.time)
        order = [fact.event.ordinal for fact in told]  # type: ignore[attr-defined]
        assert order.index(12) < order.index(13)
        assert order.index(10) < order.index(11)
        assert len(order) == len(set(order))
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def _answered(bench: Bench) -> list[int]:
    found = [fact.event for fact in bench.facts("bank.state")]
    return sorted(event.ordinal for event in found if isinstance(event, SynthesisFailed))


def test_poison_on_a_campaigns_topic_halts_it_visibly_until_it_is_discarded(bench: Bench) -> None:
    started = sample(CampaignStarted).model_copy(
        update={"plan": CampaignPlan(), "logic": (LogicVersion(name="premises", version=1),)}
    )
    candidate = sample(CheckpointProduced).model_copy(update={"round": 0})
    report = sample(EvaluationReported).model_copy(
        update={"round": 0, "checkpoint": candidate.checkpoint, "failures": None}
    )
    junk = replace(written(candidate, key=CAMPAIGN, ordinal=7), value=b"\0")
    bench.write(
        written(started, key=CAMPAIGN),
        junk,
        written(candidate, key=CAMPAIGN, cause="1" * 32),
        written(report, cause="2" * 32),
    )
    gate = reactor(bench.context("gate"), DeciderRules(*versions_of("gate")))
    bench.run(gate, lambda: bool(bench.letters().open()))
    assert bench.facts("promotion") == []
    (letter,) = [x for x in bench.letters().open() if x.event.waits]
    assert (letter.event.service, letter.event.cause, letter.place) == ("gate", "bad_body", "training[0]@0")
    status = bench.command("campaign", "status", CAMPAIGN)
    assert "halted by training[0]@0" in status
    assert "bat-events dlq discard 'training[0]@0'" in status

    discard(bench.context("dlq"), "training", "training[0]@0", "junk")
    bench.run(gate, lambda: bool(bench.facts("promotion")))
    (decided,) = bench.facts("promotion")
    assert isinstance(decided.event, CheckpointPromoted)
    assert decided.envelope.cut is not None
    assert decided.envelope.cut["dead-letter"][0] > 0
    assert "halted" not in bench.command("campaign", "status", CAMPAIGN)


class Reveals:
    """An evaluator whose error quotes what it must keep."""

    name, version, topic = "evaluator", 1, "round"
    outputs: tuple[str, ...] = ("heldout.cell", "boundary.report")

    def wants(self, fact: Fact) -> bool:
        return isinstance(fact.event, EvaluationRequested)

    def handle(self, fact: Fact) -> Sequence[Draft]:  # noqa: ARG002
        raise Retryable("the gold answer is 42")


def test_what_the_heldout_plane_parks_is_told_in_that_plane_only(bench: Bench) -> None:
    bench.write(written(sample(EvaluationRequested), key=CAMPAIGN))
    evaluator = worker(bench.context("evaluator"), Reveals(), instance="a")
    evaluator.machines[0]._retry = RetryPolicy(waits_s=())  # type: ignore[attr-defined]
    bench.run(evaluator, lambda: bool(bench.letters("heldout").open()))
    (letter,) = bench.letters("heldout").open()
    assert (letter.event.cause, letter.event.error) == ("retries_exhausted", "the gold answer is 42")
    assert bench.letters().all() == []
    told = [
        record
        for topic in (spec.name for spec in TOPICS if spec.plane != "heldout" and spec.name != SCHEMA_TOPIC)
        for record in _records(bench, topic)
    ]
    assert told
    assert not any(b"gold" in record.value + record.key + b"".join(v for _, v in record.headers) for record in told)
    assert "no open dead letters" in bench.command("dlq", "list")
    assert "the gold" in bench.command("dlq", "list", "--heldout")


def _records(bench: Bench, topic: str) -> list[Any]:
    reader = KafkaReader(bootstrap=bench.kafka.login(), namespace=bench.namespace, topics=[topic])
    found: list[Any] = []
    while not reader.caught_up():
        found += reader.poll(500, 0.2)
    reader.close()
    return found


# -- backpressure


class Blocks:
    """Answers at once, but for one request, which takes until it is let go."""

    name, version, topic = "synthesizer", 1, "bank.request"
    outputs: tuple[str, ...] = ("bank.state",)

    def __init__(self) -> None:
        self.held, self.go = threading.Event(), threading.Event()

    def wants(self, fact: Fact) -> bool:
        return isinstance(fact.event, SynthesisRequested)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        asked: SynthesisRequested = fact.event  # type: ignore[assignment]
        if asked.ordinal == 0:
            self.held.set()
            assert self.go.wait(60)
        same = {name: getattr(asked, name) for name in ("state", "focus", "track", "outcome", "ordinal")}
        event = SynthesisFailed(**same, reason="echo")
        return [Draft(event=event, campaign=CAMPAIGN, cause=fact.id, ordinal=0, key=asked.state)]


def test_a_slow_consumer_blocks_neither_its_like_nor_others(bench: Bench) -> None:
    slow, stop = Blocks(), threading.Event()
    services = [worker(bench.context("synthesizer"), slow, instance=name) for name in "ab"]

    def drive(service: Service) -> None:
        while not stop.is_set():
            service.machines[0].step(0.1)
        for closer in service.closers:
            closer()

    def shared() -> bool:
        return all(len(service.machines[0]._log.assigned()) == 1 for service in services)  # type: ignore[attr-defined]

    threads = [threading.Thread(target=drive, args=(service,)) for service in services]
    try:
        for thread in threads:
            thread.start()
        until(shared, "each has one of the two partitions")
        here = request(0, "slow").partition % 2
        elsewhere = [out for n in range(1, 60) if (out := request(n, f"k{n}")).partition % 2 != here][:20]
        bench.write(request(0, "slow"))
        until(slow.held.is_set, "the slow one is begun with")
        bench.write(*elsewhere)
        until(lambda: len(_answered(bench)) == 20, "the other partition's requests are answered")
        assert 0 not in _answered(bench)
        slow.go.set()
        until(lambda: len(_answered(bench)) == 21, "the slow one is answered")
    finally:
        slow.go.set()
        stop.set()
        for thread in threads:
            thread.join(30)


def test_a_full_producer_queue_slows_the_producer_and_loses_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = {"queue.buffering.max.messages": 5, "queue.buffering.max.kbytes": 64, "linger.ms": 0}
    writer = KafkaWriter(bootstrap=bench.kafka.login(), namespace=bench.namespace, name="tiny", queue=tiny)
    full = 0
    produce = writer._producer.produce

    class Counting:
        """The producer, and how often it had no place."""

        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

        def produce(self, *args: Any, **kwargs: Any) -> None:
            nonlocal full
            try:
                produce(*args, **kwargs)
            except BufferError:
                full += 1
                raise

    inner = writer._producer
    writer._producer = Counting()  # type: ignore[assignment]
    out = [Outgoing(topic="round", partition=0, key=b"k", value=b"%d" % n * 100, headers=()) for n in range(1000)]
    writer.publish(out)
    assert full > 0
    assert [record.value for record in _records(bench, "round")] == [item.value for item in out]

    monkeypatch.setattr("bat_events.log.kafka_writer.CALL_S", 1.0)
    began = time.monotonic()
    with pytest.raises(
        LogError, match=r"no place for 100,000 bytes in the writer's queue.*nothing was kept|nothing was kept"
    ):
        writer.publish([replace(out[0], value=os.urandom(100_000)), replace(out[0], value=os.urandom(100_000))])
    assert time.monotonic() - began < 30
    assert len(_records(bench, "round")) == 1000
