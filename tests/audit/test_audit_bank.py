"""Given a bank with copies, retirements and a late admission on the log, its queries show each of them."""

from typing import Any

import pytest
from audit_log import START, Ask, Maker, campaign, digest, ident, records

from bat_events.audit.file import AuditFile
from bat_events.audit.materialiser import Materialiser
from bat_events.domain.vocabulary import Focus, Outcome, Pool, Stage, Track
from bat_events.events.bank import (
    LeakageVerdict,
    StateAdmitted,
    StateRefused,
    StateRetired,
    StateSynthesized,
    SynthesisRequested,
)
from bat_events.events.ids import ROOT_CAUSE
from bat_events.events.plan import TargetRule
from bat_events.events.promotion import TargetStagePrescribed
from bat_events.events.rounds import PlannedSlot, PlannedStep, RoundPlanned
from bat_events.events.training import CheckpointProduced

CELL: dict[str, Any] = {"focus": Focus.S3, "track": Track.SEGMENTATION, "outcome": Outcome.RECOVERY}


def synthesised(log: Maker, number: int, *, own_prompt: int | None = None) -> str:
    """State `number` of the cell, cleared; returns its verdict's id."""
    place = {"state": ident(number), **CELL, "ordinal": number - 1}
    key = ident(number)
    asked = log.put(SynthesisRequested(**place, seed=number), ROOT_CAUSE, by="bank", ordinal=number, key=key)
    made = StateSynthesized(
        **place,
        seed=number,
        benchmark="mini",
        benchmark_version=1,
        body=digest(number),
        body_bytes=1000,
        prompt_digest=digest(100 + number),
        workspace_digest=digest(200 + number),
        own_prompt=None if own_prompt is None else digest(own_prompt),
        own_workspace=digest(210 + number),
        condition=digest(120),
        wording="programmatic",
    )
    cause = log.put(made, asked, by="synthesizer", key=key)
    verdict = LeakageVerdict(**place, body=digest(number), cleared=True, checks=())
    return log.put(verdict, cause, by="leakage-gate", key=key)


def admitted(log: Maker, number: int, rank: int, *, own_prompt: int) -> None:
    """State `number` enters the bank."""
    verdict = synthesised(log, number, own_prompt=own_prompt)
    event = StateAdmitted(state=ident(number), **CELL, ordinal=number - 1, rank=rank, body=digest(number))
    log.put(event, verdict, by="bank", key=ident(number))


def refused(log: Maker, number: int, of: int) -> None:
    """State `number` has the prompt of state `of`."""
    verdict = synthesised(log, number, own_prompt=110 + of)
    event = StateRefused(state=ident(number), **CELL, ordinal=number - 1, reason="prompt", copy_of=ident(of))
    log.put(event, verdict, by="bank", key=ident(number))


def retired(log: Maker, number: int, round: int) -> None:
    """State `number` was used up in a round."""
    event = StateRetired(state=ident(number), **CELL, round=round, uses=1, reason="used_up")
    log.put(event, ROOT_CAUSE, by="bank", ordinal=number, key=ident(number), round=round)


def prescribed(log: Maker, round: int) -> str:
    """The round's target becomes known."""
    event = TargetStagePrescribed(
        round=round,
        target_stage=Stage.S3,
        corrective=False,
        rule=TargetRule.REACHED,
        start_checkpoint=START,
        readings=(),
        reason="S3 is the weakest",
    )
    return log.put(event, ROOT_CAUSE, by="teacher", ordinal=round, round=round)


def planned(log: Maker, cause: str, round: int, *states: int) -> None:
    """The round draws these states."""
    slots = tuple(
        PlannedSlot(slot=slot, pool=Pool.S_TARGET, **CELL, state=ident(number), body=digest(number))
        for slot, number in enumerate(states)
    )
    steps = (PlannedStep(step=0, slots=slots),)
    event = RoundPlanned(round=round, target_stage=Stage.S3, start_checkpoint=START, steps=steps)
    log.put(event, cause, by="planner", round=round)


def ended(log: Maker, round: int) -> None:
    """The round's candidate is there."""
    event = CheckpointProduced(round=round, checkpoint=digest(round), parent=START, steps=1, healthy=True, health=())
    log.put(event, ROOT_CAUSE, by="trainer", ordinal=round, round=round)


