"""The quick way of reading and writing bodies gives what fastavro and pydantic give: the same events, bytes and errors."""

import hashlib
import io
import math
import random
from collections.abc import Iterator
from typing import Annotated, Any

import fastavro
import pytest
from pydantic import Field, field_validator, model_validator

from bat_events import codec as codec_module
from bat_events.codec import Codec, schema_for
from bat_events.errors import DecodeError
from bat_events.events.avro import to_avro
from bat_events.events.bank import LeakageCheck, LeakageVerdict
from bat_events.events.base import Event, event_versions
from bat_events.events.rollouts import RewardScored, RolloutCompleted
from bat_events.events.types import NonNegative, Seq
from bat_events.events.wire import (
    Boolean,
    Choice,
    Double,
    Group,
    Hex,
    Long,
    Many,
    Maybe,
    Raw,
    Shape,
    Text,
    Unplanned,
    plan_of,
)
from bat_events.events.wire_reader import no_reader, reader_of
from bat_events.events.wire_writer import long_bytes, writer_of
from bat_events.log.interface import Record
from tests.support.comparing import all_of
from tests.support.fuzzing import Fuzzer
from tests.support.samples import as_record, sample, written

VERSIONS = list(event_versions())
LONGS = (-(2**63), -(2**31), -65, -64, -1, 0, 1, 2, 63, 64, 4095, 4096, 8192, 2**31, 2**53 + 1, 2**62, 2**63 - 1)
DOUBLES = (math.nan, math.inf, -math.inf, -1e-300, -0.0, 0.0, 0.25, 1.0, math.nextafter(1.0, 2.0), 600.0, 600.1, 1e300)
TEXTS = ("", "ä", "a" * 63, "a" * 64, "ä" * 500, "ä" * 501, "\0", "x" * 9000)


def drawn(shape: Shape, rng: random.Random, edge: float) -> Any:
    """A value as Avro has it: with the share `edge` one from the edge of what is allowed, and beyond."""
    odd = rng.random() < edge
    match shape:
        case Group():
            return {name: drawn(field, rng, edge) for name, field in shape.fields}
        case Many():
            return [
                drawn(shape.item, rng, edge)
                for _ in range(70 if odd and not isinstance(shape.item, Group) else rng.choice((0, 1, 2, 3)))
            ]
        case Maybe():
            return None if rng.random() < 0.3 else drawn(shape.inner, rng, edge)
        case Long():
            return rng.choice(LONGS) if odd else rng.randrange(2, 200)
        case Double():
            return rng.choice(DOUBLES) if odd else rng.choice((0.25, 0.5, 1.0))
        case Boolean():
            return rng.random() < 0.5
        case Raw():
            return rng.randbytes(rng.choice((0, 1, 63, 64, 8192)))
        case Text():
            return rng.choice(TEXTS) if odd else "text"
        case Hex():
            return rng.randbytes(shape.size)
        case Choice():
            return rng.choice(shape.members).value


def by_fastavro(cls: type[Event], data: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema_for(cls).parsed, data)
    return buffer.getvalue()


def outcome(codec: Codec, record: Record) -> Any:
    """All that can be told of what comes out of a record."""
    try:
        fact = codec.decode(record)
    except DecodeError as error:
        return type(error), str(error)
    parts = [fact.event, fact.written, fact.envelope]
    return [(type(part), all_of(part)) for part in parts], fact.topic, fact.partition, fact.offset


