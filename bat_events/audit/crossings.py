"""What crossed the evaluation boundary, field by field: kinds come from the wire contract, not from the values.

Every record on a boundary topic is listed, also one that is a duplicate or no event at all: its bytes crossed as well.
Permitted in a body are numbers rounded to 1e-4, flags, closed enums and fixed-length ids; in headers the known ones,
each in its own form; as key the campaign.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel

from bat_events.codec import Fact
from bat_events.events.avro import schema_of
from bat_events.events.base import Event
from bat_events.events.crossing import header_fault
from bat_events.log.interface import Record
from bat_events.log.topics import BY_NAME

DIGITS = 4
_SAMPLE = 16
_KINDS = {"long": "number", "double": "number", "boolean": "flag", "enum": "enum", "fixed": "id"}
_HEADER_KINDS = {
    "content-type": "constant",
    "ce_specversion": "constant",
    "ce_id": "id",
    "bat_cause": "id",
    "bat_digest": "id",
    "ce_dataschema": "id",
    "ce_type": "enum",
    "ce_time": "time",
    "bat_ordinal": "number",
    "bat_round": "number",
    "bat_cost": "numbers",
    "ce_source": "service",
    "bat_logic": "service",
    "traceparent": "id",
    "ce_subject": "campaign",
    "bat_campaign": "campaign",
}
"""Header -> kind; whether its value may cross is for events.crossing to say."""


def crossing_rows(record: Record, fact: Fact | None) -> Iterator[dict[str, Any]]:
    """The rows of one record on a boundary topic; `fact` is None where it could not be decoded."""
    same = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "id": fact.id if fact else None,
        "type": fact.event.type_name() if fact else None,
        "campaign": fact.envelope.campaign if fact else None,
        "time": fact.envelope.time if fact else None,
    }
    key = record.key.decode("utf-8", "backslashreplace")
    is_campaign = fact is not None and key == fact.envelope.campaign
    yield same | _row("key", "key", "campaign" if is_campaign else "text", [key], permitted=is_campaign)
    for name, raw in record.headers:
        yield same | _header(name, raw.decode("utf-8", "backslashreplace"), fact, record.topic)
    if fact is None:
        note = f"{len(record.value)} bytes that are no event"
        yield same | _row("body", "*", "undecodable", [], permitted=False, note=note)
        return
    crossed = fact.written  # not its upcast, which may lack something that crossed
    leaves: dict[str, list[Any]] = {path: [] for path in body_kinds(type(crossed))}
    _collect(crossed, "", leaves)
    for path, kind in body_kinds(type(crossed)).items():
        yield same | _body(path, kind, leaves[path])


def _header(name: str, value: str, fact: Fact | None, topic: str) -> dict[str, Any]:
    kind = _HEADER_KINDS.get(name, "text")
    if fact is None:
        return _row("header", name, kind, [value], permitted=False, note="of a record that is no event")
    fault = header_fault(name, value, topic=topic, writer=BY_NAME[topic].writer, campaign=fact.envelope.campaign)
    if fault is not None:
        return _row("header", name, "text", [value], permitted=False, note=fault)
    return _row("header", name, kind, [value], permitted=True)


def _body(path: str, kind: str, values: list[Any]) -> dict[str, Any]:
    permitted, note = kind in _KINDS.values(), None
    unrounded = [v for v in values if isinstance(v, float) and abs(round(v, DIGITS) - v) > 1e-12]
    if unrounded:
        permitted, note = False, f"{len(unrounded)} of {len(values)} numbers are not rounded to 1e-{DIGITS}"
    elif not permitted:
        note = "only numbers, flags, closed enums and ids may cross"
    return _row("body", path, kind, values, permitted=permitted, note=note)


def _row(
    place: str, path: str, kind: str, values: list[Any], *, permitted: bool, note: str | None = None
) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    distinct = sorted(set(known))
    return {
        "place": place,
        "path": path,
        "kind": kind,
        "n": len(known),
        "lowest": _text(distinct[0]) if distinct else None,
        "highest": _text(distinct[-1]) if distinct else None,
        "sample": [_text(value) for value in distinct[:_SAMPLE]],
        "permitted": permitted,
        "note": note,
    }


def _text(value: Any) -> str:
    return str(value)[:200]


@cache
def body_kinds(cls: type[Event]) -> dict[str, str]:
    """Path of every leaf of a body -> kind; list items share their list's path."""
    kinds: dict[str, str] = {}
    _walk(schema_of(cls), "", kinds, {})
    return kinds


def _walk(avro: Any, path: str, kinds: dict[str, str], named: dict[str, Any]) -> None:
    if isinstance(avro, list):
        _walk(avro[1], path, kinds, named)
    elif isinstance(avro, str):
        if avro in named:
            _walk(named[avro], path, kinds, named)
        else:
            kinds[path] = _KINDS.get(avro, "bytes" if avro == "bytes" else "text")
    elif avro["type"] == "array":
        _walk(avro["items"], path, kinds, named)
    else:
        named[f"{avro['namespace']}.{avro['name']}"] = avro
        if avro["type"] != "record":
            kinds[path] = _KINDS[avro["type"]]
            return
        for field in avro["fields"]:
            _walk(field["type"], f"{path}.{field['name']}".lstrip("."), kinds, named)


def _collect(value: Any, path: str, leaves: dict[str, list[Any]]) -> None:
    if isinstance(value, tuple):
        for part in value:
            _collect(part, path, leaves)
    elif isinstance(value, BaseModel):
        for name, part in value.__dict__.items():
            _collect(part, f"{path}.{name}".lstrip("."), leaves)
    elif path in leaves:
        leaves[path].append(value)
