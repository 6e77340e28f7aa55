"""Drafts -> records: the one place where envelopes are made."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from bat_events.codec import Codec, schema_for
from bat_events.deciders.interface import Draft
from bat_events.errors import LogError
from bat_events.events.base import Event, OldEvent
from bat_events.events.crossing import crossing_faults
from bat_events.events.envelope import Cut, Envelope
from bat_events.events.headers import quick_headers
from bat_events.frozen import filled
from bat_events.log.interface import Outgoing
from bat_events.log.placement import place
from bat_events.log.topics import BY_NAME


def new_traceparent() -> str:
    """A W3C traceparent that begins a trace."""
    return f"00-{os.urandom(16).hex()}-{os.urandom(8).hex()}-01"


def child_traceparent(parent: str | None) -> str:
    """A traceparent for what `parent` caused: the same trace, a new span."""
    if parent is None or parent.count("-") != 3:
        return new_traceparent()
    version, trace, _, flags = parent.split("-")
    return f"{version}-{trace}-{os.urandom(8).hex()}-{flags}"


def outgoing(
    draft: Draft,
    *,
    source: str,
    logic: str,
    time: datetime,
    partitions: Mapping[str, int],
    cut: Cut | None = None,
    traceparent: str | None = None,
) -> Outgoing:
    """The record of a draft. `partitions` gives each topic's partition count.

    Raises TypeError for an earlier version of an event: only the newest is written. Raises LogError for a record whose key
    or headers may not cross the evaluation boundary.
    """
    kind = _kind(type(draft.event))
    body = Codec.encode_body(draft.event)
    topic = draft.topic or kind.topics[0]
    if topic not in kind.topics:
        raise ValueError(f"{kind.ce_type} does not belong on {topic}: it stands on {kind.topics}")
    key = draft.key.encode()
    fields: dict[str, Any] = {
        "id": draft.id,
        "source": source,
        "type": kind.ce_type,
        "time": time,
        "subject": draft.key,
        "schema_digest": kind.schema_digest,
        "body_digest": hashlib.sha256(body).hexdigest(),
        "campaign": draft.campaign,
        "cause": draft.cause,
        "ordinal": draft.ordinal,
        "logic": logic,
        "round": draft.round,
        "traceparent": child_traceparent(traceparent),
        "cut": cut,
        "cost": draft.cost,
    }
    headers = quick_headers(**fields) or tuple(Codec.headers(Envelope(**fields)))
    if BY_NAME[topic].plane == "boundary":
        writer = BY_NAME[topic].writer
        faults = crossing_faults(key, headers, topic=topic, writer=writer, campaign=draft.campaign)
        if faults:
            raise LogError(f"{kind.ce_type} must not cross the evaluation boundary: {'; '.join(faults)}")
    values = {
        "topic": topic,
        "partition": place(draft.event, key, partitions[topic]),
        "key": key,
        "value": body,
        "headers": headers,
        "timestamp_ms": None,
    }
    return filled(Outgoing, values)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kind:
    """What all records of one event type have in common."""

    ce_type: str
    schema_digest: str
    topics: tuple[str, ...]


@cache
def _kind(cls: type[Event]) -> _Kind:
    if issubclass(cls, OldEvent):
        raise TypeError(f"{cls.ce_type()} is only read: write {cls.SUCCESSOR.ce_type()} or what follows it")
    return _Kind(ce_type=cls.ce_type(), schema_digest=schema_for(cls).digest, topics=cls.topics())
