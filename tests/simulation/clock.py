"""Simulated time, and effects that take some of it. Test-only."""

import random
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class SimulatedClock:
    """A Clock that moves when the scheduler says so, or when somebody waits. `at` are seconds since the beginning."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> datetime:
        """See Clock."""
        return BEGIN + timedelta(seconds=self.at)

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return round(1000 * (BEGIN.timestamp() + self.at))

    def sleep(self, seconds: float) -> None:
        """See Clock: whoever waits lets time pass for everybody."""
        self.at += seconds


class SimulatedExecutor:
    """An Executor whose effects are done at once and known later: after as many seconds as `lasting` draws."""

    def __init__(self, clock: SimulatedClock, lasting: Callable[[], float]) -> None:
        self._clock, self._lasting = clock, lasting
        self.ends: float | None = None
        self._future: Future[Any] = Future()
        self._outcome: tuple[Any, Exception | None] = (None, None)

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        """See Executor. An effect that ends its process ends it at once."""
        self._future = Future()
        try:
            self._outcome = (call(), None)
        except Exception as error:  # noqa: BLE001  (handed to whoever asks for the result)
            self._outcome = (None, error)
        self.ends = self._clock.at + self._lasting()
        self.look()
        return self._future

    def look(self) -> None:
        """Hand the result over if its time has come."""
        if self.ends is None or self._clock.at < self.ends:
            return
        self.ends = None
        result, error = self._outcome
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)


def lasting(rng: random.Random, share: float) -> Callable[[], float]:
    """Draws how long an effect takes: this share of them some seconds, the others no time."""

    def draw() -> float:
        return rng.uniform(0.1, 8.0) if rng.random() < share else 0.0

    return draw
