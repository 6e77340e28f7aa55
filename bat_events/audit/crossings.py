"""What crossed the evaluation boundary, field by field: kinds come from the wire contract, not from the values.

Every record on a boundary topic is listed, also one that is a duplicate or no event at all: its bytes crossed as well.
Permitted in a body are numbers rounded to 1e-4, flags, closed enums and fixed-length ids; in headers the known ones,
each in its own form; as key the campaign.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel

from bat_events.codec import Fact
from bat_events.events.avro import schema_of
from bat_events.events.base import Event
from bat_events.events.envelope import ALLOWED_HEADERS
from bat_events.log.interface import Record

DIGITS = 4
_SAMPLE = 16
_KINDS = {"long": "number", "double": "number", "boolean": "flag", "enum": "enum", "fixed": "id"}
_SERVICE = re.compile(r"^(bat/)?[a-z-]{1,40}(/[0-9]{1,6})?$")
_FORMS: dict[str, tuple[str, re.Pattern[str] | None]] = {
    "content-type": ("constant", None),
    "ce_specversion": ("constant", None),
    "ce_id": ("id", None),
    "bat_cause": ("id", None),
    "bat_digest": ("id", None),
    "ce_dataschema": ("id", None),
    "ce_type": ("enum", None),
    "ce_time": ("time", None),
    "bat_ordinal": ("number", None),
    "bat_round": ("number", None),
    "bat_cost": ("numbers", None),
    "bat_cut": ("numbers", None),
    "ce_source": ("service", _SERVICE),
    "bat_logic": ("service", _SERVICE),
    "traceparent": ("id", re.compile(r"^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")),
    "ce_subject": ("campaign", None),
    "bat_campaign": ("campaign", None),
}
"""Header -> kind and form; None where decoding the envelope has already checked the form."""


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
        yield same | _header(name, raw.decode("utf-8", "backslashreplace"), fact)
    if fact is None:
        note = f"{len(record.value)} bytes that are no event"
        yield same | _row("body", "*", "undecodable", [], permitted=False, note=note)
        return
    crossed = fact.written  # not its upcast, which may lack something that crossed
    leaves: dict[str, list[Any]] = {path: [] for path in body_kinds(type(crossed))}
    _collect(crossed, "", leaves)
    for path, kind in body_kinds(type(crossed)).items():
        yield same | _body(path, kind, leaves[path])


def _header(name: str, value: str, fact: Fact | None) -> dict[str, Any]:
    if name not in ALLOWED_HEADERS or name not in _FORMS:
        return _row("header", name, "text", [value], permitted=False, note="not an allowed header")
    kind, form = _FORMS[name]
    if fact is None:
        return _row("header", name, kind, [value], permitted=False, note="of a record that is no event")
    if form is not None and not form.match(value):
        return _row("header", name, "text", [value], permitted=False, note="not in the form of this header")
    if kind == "campaign" and value != fact.envelope.campaign:
        return _row("header", name, "text", [value], permitted=False, note="not the campaign")
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
