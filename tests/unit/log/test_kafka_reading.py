"""A message of Kafka's client becomes a record: whatever a foreign producer left null is empty, and nothing is shared or lost."""

from typing import Any

import pytest
from confluent_kafka import Consumer

from bat_events.log.interface import Record
from bat_events.log.kafka_reader import Reading


class Message:
    """What the client hands out."""

    def __init__(self, key: Any, value: Any, headers: Any, topic: str = "demo.bank.state", partition: int = 2) -> None:
        self._key, self._value, self._headers = key, value, headers
        self._topic, self._partition = topic, partition

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return 7

    def key(self) -> Any:
        return self._key

    def value(self) -> Any:
        return self._value

    def headers(self) -> Any:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return 1, 1234


@pytest.fixture
def reading() -> Reading:
    return Reading(Consumer({"group.id": "g"}), "nowhere:9092", "demo")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([("a", b"1"), ("a", b"2")], (("a", b"1"), ("a", b"2"))),
        ([("a", b""), ("b", None), ("c", b"3")], (("a", b""), ("b", b""), ("c", b"3"))),
        (None, ()),
        ([], ()),
    ],
)
def test_headers_keep_their_order_and_null_is_empty(reading: Reading, given: Any, expected: Any) -> None:
    record = reading._take(Message(b"k", b"v", given))  # type: ignore[arg-type]
    wanted = Record(
        topic="bank.state", partition=2, offset=7, key=b"k", value=b"v", headers=expected, timestamp_ms=1234
    )
    assert record == wanted
    assert hash(record) == hash(wanted)
    assert repr(record) == repr(wanted)
    assert reading.positions == {("bank.state", 2): 8}


def test_a_key_or_value_that_is_null_is_empty(reading: Reading) -> None:
    record = reading._take(Message(None, None, None))  # type: ignore[arg-type]
    assert record is not None
    assert (record.key, record.value) == (b"", b"")


def test_topics_and_partitions_are_told_apart(reading: Reading) -> None:
    for topic, partition in (("demo.round", 0), ("demo.bank.state", 1), ("demo.round", 0), ("demo.bank.state", 0)):
        record = reading._take(Message(b"k", b"v", [], topic, partition))  # type: ignore[arg-type]
        assert record is not None
        assert (f"demo.{record.topic}", record.partition) == (topic, partition)
    with pytest.raises(ValueError, match="not in namespace"):
        reading._take(Message(b"k", b"v", [], "other.round"))  # type: ignore[arg-type]
