"""The circumstances of an event: CloudEvents headers of the Kafka binding (binary mode) and this project's own.

Nothing here enters an event's body digest. A decision's time is its newest input's, so replay makes the same one.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field, ValidationError

from bat_events.events.types import NonNegative, Record, Seq

Cut = dict[str, dict[int, int]]
"""topic (without namespace) -> partition -> next offset that had not been seen."""

CONTENT_TYPE = "application/avro"


class Cost(Record):
    """What a worker spent on an event. Only what was measured is set: missing is not zero.

    `call_s` are the durations of a rollout's calls, in the order of its receipts.
    """

    wall_s: Annotated[float, Field(ge=0)] | None = None
    device_s: Annotated[float, Field(ge=0)] | None = None
    sandbox_s: Annotated[float, Field(ge=0)] | None = None
    tokens_in: NonNegative | None = None
    tokens_out: NonNegative | None = None
    bytes_out: NonNegative | None = None
    call_s: Seq[Annotated[float, Field(ge=0)]] | None = None


class Place(Record):
    """Where an event stood on the log of a campaign that it was copied from; topic and partition are the same there."""

    campaign: str
    offset: NonNegative


class Envelope(Record):
    """The typed headers of one event. `cut` is set on decisions, `cost` on workers' events.

    `origin` is set on copies in a fork: every log that the event stood on before, its maker's first. A copy's id is the one
    that its maker gave it, and its cut names offsets of its maker's log.
    """

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    source: str
    type: str
    time: datetime
    subject: str
    schema_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    body_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    campaign: str
    cause: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    ordinal: NonNegative
    logic: str
    round: NonNegative | None = None
    traceparent: str | None = None
    cut: Cut | None = None
    cost: Cost | None = None
    origin: Seq[Place] | None = None

    @property
    def maker(self) -> str:
        """The campaign that the event's id derives from."""
        return self.campaign if self.origin is None else self.origin[0].campaign


