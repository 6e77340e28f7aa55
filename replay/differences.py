"""What replay finds: one `Difference` per event that does not follow from the log, and where it stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from bat_events.codec import Fact
from bat_events.deciders.interface import Draft
from bat_events.events.envelope import format_time

Json = Any
"""JSON data: what stands on the recorded or on the recomputed side."""


class Kind(StrEnum):
    """How the record and the recomputation differ."""

    CHANGED = "changed"  # the decision exists on both sides, with another content
    MISSING = "missing"  # required at a cut that its decider has passed, and not on the log
    EXTRA = "extra"  # on the log, and required at no cut
    CUT = "cut"  # the recorded cut is not one at which this decision is made
    TIME = "time"  # the recorded time is not the newest folded input's
    ORIGIN = "origin"  # id, cause, key or writer do not fit together
    FACT = "fact"  # a worker's numbers do not follow from the facts that it names
    REFUSED = "refused"  # the rules raise an error on the recorded facts


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One event, recorded beside recomputed. `at` is topic[partition]@offset, None for what is not on the log."""

    kind: Kind
    type: str
    id: str
    round: int | None
    at: str | None
    logic: str  # the recorded version
    replayed_by: str  # the version that ran here
    field: str
    recorded: Json
    recomputed: Json
    message: str
    time: str  # RFC 3339: what the list is ordered by


@dataclass(frozen=True, kw_only=True)
class Pending:
    """A decision that is required by the end of the log and that its decider had not come to yet."""

    logic: str
    type: str
    id: str
    round: int | None


def place(fact: Fact) -> str:
    """Where a fact stands in the log."""
    return f"{fact.topic}[{fact.partition}]@{fact.offset}"


def of_fact(
    fact: Fact, kind: Kind, message: str, *, field: str, recorded: Json, recomputed: Json, replayed_by: str
) -> Difference:
    """A difference in a recorded event."""
    return Difference(
        kind=kind,
        type=fact.envelope.type,
        id=fact.id,
        round=fact.envelope.round,
        at=place(fact),
        logic=fact.envelope.logic,
        replayed_by=replayed_by,
        field=field,
        recorded=recorded,
        recomputed=recomputed,
        message=message,
        time=format_time(fact.envelope.time),
    )


def of_draft(draft: Draft, kind: Kind, message: str, *, replayed_by: str, time: datetime) -> Difference:
    """A difference in an event that only the recomputation has."""
    return Difference(
        kind=kind,
        type=draft.event.ce_type(),
        id=draft.id,
        round=draft.round,
        at=None,
        logic=replayed_by,
        replayed_by=replayed_by,
        field="",
        recorded=None,
        recomputed=draft.event.model_dump(mode="json"),
        message=message,
        time=format_time(time),
    )


def first_field(recorded: Json, recomputed: Json, path: str = "") -> tuple[str, Json, Json] | None:
    """The first place where two JSON values differ, as (path, recorded, recomputed); None where they are equal."""
    if isinstance(recorded, Mapping) and isinstance(recomputed, Mapping):
        for name in dict.fromkeys((*recorded, *recomputed)):
            inner = f"{path}.{name}" if path else str(name)
            if name not in recorded or name not in recomputed:
                return inner, recorded.get(name), recomputed.get(name)
            found = first_field(recorded[name], recomputed[name], inner)
            if found is not None:
                return found
        return None
    if _is_list(recorded) and _is_list(recomputed):
        for number, (left, right) in enumerate(zip(recorded, recomputed, strict=False)):
            found = first_field(left, right, f"{path}[{number}]")
            if found is not None:
                return found
        if len(recorded) != len(recomputed):
            return f"{path}.length", len(recorded), len(recomputed)
        return None
    same = type(recorded) is type(recomputed) and recorded == recomputed
    return None if same else (path, recorded, recomputed)


def _is_list(value: Json) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
