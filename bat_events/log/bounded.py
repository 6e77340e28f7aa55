"""Calls of a C client that may never come back, given up after a while.

librdkafka's `send_offsets_to_transaction` does not keep to its time-out where the coordinator went away meanwhile (librdkafka
issue 5456, open as of 2.14): after a broker was killed, a service would wait in it for ever. A call that was given up goes
on in its thread: the client that it belongs to can no longer be used, and its process should end.
"""

import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any

from bat_events.errors import LogError


class Unanswered(LogError):
    """The client did not come back; whether the call was carried out is unknown."""


_Answers = queue.SimpleQueue[tuple[bool, Any]]
_Calls = queue.SimpleQueue[tuple[Callable[[], Any], _Answers] | None]


class Bounded:
    """Runs one call at a time in a thread of its own, which does not keep the process alive and ends with this object."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._calls: _Calls = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lost = False
        weakref.finalize(self, self._calls.put, None)

    def __call__(self, call: Callable[[], Any], limit_s: float) -> Any:
        """What `call` gives or raises. Raises Unanswered after `limit_s` seconds, and at once ever after."""
        if self._lost:
            raise Unanswered(f"cannot {self._doing}: an earlier call never came back")
        if self._thread is None:
            self._thread = threading.Thread(target=_run, args=(self._calls,), name="bounded", daemon=True)
            self._thread.start()
        answers: _Answers = queue.SimpleQueue()
        self._calls.put((call, answers))
        try:
            failed, value = answers.get(timeout=limit_s)
        except queue.Empty:
            self._lost = True
            raise Unanswered(
                f"cannot {self._doing}: Kafka's client did not come back within {limit_s:g} s, as it does not where a "
                "broker went away at the wrong moment"
            ) from None
        if failed:
            raise value
        return value


def _run(calls: _Calls) -> None:
    while (asked := calls.get()) is not None:
        call, answers = asked
        try:
            answers.put((False, call()))
        except Exception as error:  # noqa: BLE001  (raised again in the thread that asked)
            answers.put((True, error))
        del asked, call, answers  # a client that nobody else holds can go
