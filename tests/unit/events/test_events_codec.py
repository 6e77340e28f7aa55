"""What was written is what is read, or a typed error says where: nothing is coerced, nothing passes unseen."""

import contextlib
import dataclasses
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from bat_events.codec import Codec, make_schema, schema_for
from bat_events.errors import BadBody, BadEnvelope, DecodeError, UnknownSchema
from bat_events.events.avro import schema_of
from bat_events.events.base import Event, event_types
from bat_events.events.rounds import GroupRequested
from bat_events.log.interface import Record
from bat_events.log.topics import BY_NAME
from tests.support.samples import as_record, sample, written

CODEC = Codec()


def _with(record: Record, **headers: bytes | None) -> Record:
    """The record with headers replaced (None removes); `__` in a name stands for `-`."""
    names = {name.replace("__", "-"): value for name, value in headers.items()}
    kept = [(name, value) for name, value in record.headers if name not in names]
    added = [(name, value) for name, value in names.items() if value is not None]
    return dataclasses.replace(record, headers=(*kept, *added))


@pytest.fixture
def record() -> Record:
    return as_record(written(sample(GroupRequested)), offset=41)


@pytest.mark.parametrize("salt", range(3))
@pytest.mark.parametrize("cls", event_types(), ids=lambda cls: cls.__name__)
def test_an_event_survives_the_wire(cls: type[Event], salt: int) -> None:
    event = sample(cls, salt)
    fact = CODEC.decode(as_record(written(event, key="key/1")))
    assert fact.event == event
    assert type(fact.event) is cls
    assert fact.envelope.subject == ("c1" if BY_NAME[cls.TOPIC].plane == "boundary" else "key/1")


def test_equal_events_have_equal_bytes() -> None:
    assert Codec.encode_body(sample(GroupRequested)) == Codec.encode_body(sample(GroupRequested))


def test_every_flipped_bit_of_the_body_is_found(record: Record) -> None:
    for position in range(len(record.value)):
        for bit in range(8):
            value = bytearray(record.value)
            value[position] ^= 1 << bit
            with pytest.raises(BadBody, match=r"group\[\d\]@41: "):
                CODEC.decode(dataclasses.replace(record, value=bytes(value)))


@pytest.mark.parametrize("cut", [0, 1, 7, -1])
def test_truncated_and_trailing_bytes_are_found_even_with_a_matching_digest(record: Record, cut: int) -> None:
    import hashlib

    for value in (record.value[:cut], record.value + b"\0" * (abs(cut) + 1)):
        changed = _with(dataclasses.replace(record, value=value), bat_digest=hashlib.sha256(value).hexdigest().encode())
        with pytest.raises(BadBody, match="@41"):
            CODEC.decode(changed)


def test_an_unknown_schema_is_its_own_error(record: Record) -> None:
    with pytest.raises(UnknownSchema, match="install a newer bat-events"):
        CODEC.decode(_with(record, ce_dataschema=b"sha256:" + b"0" * 64))
    with pytest.raises(UnknownSchema, match=r"bat\.GroupRequested\.v99"):
        CODEC.decode(_with(record, ce_type=b"bat.GroupRequested.v99"))


def test_a_schema_of_another_event_is_refused(record: Record) -> None:
    other = next(cls for cls in event_types() if cls.__name__ == "RoundPlanned")
    with pytest.raises(BadBody, match="not that of"):
        CODEC.decode(_with(record, ce_dataschema=b"sha256:" + schema_for(other).digest.encode()))


def test_an_event_on_a_topic_of_another_is_refused(record: Record) -> None:
    with pytest.raises(BadEnvelope, match="does not belong"):
        CODEC.decode(dataclasses.replace(record, topic="round"))


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"ce_id": None}, "ce_id"),
        ({"ce_id": b"short"}, "ce_id"),
        ({"ce_time": b"yesterday"}, "ce_time"),
        ({"ce_time": b"2026-01-02T03:04:05.678901"}, "ce_time"),
        ({"ce_specversion": b"0.3"}, "ce_specversion"),
        ({"content__type": b"application/json"}, "content-type"),
        ({"bat_ordinal": b"-1"}, "bat_ordinal"),
        ({"bat_ordinal": b"1.0"}, "bat_ordinal"),
        ({"bat_round": "٣".encode()}, "bat_round"),
        ({"bat_cut": b'{"round":{"0":"1"}}'}, "bat_cut"),
        ({"bat_cost": b'{"wall_s":-1}'}, "bat_cost"),
        ({"bat_cost": b'{"wall_s":NaN}'}, "bat_cost"),
        ({"bat_cause": b"\xff"}, "bat_cause"),
        ({"bat_digest": b"0"}, "bat_digest"),
        ({"ce_dataschema": b"0" * 64}, "ce_dataschema"),
    ],
)
def test_a_wrong_header_is_named(record: Record, headers: dict[str, Any], name: str) -> None:
    with pytest.raises(BadEnvelope, match=name):
        CODEC.decode(_with(record, **headers))


def test_a_doubled_header_is_refused_and_a_foreign_one_ignored(record: Record) -> None:
    with pytest.raises(BadEnvelope, match="twice"):
        CODEC.decode(dataclasses.replace(record, headers=(*record.headers, ("ce_id", b"0" * 32))))
    extra = dataclasses.replace(record, headers=(*record.headers, ("baggage", b"x")))
    assert CODEC.decode(extra).event == sample(GroupRequested)


@pytest.mark.parametrize(
    ("field", "value"),
    [("step", 1.0), ("step", True), ("step", "1"), ("step", -1), ("size", 0), ("group", "zz"), ("pool", "other")],
)
def test_no_value_is_coerced(field: str, value: object) -> None:
    data = sample(GroupRequested).model_dump()
    with pytest.raises(ValidationError):
        GroupRequested.model_validate({**data, field: value})


def test_fields_are_closed_and_numbers_finite() -> None:
    from bat_events.events.boundary import Effect

    with pytest.raises(ValidationError):
        GroupRequested.model_validate({**sample(GroupRequested).model_dump(), "more": 1})
    with pytest.raises(ValidationError):
        Effect(mean=float("nan"), deviation=None, n=1, lower80=None, upper80=None)


def test_a_field_added_with_a_default_is_read_by_avros_rules() -> None:
    older = schema_of(GroupRequested)
    codec = Codec()
    digest = codec.learn(make_schema({**older, "doc": "as an older writer had it"}).text)
    out = as_record(written(sample(GroupRequested)))
    assert codec.decode(_with(out, ce_dataschema=b"sha256:" + digest.encode())).event == sample(GroupRequested)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), junk=st.binary(max_size=200))
def test_any_bytes_give_an_event_or_a_typed_error(seed: int, junk: bytes) -> None:
    import hashlib

    rng = random.Random(seed)
    cls = rng.choice(list(event_types()))
    out = as_record(written(sample(cls)))
    value = bytearray(out.value)
    for _ in range(rng.randrange(4)):
        value[rng.randrange(len(value))] = rng.randrange(256)
    body = bytes(value) if rng.random() < 0.5 else junk
    digest = hashlib.sha256(body).hexdigest().encode()
    with contextlib.suppress(DecodeError):
        CODEC.decode(_with(dataclasses.replace(out, value=body), bat_digest=digest))
