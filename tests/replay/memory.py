"""A source over records in memory, and the ways in which tests falsify them."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bat_events.codec import Codec, Fact, schema_for
from bat_events.events.base import Event
from bat_events.events.envelope import Envelope
from bat_events.events.ids import event_id
from bat_events.log.interface import Partition, Record

_CODEC = Codec()


@dataclass
class MemorySource:
    """Source over a list of records."""

    kept: Sequence[Record]
    judged: Mapping[Partition, int] | None = None
    name: str = "memory"

    def schemas(self) -> Sequence[bytes]:
        """See Source.schemas."""
        return []

    def imports(self) -> Sequence[Record]:
        """See Source.imports."""
        return []

    def records(self) -> Iterator[Record]:
        """See Source.records."""
        return iter(self.kept)


def falsify(
    record: Record, *, event: Event | None = None, body: Mapping[str, Any] | None = None, **headers: Any
) -> Record:
    """The record with another event, other body fields or other envelope fields, all digests made to fit."""
    fact = _CODEC.decode(record)
    new = event or fact.event
    if body is not None:
        new = type(new).model_validate({**new.model_dump(), **body})
    value = Codec.encode_body(new)
    fields: dict[str, Any] = {
        "type": new.ce_type(),
        "schema_digest": schema_for(type(new)).digest,
        "body_digest": hashlib.sha256(value).hexdigest(),
        **headers,
    }
    return replace(record, value=value, headers=tuple(Codec.headers(replaced(fact.envelope, fields))))


def replaced(envelope: Envelope, fields: Mapping[str, Any]) -> Envelope:
    """The envelope with other fields, validated."""
    return Envelope.model_validate({**envelope.model_dump(), **fields})


def made_id(fact: Fact, event: Event, *, ordinal: int = 0) -> str:
    """The id that an event of the same cause has."""
    return event_id(
        campaign=fact.envelope.campaign, cause=fact.envelope.cause, type_name=event.type_name(), ordinal=ordinal
    )


def pick(records: Sequence[Record], wanted: Callable[[Fact], bool]) -> tuple[int, Fact]:
    """Position and fact of the first record that is wanted."""
    for number, record in enumerate(records):
        fact = _CODEC.decode(record)
        if wanted(fact):
            return number, fact
    raise LookupError("the campaign has no such event: choose another plan seed")


def swapped(records: Sequence[Record], number: int, record: Record | None) -> list[Record]:
    """The records with one replaced, or left out."""
    return [*records[:number], *([] if record is None else [record]), *records[number + 1 :]]
