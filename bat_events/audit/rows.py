"""Facts and records -> Arrow tables, one per DuckDB table."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from bat_events.codec import Fact
from bat_events.events.envelope import Cost
from bat_events.events.ids import event_id
from bat_events.log.interface import Record

_STAMP = pa.timestamp("us")
_TEXT, _LONG, _INT, _REAL, _FLAG = pa.string(), pa.int64(), pa.int32(), pa.float64(), pa.bool_()
_SECONDS = pa.list_(_REAL)
_PLACE = [("topic", _TEXT), ("partition", _INT), ("offset", _LONG)]
_COST = list(Cost.model_fields)
_NO_COST = Cost()
LAST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: a writer may say a later one, which is no time."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Where an object lay in memory: a rebuilt file shall say the same."""

EVENTS = pa.schema(
    [
        ("id", _TEXT),
        ("type", _TEXT),
        ("version", _INT),
        *_PLACE,
        ("campaign", _TEXT),
        ("round", _LONG),
        ("cause", _TEXT),
        ("ordinal", _LONG),
        ("logic", _TEXT),
        ("time", _STAMP),
        ("log_time", _STAMP),
        ("source", _TEXT),
        ("subject", _TEXT),
        ("body_digest", _TEXT),
        ("schema_digest", _TEXT),
        ("traceparent", _TEXT),
        ("cut", _TEXT),
        *((name, _SECONDS if name == "call_s" else _REAL if name.endswith("_s") else _LONG) for name in _COST),
        ("body_bytes", _LONG),
        ("id_follows", _FLAG),
        ("maker", _TEXT),
        ("copied_from", _TEXT),
        ("copied_offset", _LONG),
    ]
)
DUPLICATES = pa.schema(
    [
        ("id", _TEXT),
        ("type", _TEXT),
        *_PLACE,
        ("campaign", _TEXT),
        ("time", _STAMP),
        ("first_topic", _TEXT),
        ("first_partition", _INT),
        ("first_offset", _LONG),
        ("same_body", _FLAG),
    ]
)
UNDECODABLE = pa.schema(
    [
        *_PLACE,
        ("log_time", _STAMP),
        ("kind", _TEXT),
        ("error", _TEXT),
        ("ce_type", _TEXT),
        ("campaign", _TEXT),
        ("value_bytes", _LONG),
        ("value_digest", _TEXT),
    ]
)
CROSSINGS = pa.schema(
    [
        *_PLACE,
        ("id", _TEXT),
        ("type", _TEXT),
        ("campaign", _TEXT),
        ("time", _STAMP),
        ("place", _TEXT),
        ("path", _TEXT),
        ("kind", _TEXT),
        ("n", _LONG),
        ("lowest", _TEXT),
        ("highest", _TEXT),
        ("sample", pa.list_(_TEXT)),
        ("permitted", _FLAG),
        ("note", _TEXT),
    ]
)
OFFSETS = pa.schema([("topic", _TEXT), ("partition", _INT), ("next_offset", _LONG), ("updated", _STAMP)])


def event_rows(pairs: Sequence[tuple[Record, Fact]]) -> Any:
    """The envelopes of decoded records as an Arrow table."""
    envelopes = [fact.envelope for _, fact in pairs]
    costs = [envelope.cost or _NO_COST for envelope in envelopes]
    columns = {
        "id": [e.id for e in envelopes],
        "type": [fact.event.type_name() for _, fact in pairs],
        "version": [int(e.type.rpartition(".v")[2]) for e in envelopes],
        "topic": [record.topic for record, _ in pairs],
        "partition": [record.partition for record, _ in pairs],
        "offset": [record.offset for record, _ in pairs],
        "campaign": [e.campaign for e in envelopes],
        "round": [e.round for e in envelopes],
        "cause": [e.cause for e in envelopes],
        "ordinal": [e.ordinal for e in envelopes],
        "logic": [e.logic for e in envelopes],
        "time": [e.time for e in envelopes],
        "log_time": [_moment(record.timestamp_ms) for record, _ in pairs],
        "source": [e.source for e in envelopes],
        "subject": [e.subject for e in envelopes],
        "body_digest": [e.body_digest for e in envelopes],
        "schema_digest": [e.schema_digest for e in envelopes],
        "traceparent": [e.traceparent for e in envelopes],
        "cut": [None if e.cut is None else json.dumps(e.cut, sort_keys=True) for e in envelopes],
        **{name: [getattr(cost, name) for cost in costs] for name in _COST},
        "body_bytes": [len(record.value) for record, _ in pairs],
        "id_follows": [_id_follows(fact) for _, fact in pairs],
        "maker": [e.maker for e in envelopes],
        "copied_from": [e.origin[-1].campaign if e.origin else None for e in envelopes],
        "copied_offset": [e.origin[-1].offset if e.origin else None for e in envelopes],
    }
    return pa.Table.from_pydict(columns, schema=EVENTS)


def _id_follows(fact: Fact) -> bool:
    e = fact.envelope
    try:
        made = event_id(campaign=e.maker, cause=e.cause, type_name=fact.event.type_name(), ordinal=e.ordinal)
    except ValueError:  # a campaign of two lines has no ids
        return False
    return e.id == made


def _moment(timestamp_ms: int) -> datetime | None:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC) if 0 < timestamp_ms <= LAST_MS else None


def duplicate_row(fact: Fact, first: tuple[str, int, int, str]) -> dict[str, Any]:
    """The row of a later event of an id; `first` is (topic, partition, offset, body digest) of the one that counts."""
    return {
        "id": fact.id,
        "type": fact.event.type_name(),
        "topic": fact.topic,
        "partition": fact.partition,
        "offset": fact.offset,
        "campaign": fact.envelope.campaign,
        "time": fact.envelope.time,
        "first_topic": first[0],
        "first_partition": first[1],
        "first_offset": first[2],
        "same_body": first[3] == fact.envelope.body_digest,
    }


def duplicate_row_of(row: Mapping[str, Any], first: tuple[str, int, int, str]) -> dict[str, Any]:
    """The same of an event of which only its row of `events` is there."""
    same = ("id", "type", "topic", "partition", "offset", "campaign", "time")
    return {name: row[name] for name in same} | {
        "first_topic": first[0],
        "first_partition": first[1],
        "first_offset": first[2],
        "same_body": first[3] == row["body_digest"],
    }


def undecodable_row(record: Record, error: Exception) -> dict[str, Any]:
    """The row of a record that is no event: a reference, no bytes."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "log_time": _moment(record.timestamp_ms),
        "kind": type(error).__name__,
        "error": _ADDRESS.sub("", str(error))[:2000],
        "ce_type": _header(record, "ce_type"),
        "campaign": _header(record, "bat_campaign"),
        "value_bytes": len(record.value),
        "value_digest": hashlib.sha256(record.value).hexdigest(),
    }


def _header(record: Record, name: str) -> str | None:
    return next((raw.decode("utf-8", "replace")[:200] for key, raw in record.headers if key == name), None)
