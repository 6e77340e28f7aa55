"""A call of Kafka's client that never comes back must not hold a service for ever."""

import threading
import time
from typing import Any

import pytest

from bat_events.errors import LogError
from bat_events.log import kafka_writer
from bat_events.log.bounded import Bounded, Unanswered


def test_what_a_call_gives_or_raises_comes_through() -> None:
    bounded = Bounded("write")
    assert [bounded(lambda: 2, 5), bounded(threading.get_ident, 5)][0] == 2
    assert bounded(threading.get_ident, 5) == bounded(threading.get_ident, 5) != threading.get_ident()
    with pytest.raises(KeyError, match="x"):
        bounded(lambda: {}["x"], 5)


def test_a_call_that_does_not_come_back_is_given_up_and_so_is_its_client() -> None:
    bounded = Bounded("write as planner")
    with pytest.raises(Unanswered, match=r"cannot write as planner: Kafka's client did not come back within 0\.1 s"):
        bounded(threading.Event().wait, 0.1)
    with pytest.raises(Unanswered, match="an earlier call never came back"):
        bounded(lambda: 2, 5)


def test_its_thread_ends_with_it() -> None:
    bounded = Bounded("write")
    thread = bounded(threading.current_thread, 5)
    del bounded
    thread.join(5)
    assert not thread.is_alive()


class _Hanging:
    """A producer whose group coordinator went away: it waits for ever in the call that sends offsets."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.aborted = 0

    def begin_transaction(self) -> None: ...

    def poll(self, _: float) -> int:
        return 0

    def send_offsets_to_transaction(self, *_: Any) -> None:
        threading.Event().wait()

    def abort_transaction(self, _: float) -> None:
        self.aborted += 1


def test_a_transaction_whose_offsets_are_never_answered_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_writer, "Producer", _Hanging)
    monkeypatch.setattr(kafka_writer, "_ENDING_S", 0.1)
    monkeypatch.setattr(kafka_writer, "_BACK_S", 0.1)
    writing = kafka_writer.Writing(bootstrap="nowhere:1", namespace="n", transactional_id="planner")
    began = time.monotonic()
    with pytest.raises(LogError, match="planner: Kafka's client did not come back"):
        writing.write([], [object()], object(), lambda _: None)  # type: ignore[list-item]
    assert time.monotonic() - began < 5
    assert writing._producer.aborted == 0  # the client is stuck: whoever comes next fences it
