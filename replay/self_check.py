"""Whether an event fits itself: what can be told from one record alone, for saying what differs in a changed one."""

import hashlib
import io
from typing import Any

import fastavro

from bat_events.domain.sealing import content_bytes
from bat_events.events.envelope import from_headers
from bat_events.events.ids import event_id
from bat_events.log.interface import Record
from bat_events.log.topics import BY_NAME, EVERY_SERVICE
from bat_events.replay.archive_format import RECORD_SCHEMA

_CONTENT_SCHEMA = fastavro.parse_schema(
    {
        **RECORD_SCHEMA,
        "name": "Content",
        "fields": [f for f in RECORD_SCHEMA["fields"] if f["name"] not in ("ordinal", "offset")],
    }
)


def decode_content(content: bytes, topic: str, partition: int) -> Record:
    """The record of a content (offset -1). Raises ValueError where the bytes are none."""
    buffer = io.BytesIO(content)
    try:
        row: Any = fastavro.schemaless_reader(buffer, _CONTENT_SCHEMA, None)
    except (ValueError, EOFError, LookupError, TypeError, OverflowError, MemoryError) as error:
        raise ValueError(f"no record of an archive: {error}") from None
    record = Record(
        topic=topic,
        partition=partition,
        offset=-1,
        key=row["key"],
        value=row["value"],
        headers=tuple((header["name"], header["value"]) for header in row["headers"]),
        timestamp_ms=row["timestamp_ms"],
    )
    if content_bytes(record.key, record.value, record.headers, record.timestamp_ms) != content:
        raise ValueError("its bytes are not as this project writes them")
    return record


def id_of(content: bytes) -> str:
    """The id that an event names; empty where it names none."""
    try:
        record = decode_content(content, "", 0)
    except ValueError:
        return ""
    return next((value.decode("utf-8", "replace") for name, value in record.headers if name == "ce_id"), "")


def faults(topic: str, partition: int, content: bytes) -> list[str]:
    """What of a record does not fit the rest of it, in words; empty where all fits."""
    del partition
    try:
        record = decode_content(content, topic, 0)
    except ValueError as error:
        return [str(error)]
    try:
        envelope = from_headers(record.headers)
    except ValueError as error:
        return [str(error)]
    found = []
    if hashlib.sha256(record.value).hexdigest() != envelope.body_digest:
        found.append("value: it is not the one of header bat_digest")
    if record.key.decode("utf-8", "replace") != envelope.subject:
        found.append("key: it is not that of header ce_subject")
    type_name = envelope.type.split(".")[1] if envelope.type.count(".") == 2 else ""
    made = event_id(campaign=envelope.campaign, cause=envelope.cause, type_name=type_name, ordinal=envelope.ordinal)
    if made != envelope.id:
        found.append("headers: ce_id does not follow from campaign, cause, type and ordinal")
    writer = BY_NAME[topic].writer if topic in BY_NAME else EVERY_SERVICE
    if writer not in (EVERY_SERVICE, envelope.logic.partition("/")[0]):
        found.append(f"headers: bat_logic {envelope.logic} is not of this topic's writer")
    return found
