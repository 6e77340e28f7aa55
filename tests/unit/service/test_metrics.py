"""What a process exports: counted on its way through what the loop is given; numbers only; gathered for all by a supervisor."""

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bat_events.consumers.corpus_gate import CorpusGate
from bat_events.consumers.evaluator import Evaluator
from bat_events.consumers.fingerprinter import Fingerprinter
from bat_events.consumers.judge import Judge
from bat_events.consumers.leakage_gate import LeakageGate
from bat_events.consumers.registry import SERVICES
from bat_events.consumers.rollout import Rollout
from bat_events.consumers.shadow_judge import ShadowJudge
from bat_events.consumers.synthesizer import Synthesizer
from bat_events.errors import ConfigurationError, LogError
from bat_events.log.access import BY_PRINCIPAL, PRINCIPALS
from bat_events.log.groups import GROUPS, OPTIONAL
from bat_events.log.interface import Outgoing, Partition, Record
from bat_events.log.topics import BY_NAME
from bat_events.service.metrics import Metrics
from bat_events.service.metrics_files import MetricsFile, gathered, registry_of, serve_metrics
from bat_events.service.metrics_lag import Lag, as_metrics
from bat_events.service.metrics_log import MeteredExecutor, metered
from bat_events.service.runtime import InlineExecutor, Status
from bat_events.settings import MetricsSettings

NOW_MS = 1_796_000_000_000


class ListLog:
    """A log that is a list, with the sums that a real one keeps."""

    def __init__(self, *records: Record) -> None:
        self.records, self.fails = list(records), False
        self.rebalances = 2
        self.positions: dict[Partition, int] = {}

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:  # noqa: ARG002
        found, self.records = self.records[:max_records], self.records[max_records:]
        self.positions.update({record.place: record.offset + 1 for record in found})
        return found

    def caught_up(self) -> bool:
        return not self.records

    def close(self) -> None:
        return None

    def held(self) -> frozenset[Partition]:
        return frozenset({("heldout.cell", 0)})

    def known_ends(self) -> Mapping[Partition, int]:
        return {("heldout.cell", 0): 9}

    def commit(self, outputs: Sequence[Outgoing], offsets: Mapping[Partition, int], crash: object) -> None:  # noqa: ARG002
        if self.fails:
            raise LogError("the gold answer is mitochondria")


def record(offset: int, value: bytes = b"the gold answer is mitochondria") -> Record:
    return Record(
        topic="heldout.cell",
        partition=0,
        offset=offset,
        key=b"a secret key",
        value=value,
        headers=(("ce_id", b"also secret"),),
        timestamp_ms=NOW_MS + offset,
    )


