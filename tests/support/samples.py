"""A valid instance of any event type, made from its fields: one sample per type without one builder per type."""

import hashlib
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from bat_events.codec import Codec
from bat_events.deciders.interface import Draft
from bat_events.events.avro import _annotation, _optional, _strip
from bat_events.events.base import Event
from bat_events.log.interface import Outgoing, Record
from bat_events.log.topics import BY_NAME, TOPICS
from bat_events.service.emit import outgoing

PARTITIONS = {spec.name: 4 if spec.parallel else 1 for spec in TOPICS}
NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def sample(cls: type[BaseModel], salt: int = 0) -> Any:
    """An instance whose values differ with `salt`."""
    return cls.model_validate({name: _value(_annotation(info), name, salt) for name, info in cls.model_fields.items()})


def _value(annotation: Any, name: str, salt: int) -> Any:
    annotation, fixed = _strip(annotation)
    digest = hashlib.sha256(f"{name}{salt}".encode()).digest()
    if fixed is not None:
        return (digest * 2)[: fixed.size].hex()
    inner = _optional(annotation)
    if inner is not None:
        return None if digest[0] % 3 == 0 else _value(inner, name, salt)
    if get_origin(annotation) is tuple:
        return tuple(_value(get_args(annotation)[0], f"{name}{i}", salt) for i in range(1 + digest[1] % 3))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return sample(annotation, salt)
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return list(annotation)[digest[2] % len(annotation)]
    if annotation is bool:
        return digest[3] % 2 == 0
    if annotation is int:
        return 2 + digest[4] % 7
    if annotation is float:
        return 0.25 + digest[5] % 64 / 128
    if annotation is bytes:
        return digest
    assert annotation is str, annotation
    return f"{name} {salt} ä"


def draft(event: Event, *, campaign: str = "c1", cause: str = "0" * 32, ordinal: int = 0, key: str = "k") -> Draft:
    """A draft of an event."""
    return Draft(event=event, campaign=campaign, cause=cause, ordinal=ordinal, key=key, round=1)


def written(event: Event, **fields: Any) -> Outgoing:
    """The record that the service loop would write."""
    spec = BY_NAME[event.TOPIC]
    by = "test"
    if spec.plane == "boundary":  # only its own writer's records, under the campaign's key, may cross
        by, fields = spec.writer, fields | {"key": fields.get("campaign", "c1")}
    return outgoing(draft(event, **fields), source=f"bat/{by}", logic=f"{by}/1", time=NOW, partitions=PARTITIONS)


def as_record(out: Outgoing, offset: int = 0) -> Record:
    """A written record as it is read."""
    return Record(
        topic=out.topic,
        partition=out.partition,
        offset=offset,
        key=out.key,
        value=out.value,
        headers=out.headers,
        timestamp_ms=0,
    )


def fact(event: Event, offset: int = 0, **fields: Any) -> Any:
    """An event that went through the codec."""
    return _codec().decode(as_record(written(event, **fields), offset))


@cache
def _codec() -> Codec:
    return Codec()  # making one parses every committed schema