def thoroughly(records: list[Record], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What comes out where fastavro and pydantic alone are asked."""
    with monkeypatch.context() as patch:
        patch.setattr(codec_module, "quick_envelope", lambda _: None)
        patch.setattr(codec_module, "reader_of", lambda _: no_reader)
        codec = Codec()
        yield from [outcome(codec, record) for record in records]


def resealed(record: Record, value: bytes) -> Record:
    digest = hashlib.sha256(value).hexdigest().encode()
    headers = tuple((name, digest if name == "bat_digest" else raw) for name, raw in record.headers)
    return Record(**{**vars(record), "value": value, "headers": headers})


def test_every_version_of_every_event_has_a_plan() -> None:
    for cls in VERSIONS:
        assert plan_of(cls).cls is cls
        assert writer_of(cls) is not None


def test_almost_events_come_out_as_fastavro_and_pydantic_say(monkeypatch: pytest.MonkeyPatch) -> None:
    records = list(Fuzzer(seed=11).inputs(8_000))
    codec = Codec()
    quick = [outcome(codec, record) for record in records]
    for record, one, other in zip(records, quick, thoroughly(records, monkeypatch), strict=True):
        assert one == other, record


def test_values_at_and_beyond_every_bound_come_out_as_fastavro_and_pydantic_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(5)
    records = []
    for cls in VERSIONS:
        base = as_record(written(sample(RewardScored)))
        digest = schema_for(cls).digest.encode()
        swapped = {"ce_type": cls.ce_type().encode(), "ce_dataschema": b"sha256:" + digest}
        headers = tuple((name, swapped.get(name, raw)) for name, raw in base.headers)
        for number in range(16):
            value = by_fastavro(cls, drawn(plan_of(cls), rng, edge=(0.0, 0.02, 0.02, 0.3)[number % 4]))
            record = Record(**{**vars(base), "topic": cls.TOPIC, "headers": headers, "offset": number})
            records.append(resealed(record, value))
    codec = Codec()
    quick = [outcome(codec, record) for record in records]
    events = 0
    for record, one, other in zip(records, quick, thoroughly(records, monkeypatch), strict=True):
        assert one == other, record
        events += len(one) == 4
    assert len(records) / 5 < events < len(records)


@pytest.mark.parametrize("cls", VERSIONS, ids=lambda cls: cls.ce_type())
def test_what_is_written_is_what_fastavro_writes(cls: type[Event]) -> None:
    rng, write = random.Random(7), writer_of(cls)
    assert write is not None
    found = 0
    for _ in range(12):
        event = reader_of(cls)(by_fastavro(cls, drawn(plan_of(cls), rng, edge=0.02)))
        if event is None:
            continue
        found += 1
        assert write(event) == Codec.encode_body(event) == by_fastavro(cls, to_avro(cls)(event))
    assert found


@pytest.mark.parametrize("number", LONGS)
def test_numbers_are_written_as_fastavro_writes_them(number: int) -> None:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema("long"), number)
    assert long_bytes(number) == buffer.getvalue()


def test_bytes_that_avro_allows_and_no_writer_here_makes_are_read_all_the_same() -> None:
    event = sample(RewardScored).model_copy(update={"stages": (), "items": (), "texts": (), "failures": ("a", "b")})
    record = as_record(written(event))
    whole = b"\x04\x02a\x02b\0"
    others = {
        "two blocks": b"\x02\x02a\x02\x02b\0",
        "a block with its size": b"\x03\x08\x02a\x02b\0",
        "a long number": b"\x84\x00\x02a\x02b\0",
    }
    codec = Codec()
    assert record.value.count(whole) == 1
    for what, part in others.items():
        value = record.value.replace(whole, part)
        assert reader_of(RewardScored)(value) in (None, event), what
        assert codec.decode(resealed(record, value)).event == event, what


def test_an_instance_that_no_validation_saw_is_refused_as_before() -> None:
    reward = sample(RewardScored)
    for update in (
        {"group": "zz"},
        {"group": "ab"},
        {"index": 2**63},
        {"index": "1"},
        {"judge": None},
        {"items": (1,)},
    ):
        with pytest.raises((ValueError, OverflowError, TypeError, AttributeError)):
            Codec.encode_body(reward.model_copy(update=update))


class _Validated(Event):
    size: NonNegative

    @field_validator("size")
    @classmethod
    def _even(cls, size: int) -> int:
        return size


class _Crossed(Event):
    size: NonNegative

    @model_validator(mode="after")
    def _whole(self) -> "_Crossed":
        return self


class _Multiple(Event):
    size: Annotated[int, Field(multiple_of=3)]


class _Matched(Event):
    name: Annotated[str, Field(pattern="^a")]


class _Short(Event):
    names: Annotated[Seq[str], Field(max_length=2)]


class _Begun(Event):
    size: int

    def model_post_init(self, _: Any) -> None:
        pass


@pytest.mark.parametrize("cls", [_Validated, _Crossed, _Multiple, _Matched, _Short, _Begun])
def test_a_rule_that_plans_do_not_know_is_left_to_pydantic(cls: type[Event]) -> None:
    with pytest.raises(Unplanned):
        plan_of(cls)
    assert reader_of(cls) is no_reader
    assert writer_of(cls) is None


def test_a_number_of_items_beyond_the_bytes_is_not_waited_for() -> None:
    value = Codec.encode_body(
        sample(RolloutCompleted).model_copy(update={"receipts": None, "signer": None, "seal": None})
    )
    assert value.endswith(b"\0\0\0")
    assert reader_of(RolloutCompleted)(value[:-3] + b"\x02" + long_bytes(2**60)) is None


def test_sequences_that_begin_alike_are_told_apart_and_cut_ones_refused() -> None:
    rng = random.Random(8)
    verdict = sample(LeakageVerdict)
    bodies: dict[bytes, LeakageVerdict] = {}
    for _ in range(60):
        first = LeakageCheck(name="a name of more bytes than are looked at first", passed=True, evidence="none")
        more = tuple(
            LeakageCheck(name="other", passed=rng.random() < 0.5, evidence="x" * rng.choice((0, 1, 3000)))
            for _ in range(rng.randrange(4))
        )
        event = verdict.model_copy(update={"checks": (first, *more)})
        bodies[Codec.encode_body(event)] = event
    read = reader_of(LeakageVerdict)
    for body in rng.choices(list(bodies), k=600):
        assert read(body) == bodies[body]
        assert read(body[: rng.randrange(len(body))]) is None
        assert read(body + b"\0") is None
