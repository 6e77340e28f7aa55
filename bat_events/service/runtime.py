"""What a machine is given: clock, executor, crash points, status. Nothing in service/ reaches for these itself."""

import gc
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from bat_events.deciders.interface import Draft

T = TypeVar("T")


class Clock(Protocol):
    """Wall time for envelopes, and waiting between retries."""

    def now(self) -> datetime: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Now, in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        import time

        time.sleep(seconds)


class Executor(Protocol):
    """Runs an effect; the loop goes on polling while the future is not done."""

    def submit(self, call: Callable[[], T]) -> "Future[T]": ...


class InlineExecutor:
    """Runs an effect at once, in this thread (simulation, deterministic tests)."""

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        """The finished future of the call."""
        future: Future[T] = Future()
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001  (handed to whoever asks for the result)
            future.set_exception(error)
        return future


class ThreadExecutor:
    """Runs one effect at a time in a thread of its own."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="effect")

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        """The future of the call."""
        return self._pool.submit(call)


def collect_seldom() -> None:
    """Let Python look for cycles once in 20,000 new containers: reading makes many, and next to none of them are in cycles.

    At Python's own 700 that search took a quarter of the time in which a reactor folds its log.
    """
    gc.freeze()  # what a service is made of stays
    gc.set_threshold(20_000, 10, 10)


def no_crash(_: str) -> None:
    """The crash point of production: nothing happens."""


@dataclass
class Status:
    """What a service is doing, for people: never read by a service."""

    service: str
    doing: str = "starting"
    events_in: int = 0
    events_out: int = 0
    retries: int = 0
    behind: bool = True
    listeners: list[Callable[["Status"], None]] = field(default_factory=list)

    def say(self, doing: str) -> None:
        """Set what is being done now and tell the listeners."""
        self.doing = doing
        self.tell()

    def tell(self) -> None:
        """Tell the listeners."""
        for listener in self.listeners:
            listener(self)


class Retryable(Exception):
    """A handler's infrastructure failed in a way that may pass: the event is tried again, then parked."""


class GivenUp(Exception):
    """A handler will not try an event again by itself: `drafts` go on the log, the event stays to be handled, the service halts.

    So what was not measured is on record, nothing is skipped, and whoever mends the cause starts the service again.
    """

    def __init__(self, message: str, drafts: Sequence[Draft] = ()) -> None:
        self.drafts = drafts
        super().__init__(message)


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often a handler is tried, the waits between in seconds, and how often a process may die of one record."""

    waits_s: Sequence[float] = (0.5, 2.0, 5.0)
    deaths: int = 5