@pytest.fixture
def shown(file: AuditFile, materialiser: Materialiser, ask: Ask) -> Any:
    """shown(log, query, param=value…) -> rows."""

    def show(log: Maker, query: str, **parameters: str) -> list[dict[str, Any]]:
        materialiser.take(file.writer, records(log.out))
        return ask(file, query, **parameters)

    return show


def test_refused_and_retired_states_stand_in_the_funnel(shown: Any) -> None:
    log = campaign()
    refused(log, 5, of=1)
    retired(log, 1, 1)
    retired(log, 2, 1)
    (cell,) = shown(log, "bank_funnel")
    counts = {name: cell[name] for name in ("requested", "cleared", "refused", "admitted", "retired", "out_of_order")}
    assert counts == {"requested": 5, "cleared": 3, "refused": 1, "admitted": 2, "retired": 2, "out_of_order": 0}


@pytest.mark.parametrize("fault", ["drawn after it retired", "admitted and refused"])
def test_what_no_state_may_go_through_is_counted_as_out_of_order(shown: Any, fault: str) -> None:
    log = campaign()
    if fault == "drawn after it retired":
        retired(log, 1, 1)
        planned(log, prescribed(log, 2), 2, 1)
    else:
        refused(log, 5, of=1)
        event = StateAdmitted(state=ident(5), **CELL, ordinal=4, rank=9, body=digest(5))
        log.put(event, ROOT_CAUSE, by="bank", key=ident(5))
    (cell,) = shown(log, "bank_funnel")
    assert cell["out_of_order"] == 1


def test_diversity_counts_equal_states_by_what_is_their_own(shown: Any) -> None:
    log = campaign()  # states 1, 2 and 3 were made, each unlike the others
    refused(log, 5, of=1)
    refused(log, 6, of=1)
    synthesised(log, 7)
    rows = {row["part"]: row for row in shown(log, "bank_diversity")}
    own = rows["own prompt"]
    assert (own["states"], own["without"], own["distinct"], own["repeated"]) == (5, 1, 3, 3)
    assert (own["distinct_share"], own["smallest_class"], own["largest_class"]) == (0.6, 1, 3)
    assert own["entropy_bits"] == pytest.approx(1.371, abs=1e-3)  # shares 3/5, 1/5, 1/5
    assert own["highest_entropy_bits"] == pytest.approx(2.322, abs=1e-3)
    assert rows["prompt"]["distinct_share"] == rows["own workspace"]["distinct_share"] == 1.0
    assert (rows["condition"]["distinct"], rows["cell"]["distinct"], rows["cell"]["largest_class"]) == (1, 1, 6)
    assert rows["own prompt in its cell"]["repeated"] == 3


def test_diversity_of_admitted_states_is_without_what_was_refused(shown: Any) -> None:
    log = campaign()
    refused(log, 5, of=1)
    rows = {row["part"]: row for row in shown(log, "bank_diversity", admitted="yes")}
    assert (rows["own prompt"]["states"], rows["own prompt"]["distinct_share"]) == (2, 1.0)


def test_a_round_whose_states_were_there_did_not_wait_for_the_bank(shown: Any) -> None:
    log = campaign()
    (first,) = shown(log, "bank_wait")
    assert (first["round"], first["states_drawn"], first["wait_s"]) == (1, 2, 1.0)
    assert (first["bank_wait_s"], first["admitted_late"], first["made_meanwhile"]) == (0.0, 0, 0)
    assert first["ahead_s"] > 0


def test_what_is_made_while_a_round_trains_and_what_comes_too_late_is_shown(shown: Any) -> None:
    log = campaign()
    cause = prescribed(log, 2)
    for number in (8, 9):  # four events each
        admitted(log, number, number, own_prompt=number)
    planned(log, cause, 2, 8, 9)
    admitted(log, 10, 10, own_prompt=10)
    ended(log, 2)
    planned(log, prescribed(log, 3), 3, 10)
    _, second, third = shown(log, "bank_wait")
    assert (second["wait_s"], second["bank_wait_s"], second["admitted_late"]) == (9.0, 8.0, 2)
    assert (second["ahead_s"], second["made_meanwhile"]) == (-8.0, 1)
    assert (third["wait_s"], third["bank_wait_s"], third["admitted_late"], third["ahead_s"]) == (1.0, 0.0, 0, 2.0)


def test_a_round_that_is_still_waiting_has_no_wait_yet(shown: Any) -> None:
    log = campaign()
    prescribed(log, 2)
    *_, last = shown(log, "bank_wait")
    assert (last["round"], last["wait_s"], last["bank_wait_s"]) == (2, None, None)
