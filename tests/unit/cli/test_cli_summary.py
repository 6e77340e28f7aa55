"""What `demo` and `campaign status` say under their table, and what the summary holds for programs."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bat_events.cli.summary import failure_line, rows
from bat_events.deciders.campaign import CampaignView
from bat_events.domain.evaluation import Cell
from bat_events.events.boundary import EvaluationReported
from bat_events.events.fact import Fact
from bat_events.events.old.boundary import EvaluationReportedV1
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted
from tests.support.campaigns import CAMPAIGN, cells, name, reported, told


def failing(*failures: Sequence[str]) -> list[Cell]:
    """A checkpoint's cells, the first of them with these failures."""
    own = cells(0.5)
    return [replace(cell, failures=tuple(found)) for cell, found in zip(own, failures, strict=False)] + own[
        len(failures) :
    ]


def view(*facts: Fact) -> CampaignView:
    found = CampaignView(CAMPAIGN)
    for fact in facts:
        found.apply(fact)
    return found


def decided(kind: type[CheckpointPromoted] | type[CheckpointHeld], number: int, best: str) -> Fact:
    return told(kind, round=number, best_so_far=name(best))


def test_the_most_frequent_failures_of_the_best_checkpoint_are_one_line() -> None:
    total = len(cells(0.5))
    line = failure_line(
        view(
            reported(0, "w0", failing(("S2:E4",))),
            decided(CheckpointPromoted, 0, "w0"),
            reported(1, "w1", failing(("S1:E5", "S4:E2"), ("S1:E5",))),
            decided(CheckpointPromoted, 1, "w1"),
            reported(2, "w2", failing(("S3:E1",))),
            decided(CheckpointHeld, 2, "w1"),
        )
    )
    assert line == (
        f"best so far, round 1: most frequent failures, in % of {total} cells: "
        f"S1:E5 format {2 / total:.0%}, S4:E2 time or resources {1 / total:.0%}"
    )


def test_a_best_checkpoint_without_failures_is_said_to_have_none() -> None:
    line = failure_line(view(reported(0, "w0", 0.5), decided(CheckpointPromoted, 0, "w0")))
    assert line == f"best so far, round 0: no failure in {len(cells(0.5))} cells"


@pytest.mark.parametrize("known", ["nothing", "no decision", "version 1"])
def test_what_is_not_known_is_not_said(known: str) -> None:
    report = reported(0, "w0", failing(("S2:E4",)))
    assert isinstance(report.event, EvaluationReported)
    old = EvaluationReportedV1.model_validate(report.event.model_dump(exclude={"failures"}))
    facts = {
        "nothing": [],
        "no decision": [report],
        "version 1": [replace(report, event=old.upcast()), decided(CheckpointPromoted, 0, "w0")],
    }[known]
    assert failure_line(view(*facts)) is None


def test_programs_get_every_count_and_null_where_there_is_none() -> None:
    (row,) = rows(view(reported(0, "w0", failing(("S2:E4",)))))
    assert row["failures"] == [{"stage": "S2", "code": "E4", "cells": 1}]
    (row,) = rows(view(decided(CheckpointPromoted, 0, "w0")))
    assert row["failures"] is None