def values(text: bytes) -> dict[str, float]:
    """Sample name with labels -> value."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_what_the_loop_does_is_counted_on_its_way() -> None:
    metrics, log = Metrics(), ListLog(record(3), record(4))
    status = Status(service="evaluator", events_in=2, events_out=1, retries=1)
    metrics.follow(status)
    measured = metered(log, metrics, "evaluator", lambda: 1)
    executor = MeteredExecutor(InlineExecutor(), metrics, "evaluator")
    assert [r.offset for r in measured.poll(2, 0.0)] == [3, 4]
    held = values(metrics.text())
    assert held["bat_oldest_in_hand_timestamp_seconds{service=evaluator}"] == (NOW_MS + 3) / 1000
    in_flight = []
    executor.submit(lambda: in_flight.append(values(metrics.text())["bat_in_flight{service=evaluator}"])).result()
    assert in_flight == [1.0]
    with pytest.raises(ValueError, match="broke"):
        executor.submit(_broken).result()
    measured.commit([], {}, None)  # type: ignore[attr-defined]
    log.fails = True
    with pytest.raises(LogError):
        measured.commit([], {}, None)  # type: ignore[attr-defined]
    measured.poll(2, 0.0)  # what was given is done

    found = values(metrics.text())
    assert found["bat_events_in_total{service=evaluator}"] == 2
    assert found["bat_events_out_total{service=evaluator}"] == 1
    assert found["bat_retries_total{service=evaluator}"] == 1
    assert found["bat_rebalances_total{service=evaluator}"] == 2
    assert found["bat_assigned_partitions{service=evaluator}"] == 1
    assert found["bat_dead_letters_open{service=evaluator}"] == 1
    assert found["bat_position{partition=0,service=evaluator,topic=heldout.cell}"] == 5
    assert found["bat_lag_records{partition=0,service=evaluator,topic=heldout.cell}"] == 4
    assert found["bat_in_flight{service=evaluator}"] == 0
    assert found["bat_handler_duration_seconds_count{service=evaluator}"] == 2
    assert found["bat_transaction_duration_seconds_count{service=evaluator}"] == 1
    assert found["bat_transactions_failed_total{service=evaluator}"] == 1
    assert found["bat_oldest_in_hand_timestamp_seconds{service=evaluator}"] == 0
    assert found["bat_last_progress_timestamp_seconds{service=evaluator}"] > NOW_MS / 1000 - 1e9


def _broken() -> None:
    raise ValueError("broke")


def test_a_partition_that_went_is_not_told_any_more() -> None:
    metrics = Metrics()
    metrics.places("rollout", {("group", 0): 5, ("group", 1): 6}, {})
    metrics.places("rollout", {("group", 1): 7}, {("group", 1): 9})
    found = values(metrics.text())
    assert {name: value for name, value in found.items() if "group" in name} == {
        "bat_position{partition=1,service=rollout,topic=group}": 7,
        "bat_lag_records{partition=1,service=rollout,topic=group}": 2,
    }


def test_the_heldout_planes_metrics_are_numbers_under_closed_labels() -> None:
    metrics, log = Metrics(), ListLog(record(0))
    metrics.follow(Status(service="evaluator", doing="the gold answer is mitochondria"))
    measured = metered(log, metrics, "evaluator", lambda: 0)
    measured.poll(1, 0.0)
    log.fails = True
    with pytest.raises(LogError):
        measured.commit([], {}, None)  # type: ignore[attr-defined]
    text = metrics.text()
    assert b"mitochondria" not in text  # a word: digits stand in durations too
    assert b"gold" not in text
    assert b"secret" not in text
    closed = {"service": set(BY_PRINCIPAL) | set(GROUPS), "topic": set(BY_NAME)}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            for name, value in sample.labels.items():
                assert value in closed[name] if name in closed else re.fullmatch(r"[0-9.]+|\+Inf", value)


def test_a_supervisor_gathers_the_living_and_forgets_the_dead(tmp_path: Path) -> None:
    status, metrics = Status(service="gate", events_in=3), Metrics()
    metrics.follow(status)
    file = MetricsFile(tmp_path, "gate", metrics)
    file(status)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead = tmp_path / f"planner.{gone.pid}.prom"
    dead.write_bytes(metrics.text())
    found = {family.name: family for family in gathered(tmp_path)}
    assert [sample.labels for sample in found["bat_events_in"].samples] == [
        {"service": "gate", "pid": str(os.getpid())}
    ]
    assert [sample.labels["pid"] for sample in found["bat_written_timestamp_seconds"].samples] == [str(os.getpid())]
    assert not dead.exists()
    file.remove()
    assert list(tmp_path.iterdir()) == []


def test_prometheus_can_scrape_and_a_taken_port_is_said(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.follow(Status(service="gate", events_in=3))
    MetricsFile(tmp_path, "gate", metrics)(Status(service="gate"))
    with _free_port() as port:
        settings = MetricsSettings(port=port)
    stop = serve_metrics(settings, registry_of(lambda: gathered(tmp_path)))
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            found = values(answer.read())
        assert found[f"bat_events_in_total{{pid={os.getpid()},service=gate}}"] == 3
        with pytest.raises(ConfigurationError, match=f"metrics.port {port}"):
            serve_metrics(settings, metrics.registry)
    finally:
        stop()


def _free_port() -> "_Port":
    return _Port()


class _Port:
    def __enter__(self) -> int:
        import socket

        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        port: int = self._socket.getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def test_lag_has_an_age_only_where_something_waits() -> None:
    same = {"service": "rollout", "topic": "group", "position": 5, "end": 9, "members": 2}
    rows = [
        Lag(**same, partition=0, records=4, oldest_ms=NOW_MS),  # type: ignore[arg-type]
        Lag(**same, partition=1, records=0, oldest_ms=None),  # type: ignore[arg-type]
    ]
    found = {family.name: [s.value for s in family.samples] for family in as_metrics(rows, NOW_MS / 1000 + 60)}
    assert found == {
        "bat_group_lag_records": [4, 0],
        "bat_group_oldest_unhandled_age_seconds": [60, 0],
        "bat_group_members": [2],
    }


def test_the_groups_are_those_that_services_join() -> None:
    handlers = {
        "synthesizer": Synthesizer,
        "leakage-gate": LeakageGate,
        "leakage-gate-corpus": CorpusGate,
        "rollout": Rollout,
        "judge": Judge,
        "judge-shadow": ShadowJudge,
        "evaluator": Evaluator,
        "evaluator-fingerprints": Fingerprinter,
    }
    assert dict(GROUPS) == {group: handler.topic for group, handler in handlers.items()}
    workers = {name for p in PRINCIPALS if p.kind == "worker" and p.parks for name in p.own_names}
    assert set(GROUPS) == workers
    assert set(GROUPS) >= OPTIONAL
    assert {name for name in GROUPS if name in SERVICES} == {
        p.name for p in PRINCIPALS if p.kind == "worker" and p.parks
    }
