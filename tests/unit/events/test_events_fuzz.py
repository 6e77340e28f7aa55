"""Whatever bytes come, an event or a typed error that names its place comes out. A million of them: `make bench NAME=fuzz`."""

from collections import Counter

from bat_events.codec import Codec
from bat_events.errors import DecodeError
from bat_events.log.interface import Record
from tests.support.fuzzing import Fuzzer

INPUTS = 40_000


def outcome(codec: Codec, record: Record) -> str:
    """What comes out: "event", or the kind of error, where that names the record's place."""
    try:
        codec.decode(record)
    except DecodeError as error:
        named = (error.topic, error.partition, error.offset) == (record.topic, record.partition, record.offset)
        return type(error).__name__ if named else "an error without its place"
    return "event"


def test_almost_events_give_typed_errors_only() -> None:
    codec = Codec()
    found = Counter(outcome(codec, record) for record in Fuzzer(seed=7).inputs(INPUTS))
    assert set(found) == {"event", "BadBody", "BadEnvelope", "UnknownSchema"}
    assert min(found.values()) > INPUTS / 200, found
