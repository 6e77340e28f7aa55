"""The in-memory log keeps the log's contract."""

from collections.abc import Sequence
from typing import Any

import pytest

from bat_events.log.interface import Outgoing
from tests.log_contract import REACTOR_TOPICS, WORKER_TOPIC, LogContract
from tests.simulation.memory_log import Broker, MemoryReactorLog, MemoryWorkerLog
from tests.support.samples import PARTITIONS


class TestMemoryLog(LogContract):
    """See LogContract."""

    @pytest.fixture(autouse=True)
    def _broker(self) -> None:
        self.broker = Broker(PARTITIONS)

    def reactor(self, service: str = "s") -> Any:
        return MemoryReactorLog(self.broker, service=service, topics=REACTOR_TOPICS)

    def worker(self, service: str = "w", instance: str = "a") -> Any:
        return MemoryWorkerLog(self.broker, service=service, topic=WORKER_TOPIC, instance=instance)

    def write(self, outputs: Sequence[Outgoing]) -> None:
        self.broker.append(outputs)

    def kill(self, log: Any) -> None:
        """Nothing of it is left in the broker."""
