"""The in-memory log keeps the log's contract."""

from collections.abc import Sequence
from typing import Any

import pytest

from bat_events.errors import FencedError, Rebalanced
from bat_events.log.interface import Outgoing, Partition
from tests.log_contract import REACTOR_TOPICS, WORKER_TOPIC, LogContract, dies, nothing, out
from tests.simulation.memory_log import Broker, MemoryReactorLog, MemoryWorkerLog, MemoryWriter
from tests.support.samples import PARTITIONS


class TestMemoryLog(LogContract):
    """See LogContract."""

    @pytest.fixture(autouse=True)
    def _broker(self) -> None:
        self.broker = Broker(PARTITIONS, transaction_timeout_ms=10_000, gradual=True)

    def reactor(self, service: str = "s") -> Any:
        return MemoryReactorLog(self.broker, service=service, topics=REACTOR_TOPICS)

    def worker(self, service: str = "w", instance: str = "a") -> Any:
        return MemoryWorkerLog(self.broker, service=service, topic=WORKER_TOPIC, instance=instance)

    def write(self, outputs: Sequence[Outgoing]) -> None:
        MemoryWriter(self.broker, "test").publish(outputs)

    def kill(self, log: Any) -> None:
        """What it has open stays open in the broker."""

    transaction_s = 2.0

    def shorten_transactions(self) -> None:
        self.broker.transaction_timeout_ms = round(1000 * self.transaction_s)

    def cut(self, where: Partition, offset: int) -> None:
        self.broker.delete_before(where, offset)

    def test_a_frozen_member_loses_its_partitions_and_its_commits_are_refused(self) -> None:
        """On Kafka a process must be stopped for this: the chaos tests do."""
        self.write([out(WORKER_TOPIC, 0)])
        first = self.worker(instance="a")
        (record,) = self.read(first, 1)
        self.broker.set_silent(first, silent=True)
        second = self.worker(instance="b")
        assert second.poll(10, 44.0) == []
        assert not second.assigned()
        assert second.poll(10, 2.0) == []
        assert [r.value for r in self.read(second, 1)] == [b"v0"]
        assert len(second.assigned()) == 4
        with pytest.raises(Rebalanced, match="given to another"):
            first.commit([out("bank.state", 1)], {record.place: record.offset + 1}, nothing)
        assert second.standing(record.place) == (0, "")
        assert ("bank.state", 0) not in self.broker.records

    def test_a_transaction_whose_time_was_over_is_fenced(self) -> None:
        log = self.reactor()

        def sleeps(point: str) -> None:
            if point == "produced":
                self.broker.wait(11.0)

        with pytest.raises(FencedError):
            log.commit([out("round", 1)], {}, sleeps)
        assert ("round", 0) not in self.broker.records

    def test_an_offset_that_is_not_stable_is_waited_for(self) -> None:
        self.write([out(WORKER_TOPIC, 0)])
        first = self.worker(instance="a")
        (record,) = self.read(first, 1)
        with pytest.raises(KeyboardInterrupt):
            first.commit([], {record.place: record.offset + 1}, dies("offsets-sent"))
        self.broker.leave(first)
        second = self.worker(instance="b")
        assert second.poll(10, 0.0) == [], "nobody knows yet from where to read"
        assert second.standing(record.place) == (0, "")
        assert self.broker.time_ms() >= 10_000
        assert [r.value for r in self.read(second, 1)] == [b"v0"]
