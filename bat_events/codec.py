"""Avro <-> event, strictly: what was written is what is read, or a typed error says where.

The body's SHA-256 stands in the envelope, so a flipped bit that still decodes is found. Writer schemas are looked up by
digest among the committed ones and those learnt from the schema topic. An event of an earlier version is read as that
version and upcast here, so that every reader sees the newest one; its envelope stays as it was recorded.

Two ways lead to the same result: the quick one (events.headers, events.wire_reader, events.wire_writer), made for what this
project's writers make, and the thorough one (fastavro, pydantic), which decides and explains wherever the quick one doubts.
"""

import hashlib
import io
import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import fastavro
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException
from pydantic import ValidationError

from bat_events.domain.canonical import canonical_json
from bat_events.errors import BadBody, BadEnvelope, TooLarge, UnknownSchema
from bat_events.events.avro import from_avro, schema_of, to_avro
from bat_events.events.base import Event, OldEvent, event_type, event_versions, newest
from bat_events.events.envelope import Envelope, from_headers, to_headers
from bat_events.events.fact import Fact
from bat_events.events.headers import MOST_BYTES, quick_envelope
from bat_events.events.wire_reader import Reader, no_reader, reader_of
from bat_events.events.wire_writer import writer_of
from bat_events.frozen import filled
from bat_events.log.interface import MAXIMUM_BYTES, Record

__all__ = ["Codec", "Fact", "Schema", "make_schema", "schema_file", "schema_folder", "schema_for"]


@dataclass(frozen=True, kw_only=True)
class Schema:
    """One Avro schema; `digest` is SHA-256 of its canonical JSON (Avro's own fingerprint ignores logical types).

    `ce_type` is the version of an event that it belongs to, such as `bat.RoundPlanned.v1`.
    """

    digest: str
    ce_type: str
    text: bytes
    parsed: Any


def make_schema(data: dict[str, Any]) -> Schema:
    """A schema from its JSON data."""
    text = canonical_json(data)
    return Schema(
        digest=hashlib.sha256(text).hexdigest(),
        ce_type=f"bat.{data.get('name')}.v{data.get('version')}",
        text=text,
        parsed=fastavro.parse_schema(json.loads(text)),
    )


@cache
def schema_for(cls: type[Event]) -> Schema:
    """The schema of an event type, in the version of the class."""
    return make_schema(schema_of(cls))


def schema_file(cls: type[Event]) -> str:
    """The name of an event type's committed schema file, in the version of the class."""
    return f"{cls.type_name()}.v{cls.VERSION}.avsc"


def schema_folder() -> Path:
    """Where the committed schemas lie: inside the package, so that an installed wheel has them."""
    return Path(str(resources.files("bat_events") / "schemas"))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    """What is needed to decode bodies of one type and one writer's schema."""

    cls: type[Event]
    writer: Schema
    topics: tuple[str, ...]
    is_old: bool
    read: Reader


