"""A log that holds earlier versions of events is replayed as if they were of the newest."""

from typing import ClassVar

import pytest

from bat_events.events import base
from bat_events.events.base import Event, OldEvent
from bat_events.events.boundary import EvaluationReported
from bat_events.events.old.boundary import EvaluationReportedV1
from bat_events.events.promotion import CheckpointHeld, GateCheck
from bat_events.events.types import Digest, Positive, Seq, Unit
from bat_events.log.interface import Record
from bat_events.replay import render, replay_campaign
from bat_events.replay.differences import Kind
from tests.replay.memory import MemorySource, falsify, pick, swapped


def older_reports(records: list[Record]) -> list[Record]:
    """The log with every report as version 1 wrote it."""
    found = records
    for number, record in enumerate(records):
        if record.topic == "boundary.report":
            _, fact = pick([record], lambda _: True)
            body = fact.event.model_dump(exclude={"failures"})
            found = swapped(found, number, falsify(record, event=EvaluationReportedV1.model_validate(body)))
    return found


def test_decisions_on_reports_of_version_1_are_reproduced(records: list[Record]) -> None:
    result = replay_campaign(MemorySource(older_reports(records)))
    assert result.reproduced, render(result)
    assert sum(decider.decisions for decider in result.deciders) > 0


def test_a_difference_in_an_earlier_version_names_the_version_on_the_log(records: list[Record]) -> None:
    older = older_reports(records)
    number, fact = pick(older, lambda f: isinstance(f.event, EvaluationReported))
    body = {**fact.written.model_dump(), "cells": fact.written.cells + 1}  # type: ignore[attr-defined]
    changed = falsify(older[number], event=EvaluationReportedV1.model_validate(body))
    result = replay_campaign(MemorySource(swapped(older, number, changed)))
    (found,) = [d for d in result.differences if (d.id, d.kind) == (fact.id, Kind.FACT)]
    assert (found.type, found.field) == ("bat.EvaluationReported.v1", "cells + missing")


def test_a_decision_recorded_in_an_earlier_version_is_reproduced(
    records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_TYPES", dict(base._TYPES))  # the version below does not stay

    class CheckpointHeldV0(OldEvent):
        """The candidate is not taken; the mode of the gate was not recorded yet."""

        SUCCESSOR: ClassVar[type[Event]] = CheckpointHeld
        VERSION: ClassVar[int] = 0
        round: Positive
        checkpoint: Digest
        fallback: Digest
        overall: Unit
        best_so_far: Digest
        best_overall: Unit
        checks: Seq[GateCheck]
        reasons: Seq[str]

        def upcast(self) -> Event:
            return CheckpointHeld(**dict(self), mode=held.mode)

    number, fact = pick(records, lambda f: isinstance(f.event, CheckpointHeld))
    held: CheckpointHeld = fact.event  # type: ignore[assignment]
    older = CheckpointHeldV0(**{name: value for name, value in dict(held).items() if name != "mode"})
    result = replay_campaign(MemorySource(swapped(records, number, falsify(records[number], event=older))))
    assert result.reproduced, render(result)
    changed = falsify(records[number], event=older.model_copy(update={"best_overall": 0.999}))
    result = replay_campaign(MemorySource(swapped(records, number, changed)))
    first = result.differences[0]
    assert (first.id, first.kind, first.field) == (fact.id, Kind.CHANGED, "best_overall")
