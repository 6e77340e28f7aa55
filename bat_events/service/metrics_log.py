"""Measures what the service loop does through what it is given, so that the loop itself knows nothing of metrics."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from bat_events.log.interface import LogReader, Outgoing, Partition, Record
from bat_events.service.metrics import Metrics
from bat_events.service.runtime import Executor

T = TypeVar("T")
Log = TypeVar("Log", bound=LogReader)
Letters = Callable[[], int]
"""How many dead letters of a service are open."""

_SAMPLE_S = 1.0  # positions and counts of dead letters are looked at no more often


def metered(log: Log, metrics: Metrics, service: str, letters: Letters | None = None) -> Log:
    """The same log, measured. `letters` is asked from the loop's own thread, now and then."""
    return cast(Log, _MeteredLog(log, metrics, service, letters))


class _MeteredLog:
    """Whatever a log can do; polls, commits and signs of life are counted on their way."""

    def __init__(self, log: Any, metrics: Metrics, service: str, letters: Letters | None) -> None:
        self._log, self._metrics, self._service, self._letters = log, metrics, service, letters
        self._sampled = 0.0
        self._rebalances = 0
        self._metrics.in_hand.labels(service).set(0)
        self._metrics.failed.labels(service)  # 0 before the first
        self._metrics.progressed(service)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:
        """See LogReader.poll. Who asks for more has done what it was given."""
        self._metrics.in_hand.labels(self._service).set(0)
        records: list[Record] = self._log.poll(max_records, timeout_s)
        if records:
            self._metrics.in_hand.labels(self._service).set(min(r.timestamp_ms for r in records) / 1000)
            self._metrics.progressed(self._service)
        self._sample()
        return records

    def keep_alive(self) -> None:
        """See WorkerLog.keep_alive."""
        self._log.keep_alive()
        self._sample()

    def commit(self, outputs: Sequence[Outgoing], offsets: Mapping[Partition, int], *more: Any, **named: Any) -> None:
        """See ReactorLog.commit and WorkerLog.commit."""
        began = time.perf_counter()
        try:
            self._log.commit(outputs, offsets, *more, **named)
        except Exception:
            self._metrics.failed.labels(self._service).inc()
            raise
        self._metrics.committing.labels(self._service).observe(time.perf_counter() - began)
        self._metrics.progressed(self._service)

    def _sample(self) -> None:
        if time.monotonic() - self._sampled < _SAMPLE_S:
            return
        self._sampled = time.monotonic()
        name, log = self._service, self._log
        held = set(log.held())
        self._metrics.assigned.labels(name).set(len(held))
        rebalances = getattr(log, "rebalances", 0)
        self._metrics.rebalances.labels(name).inc(rebalances - self._rebalances)
        self._rebalances = rebalances
        positions = {where: offset for where, offset in log.positions.items() if where in held}
        self._metrics.places(name, positions, log.known_ends())
        if self._letters is not None:
            self._metrics.letters.labels(name).set(self._letters())


class MeteredExecutor:
    """An executor whose calls are timed and counted while they run."""

    def __init__(self, executor: Executor, metrics: Metrics, service: str) -> None:
        self._executor = executor
        self._in_flight = metrics.in_flight.labels(service)
        self._handling = metrics.handling.labels(service)

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        """See Executor."""

        def timed() -> T:
            with self._in_flight.track_inprogress(), self._handling.time():
                return call()

        return self._executor.submit(timed)