class Codec:
    """Encodes events for the log and decodes records. Learns writer schemas as they are met on the schema topic."""

    def __init__(self) -> None:
        self._schemas: dict[str, Schema] = {}
        self._known: dict[tuple[str, str], _Known] = {}
        for path in sorted(schema_folder().glob("*.avsc")):
            schema = make_schema(json.loads(path.read_bytes()))
            self._schemas[schema.digest] = schema
        for cls in event_versions():
            self._schemas.setdefault(schema_for(cls).digest, schema_for(cls))

    def learn(self, text: bytes) -> str:
        """Take a schema from the schema topic; returns its digest."""
        schema = make_schema(json.loads(text))
        return self._schemas.setdefault(schema.digest, schema).digest

    def schemas(self) -> list[Schema]:
        """Every known schema, in order of digest."""
        return [self._schemas[digest] for digest in sorted(self._schemas)]

    @staticmethod
    def encode_body(event: Event) -> bytes:
        """The plain Avro body."""
        write = writer_of(type(event))
        if write is not None:
            try:
                return write(event)
            except Exception:  # noqa: BLE001  (not as pydantic makes it: fastavro says what is wrong)
                pass
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, schema_for(type(event)).parsed, to_avro(type(event))(event), strict=True)
        return buffer.getvalue()

    @staticmethod
    def headers(envelope: Envelope) -> list[tuple[str, bytes]]:
        """The record headers of an envelope."""
        return to_headers(envelope)

    def decode(self, record: Record) -> Fact:
        """The event of a record.

        Raises TooLarge, BadEnvelope, UnknownSchema or BadBody, each with topic, partition and offset.
        """
        topic, partition, offset, value = record.topic, record.partition, record.offset, record.value
        where = {"topic": topic, "partition": partition, "offset": offset}
        envelope = quick_envelope(record.headers)
        if envelope is None or len(record.key) + len(value) > MAXIMUM_BYTES - MOST_BYTES:
            envelope = self._envelope(record, where)
        written, event = self.event_of(
            value,
            ce_type=envelope.type,
            schema_digest=envelope.schema_digest,
            body_digest=envelope.body_digest,
            where=where,
        )
        return filled(
            Fact,
            {
                "event": event,
                "envelope": envelope,
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "earlier": None if event is written else written,
            },
        )

    @staticmethod
    def _envelope(record: Record, where: dict[str, Any]) -> Envelope:
        if record.size > MAXIMUM_BYTES:
            raise TooLarge(f"{record.size:,} bytes; a record has {MAXIMUM_BYTES:,} at most", **where)
        try:
            return from_headers(record.headers)
        except ValueError as error:
            raise BadEnvelope(str(error), **where) from None

    def event_of(
        self, value: bytes, *, ce_type: str, schema_digest: str, body_digest: str, where: dict[str, Any]
    ) -> tuple[Event, Event]:
        """The event of a body whose envelope was read: as it was written, and in the newest version.

        `where` holds topic, partition and offset. Raises BadEnvelope, UnknownSchema or BadBody, each with them.
        """
        known = self._known.get((ce_type, schema_digest))
        if known is None:
            known = self._known[(ce_type, schema_digest)] = self._find(ce_type, schema_digest, where)
        if hashlib.sha256(value).hexdigest() != body_digest:
            raise BadBody("the body's SHA-256 is not the envelope's: the bytes were changed or cut", **where)
        if where["topic"] not in known.topics:
            raise BadEnvelope(f"{ce_type} does not belong on this topic", **where)
        written = known.read(value)
        if written is None:
            return self._body(known.cls, known.writer, value, where)
        return written, newest(written) if known.is_old else written

    def _find(self, ce_type: str, schema_digest: str, where: dict[str, Any]) -> "_Known":
        cls = event_type(ce_type)
        writer = self._schemas.get(schema_digest)
        if cls is None or writer is None:
            missing = f"type {ce_type}" if cls is None else f"schema {schema_digest}"
            raise UnknownSchema(f"{missing} is not known here: install a newer bat-events", **where)
        if writer.ce_type != ce_type:
            raise BadBody(f"the schema of {writer.ce_type} is not that of {ce_type}", **where)
        return _Known(
            cls=cls,
            writer=writer,
            topics=cls.topics(),
            is_old=issubclass(cls, OldEvent),
            read=reader_of(cls) if writer.digest == schema_for(cls).digest else no_reader,
        )

    def glimpse(self, record: Record) -> Any:
        """For people: what a record's bytes say by the schema that its header names, unchecked; None where nothing can be
        read so. Never an event."""
        named = [raw.decode("ascii", "replace") for name, raw in record.headers if name == "ce_dataschema"]
        schema = self._schemas.get(named[0].removeprefix("sha256:")) if named else None
        if schema is None or record.size > MAXIMUM_BYTES:
            return None
        try:
            return fastavro.schemaless_reader(io.BytesIO(record.value), schema.parsed, None)
        except Exception:  # noqa: BLE001  (any bytes may stand there, and nothing depends on this)
            return None

    @staticmethod
    def _body(cls: type[Event], writer: Schema, value: bytes, where: dict[str, Any]) -> tuple[Event, Event]:
        """The event as it was written, and in the newest version."""
        buffer = io.BytesIO(value)
        reader = schema_for(cls)
        try:
            if writer.digest == reader.digest:
                data = fastavro.schemaless_reader(buffer, writer.parsed, None)
            else:
                data = fastavro.schemaless_reader(buffer, writer.parsed, reader.parsed)
        except (
            EOFError,
            ValueError,
            IndexError,
            TypeError,
            OverflowError,
            UnicodeDecodeError,
            MemoryError,
            KeyError,
        ) as error:
            said = str(error).replace(
                f" from {buffer!r}", ""
            )  # its address would make each letter about it another one
            raise BadBody(f"not an Avro {cls.__name__}: {type(error).__name__}: {said}", **where) from None
        except (SchemaParseException, SchemaResolutionError) as error:
            raise BadBody(f"the writer's schema cannot be read as {cls.__name__}: {error}", **where) from None
        if buffer.tell() != len(value):
            raise BadBody(f"{len(value) - buffer.tell()} bytes trail the {cls.__name__}", **where)
        from_avro(cls)(data)  # type: ignore[arg-type]
        try:
            written = cls.model_validate(data)
            return written, newest(written)
        except ValidationError as error:
            first = error.errors()[0]
            path = ".".join(str(part) for part in first["loc"])
            raise BadBody(f"{cls.__name__}.{path}: {first['msg']}", **where) from None
