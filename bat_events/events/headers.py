"""Envelope <-> headers in one pass, for headers as this project's writers make them; on any doubt `events.envelope` is asked.

Most of a record's headers are those of the record before: source, type, schema, campaign, logic and round are checked once
per combination, and remembered for as long as there are not too many of them. tests/unit/events/test_events_headers.py holds
both ways against each other: what is taken here is what is taken there, and what is refused is refused there.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from bat_events.events.envelope import (
    CONTENT_TYPE,
    Cost,
    Cut,
    Envelope,
    format_cut,
    format_time,
    from_headers,
    parse_cut,
)
from bat_events.frozen import filled_model

Headers = tuple[tuple[str, bytes], ...]

MOST_BYTES = 1 << 17
"""Of all names and values together: longer headers are read by `events.envelope`."""

_LONGEST, _LONGEST_NAME = (
    1 << 14,
    512,
)  # of one value: four long ones, seven short ones and the names stay below MOST_BYTES
_DIGITS = b"0123456789"
_HEX = b"0123456789abcdef"
_TO_ZERO = bytes.maketrans(_DIGITS, b"0" * 10)
_TIME = b"0000-00-00T00:00:00.000000Z"
_VERSION, _CONTENT = b"1.0", CONTENT_TYPE.encode()
_REQUIRED = frozenset(name for name, field in Envelope.model_fields.items() if field.is_required())
_OPTIONAL = ("round", "traceparent", "cut", "cost")
_ABSENT = {n: field.default for n, field in Envelope.model_fields.items() if n not in _REQUIRED and n not in _OPTIONAL}
"""What is rare enough to be read by `events.envelope` where it is there."""
_SMALL = {str(number).encode(): number for number in range(1000)}
_LONGEST_NUMBER = 18  # digits: whatever has no more fits into 63 bits


def _given(*optional: str) -> set[str]:
    return set(_REQUIRED | set(optional))


_GIVEN = {
    (with_round, with_trace, with_cut, with_cost): _given(
        *["round"] * with_round, *["traceparent"] * with_trace, *["cut"] * with_cut, *["cost"] * with_cost
    )
    for with_round in (False, True)
    for with_trace in (False, True)
    for with_cut in (False, True)
    for with_cost in (False, True)
}


def envelope_of(headers: Sequence[tuple[str, bytes]]) -> Envelope:
    """As `events.envelope.from_headers`, in one pass where that is enough. Raises ValueError as it does."""
    return quick_envelope(headers) or from_headers(headers)


def quick_envelope(headers: Sequence[tuple[str, bytes]]) -> Envelope | None:
    """The envelope of headers of at most MOST_BYTES; None where `events.envelope.from_headers` must be asked."""
    try:
        return _read(headers)
    except (KeyError, TypeError, ValueError, AttributeError):  # a header missing, not bytes, of another form
        return None


def _read(headers: Sequence[tuple[str, bytes]]) -> Envelope | None:
    found = dict(headers)
    get = found.get
    id_, digest, cause = found["ce_id"], found["bat_digest"], found["bat_cause"]
    time, subject, ordinal = found["ce_time"], found["ce_subject"], found["bat_ordinal"]
    trace, cut, cost, round_ = get("traceparent"), get("bat_cut"), get("bat_cost"), get("bat_round")
    more = (trace is not None, cut is not None, cost is not None)
    if (
        len(headers) != len(found)  # one stands there twice
        or len(found) != 13 + sum(more) + (round_ is not None)  # a foreign one
        or len(id_) != 32
        or len(cause) != 32
        or len(digest) != 64
        or (id_ + cause + digest).translate(None, _HEX)
        or time.translate(_TO_ZERO) != _TIME
        or len(subject) > _LONGEST
    ):
        return None
    context = (
        found["ce_specversion"],
        found["content-type"],
        found["ce_source"],
        found["ce_type"],
        found["ce_dataschema"],
        found["bat_campaign"],
        found["bat_logic"],
        round_,
    )
    source, type_, schema_digest, campaign, logic, in_round = _context(context)
    return filled_model(
        Envelope,
        {
            "id": id_.decode(),
            "source": source,
            "type": type_,
            "time": datetime.fromisoformat(time.decode()),
            "subject": subject.decode(),
            "schema_digest": schema_digest,
            "body_digest": digest.decode(),
            "campaign": campaign,
            "cause": cause.decode(),
            "ordinal": _number(ordinal),
            "logic": logic,
            "round": in_round,
            "traceparent": None if trace is None else _text(trace),
            "cut": None if cut is None else _cut(cut),
            "cost": None if cost is None else Cost.model_validate_json(_text(cost)),
            **_ABSENT,
        },
        _GIVEN[(round_ is not None, *more)],
    )


def _number(raw: bytes) -> int:
    """A whole number; ValueError where it is none, or may have more than 63 bits."""
    known = _SMALL.get(raw)
    if known is not None:
        return known
    if not raw.isdigit() or len(raw) > _LONGEST_NUMBER:
        raise ValueError
    return int(raw)


def _text(raw: bytes) -> str:
    if len(raw) > _LONGEST:
        raise ValueError
    return raw.decode()


@lru_cache(64)
def _cut(raw: bytes) -> Cut:
    """One for all decisions of one commit, which have the same; nobody changes a cut."""
    return parse_cut(_text(raw))


@lru_cache(1024)
def _context(raw: tuple[bytes | None, ...]) -> tuple[Any, ...]:
    """What repeats: source, type, schema digest, campaign, logic, round. ValueError where one is not as it must be."""
    version, content, *texts, round_ = raw
    if sum(len(text) for text in raw if text is not None) > _LONGEST_NAME:
        raise ValueError
    source, type_, schema, campaign, logic = (text.decode() for text in texts if text is not None)
    digest = schema.removeprefix("sha256:")
    if version != _VERSION or content != _CONTENT or len(schema) != 71 or len(digest) != 64:
        raise ValueError
    if digest.encode().translate(None, _HEX):
        raise ValueError
    return source, type_, digest, campaign, logic, None if round_ is None else _number(round_)


def quick_headers(
    *,
    id: str,
    source: str,
    type: str,
    time: datetime,
    subject: str,
    schema_digest: str,
    body_digest: str,
    campaign: str,
    cause: str,
    ordinal: int,
    logic: str,
    round: int | None,
    traceparent: str,
    cut: Cut | None,
    cost: Cost | None,
) -> Headers | None:
    """What `events.envelope.to_headers` gives of an Envelope of these fields; None where the two must be asked.

    The caller stands for `id`, `type`, `schema_digest`, `body_digest` and `traceparent`.
    """
    raw_cause = cause.encode() if cause.isascii() else b""
    if len(raw_cause) != 32 or raw_cause.translate(None, _HEX) or time.tzinfo is not UTC:
        return None
    if ordinal.__class__ is not int or not 0 <= ordinal < 10**_LONGEST_NUMBER or subject.__class__ is not str:
        return None
    context = _made_context(source, type, schema_digest, campaign, logic, round, round.__class__ is int)
    cut_text = None if cut is None else _cut_text(cut)
    if context is None or (cut is not None and cut_text is None):
        return None
    of_source, of_type, of_schema, of_campaign, of_logic, of_round = context
    return (
        _OF_VERSION,
        _OF_CONTENT,
        ("ce_id", id.encode()),
        of_source,
        of_type,
        ("ce_time", _time_bytes(time)),
        ("ce_subject", subject.encode()),
        of_schema,
        ("bat_digest", body_digest.encode()),
        of_campaign,
        ("bat_cause", raw_cause),
        ("bat_ordinal", b"0" if ordinal == 0 else b"%d" % ordinal),
        of_logic,
        *of_round,
        ("traceparent", traceparent.encode()),
        *(() if cut_text is None else (("bat_cut", cut_text),)),
        *(() if cost is None else (("bat_cost", cost.model_dump_json(exclude_none=True).encode()),)),
    )


_OF_VERSION, _OF_CONTENT = ("ce_specversion", _VERSION), ("content-type", _CONTENT)


@lru_cache(1024)
def _made_context(
    source: str, type_: str, schema_digest: str, campaign: str, logic: str, round_: int | None, is_int: bool
) -> tuple[Any, ...] | None:
    """The headers that repeat; None where one of them is not of the type that an Envelope asks for.

    Whether the round is an int is told apart: True is no round, though it equals 1.
    """
    for text in (source, type_, schema_digest, campaign, logic):
        if text.__class__ is not str:
            return None
    if round_ is not None and (not is_int or not 0 <= round_ < 10**_LONGEST_NUMBER):
        return None
    return (
        ("ce_source", source.encode()),
        ("ce_type", type_.encode()),
        ("ce_dataschema", b"sha256:" + schema_digest.encode()),
        ("bat_campaign", campaign.encode()),
        ("bat_logic", logic.encode()),
        () if round_ is None else (("bat_round", b"%d" % round_),),
    )


@lru_cache(64)
def _time_bytes(time: datetime) -> bytes:
    """One for all that is written at one moment."""
    return format_time(time).encode()


def _cut_text(cut: Cut) -> bytes | None:
    """As `format_cut`; None where something in it is not as a Cut asks for."""
    for topic, parts in cut.items():
        if topic.__class__ is not str or parts.__class__ is not dict:
            return None
        for partition, offset in parts.items():
            if partition.__class__ is not int or offset.__class__ is not int:
                return None
    return format_cut(cut).encode()