_HEADERS = {
    "ce_id": "id",
    "ce_source": "source",
    "ce_type": "type",
    "ce_time": "time",
    "ce_subject": "subject",
    "ce_dataschema": "schema_digest",
    "bat_digest": "body_digest",
    "bat_campaign": "campaign",
    "bat_cause": "cause",
    "bat_ordinal": "ordinal",
    "bat_logic": "logic",
    "bat_round": "round",
    "traceparent": "traceparent",
    "bat_cut": "cut",
    "bat_cost": "cost",
    "bat_origin": "origin",
}
_CONSTANT = {"ce_specversion": "1.0", "content-type": CONTENT_TYPE}
ALLOWED_HEADERS = frozenset(_HEADERS) | frozenset(_CONSTANT)
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$", re.ASCII)
_MAX_INT = 2**63 - 1
_SCHEMA_PREFIX = "sha256:"


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with microseconds; raises ValueError on a naive time."""
    if moment.tzinfo is None:
        raise ValueError(f"time {moment!r} has no time zone: events carry UTC")
    return f"{moment.astimezone(UTC).isoformat(timespec='microseconds')[:-6]}Z"


def parse_time(text: str) -> datetime:
    """The inverse of `format_time`, strict."""
    if not _TIME.match(text):
        raise ValueError("not of the form 2026-01-02T03:04:05.678901Z")
    return datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC)


def format_cut(cut: Cut) -> str:
    """A cut as compact JSON, topics and partitions in order."""
    return f"{{{','.join([f'{_quoted(topic)}:{_offsets(parts)}' for topic, parts in sorted(cut.items())])}}}"


_quoted = lru_cache(256)(json.dumps)


def _offsets(parts: dict[int, int]) -> str:
    return "{" + ",".join([f'"{partition}":{offset}' for partition, offset in sorted(parts.items())]) + "}"


def parse_cut(text: str) -> Cut:
    """The inverse of `format_cut`, strict. Raises ValueError."""
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("a cut is not nested so deeply") from None
    if not isinstance(data, dict):
        raise ValueError("a cut is a mapping of topics")
    cut: Cut = {}
    for topic, parts in data.items():
        if not isinstance(parts, dict):
            raise ValueError(f"topic {topic} needs a mapping of partitions")
        for partition, offset in parts.items():
            if not (partition.isascii() and partition.isdigit()) or type(offset) is not int or offset < 0:
                raise ValueError(f"{topic}[{partition}] has offset {offset!r}: a whole number is needed")
        cut[topic] = {int(partition): offset for partition, offset in parts.items()}
    return cut


def format_origin(places: Sequence[Place]) -> str:
    """Places as compact JSON: [["campaign",17],["campaign~fork",12]]."""
    return json.dumps([[place.campaign, place.offset] for place in places], separators=(",", ":"))


def parse_origin(text: str) -> tuple[Place, ...]:
    """The inverse of `format_origin`, strict. Raises ValueError."""
    data = json.loads(text)
    if not isinstance(data, list) or not data or any(not isinstance(pair, list) or len(pair) != 2 for pair in data):
        raise ValueError("an origin is a list of pairs of campaign and offset")
    return tuple(Place.model_validate({"campaign": name, "offset": offset}) for name, offset in data)


def to_headers(envelope: Envelope) -> list[tuple[str, bytes]]:
    """Headers in a fixed order; fields that are None are left out."""
    headers = [(name, value.encode()) for name, value in _CONSTANT.items()]
    for name, field in _HEADERS.items():
        value: Any = getattr(envelope, field)
        if value is None:
            continue
        if field == "time":
            text = format_time(value)
        elif field == "schema_digest":
            text = _SCHEMA_PREFIX + value
        elif field == "cut":
            text = format_cut(value)
        elif field == "cost":
            text = value.model_dump_json(exclude_none=True)
        elif field == "origin":
            text = format_origin(value)
        else:
            text = str(value)
        headers.append((name, text.encode()))
    return headers


def to_headers_order() -> tuple[tuple[str, bool], ...]:
    """(name, whether it is always there) of every header, in the order in which `to_headers` gives them."""
    fields = Envelope.model_fields
    return (
        *((name, True) for name in _CONSTANT),
        *((name, fields[field].is_required()) for name, field in _HEADERS.items()),
    )


def from_headers(headers: Sequence[tuple[str, bytes]]) -> Envelope:
    """The envelope of a record's headers. Raises ValueError saying which header is missing, twice there, or wrong.

    Unknown headers are ignored: brokers' tools and tracers add their own.
    """
    found: dict[str, str] = {}
    for name, raw in headers:
        if name not in ALLOWED_HEADERS:
            continue
        if name in found:
            raise ValueError(f"header {name} stands there twice")
        if not isinstance(raw, bytes):
            raise ValueError(f"header {name} has no value")
        try:
            found[name] = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"header {name} is not UTF-8: {error}") from None
    for name, constant in _CONSTANT.items():
        if found.get(name) != constant:
            raise ValueError(f"header {name} must be {constant!r}, got {found.get(name)!r}")
    values = _values(found)
    try:
        return Envelope.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0]) if first["loc"] else "?"
        name = next((header for header, target in _HEADERS.items() if target == field), field)
        raise ValueError(f"header {name}: {first['msg']}") from None


def _values(found: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, field in _HEADERS.items():
        if name not in found:
            continue
        text = found[name]
        try:
            if field == "time":
                values[field] = parse_time(text)
            elif field in ("ordinal", "round"):
                if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) > _MAX_INT:
                    raise ValueError("not a whole number of 63 bits")
                values[field] = int(text)
            elif field == "schema_digest":
                if not text.startswith(_SCHEMA_PREFIX):
                    raise ValueError(f"must begin with {_SCHEMA_PREFIX}")
                values[field] = text.removeprefix(_SCHEMA_PREFIX)
            elif field == "cut":
                values[field] = parse_cut(text)
            elif field == "cost":
                values[field] = Cost.model_validate_json(text)
            elif field == "origin":
                values[field] = parse_origin(text)
            else:
                values[field] = text
        except (ValueError, ValidationError) as error:
            raise ValueError(f"header {name} has the wrong form ({text[:80]!r}): {error}") from None
    return values
