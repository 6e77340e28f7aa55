"""The gate: given these reports, then exactly these checkpoints are promoted."""

import pytest

from bat_events.codec import Fact
from bat_events.deciders.gate import Gate
from bat_events.domain.vocabulary import Stage
from bat_events.events.boundary import EvaluationReported
from bat_events.events.plan import GateMode, GatePlan
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted
from tests.support.campaigns import (
    CAMPAIGN,
    PLAN,
    cells,
    fold,
    ids,
    name,
    paused,
    produced,
    reported,
    started,
    told,
)

LOSS = 0.0099  # just within the reference rule's 0.01
MODES = list(GateMode)


def gate(mode: GateMode, *facts: Fact) -> Gate:
    made = Gate(CAMPAIGN)
    fold(made, started(gate=GatePlan(mode=mode)), facts)
    return made


def decisions(made: Gate) -> list[CheckpointPromoted | CheckpointHeld]:
    return [draft.event for draft in made.required()]  # type: ignore[misc]


def verdicts(made: Gate) -> list[str]:
    return ["promoted" if isinstance(event, CheckpointPromoted) else "held" for event in decisions(made)]


def campaign(mode: GateMode, overalls: list[float]) -> Gate:
    """One candidate per Overall, each measured beside every earlier one."""
    made = gate(mode)
    before: dict[str, float] = {}
    for number, overall in enumerate(overalls):
        word = f"w{number}"
        fold(made, produced(number, word), reported(number, word, overall, before))
        before[word] = overall
    return made


@pytest.mark.parametrize("mode", MODES)
def test_the_first_report_is_the_baseline_whatever_its_scores(mode: GateMode) -> None:
    (baseline,) = decisions(campaign(mode, [0.0]))
    assert isinstance(baseline, CheckpointPromoted)
    assert (baseline.baseline, baseline.best_so_far, baseline.best_overall) == (True, name("w0"), 0.0)


def test_ten_losses_just_within_the_threshold_pass_the_reference_rule_and_not_the_paired_one() -> None:
    falling = [round(0.9 - LOSS * number, 4) for number in range(11)]
    assert verdicts(campaign(GateMode.REFERENCE, falling)) == ["promoted"] * 11
    assert verdicts(campaign(GateMode.PAIRED, falling)) == ["promoted"] + ["held"] * 10


def test_the_reference_rule_compares_with_the_last_promoted_and_keeps_the_best_so_far() -> None:
    made = decisions(campaign(GateMode.REFERENCE, [0.5, 0.495, 0.49, 0.6]))
    assert [event.best_so_far for event in made] == [name("w0")] * 3 + [name("w3")]
    assert [event.best_overall for event in made] == [0.5] * 3 + [0.6]


def test_the_paired_rule_compares_with_the_best_and_falls_back_to_it() -> None:
    made = decisions(campaign(GateMode.PAIRED, [0.5, 0.4, 0.45, 0.55, 0.52]))
    assert [type(event) for event in made] == [
        CheckpointPromoted,
        CheckpointHeld,
        CheckpointHeld,
        CheckpointPromoted,
        CheckpointHeld,
    ]
    assert [event.fallback for event in made if isinstance(event, CheckpointHeld)] == [
        name("w0"),
        name("w0"),
        name("w3"),
    ]
    assert [event.best_so_far for event in made] == [name("w0")] * 3 + [name("w3")] * 2


@pytest.mark.parametrize("mode", MODES)
def test_the_best_so_far_never_falls(mode: GateMode) -> None:
    made = decisions(campaign(mode, [0.4, 0.43, 0.425, 0.3, 0.5, 0.495, 0.49, 0.485, 0.495, 0.51]))
    best = [event.best_overall for event in made]
    assert best == sorted(best)
    overall = {event.checkpoint: event.overall for event in made}
    assert all(event.best_overall == overall[event.best_so_far] for event in made)


@pytest.mark.parametrize("mode", MODES)
def test_without_the_comparison_that_the_rule_needs_a_candidate_is_held(mode: GateMode) -> None:
    made = gate(mode, produced(0, "w0"), reported(0, "w0", 0.4), produced(1, "w1"), reported(1, "w1", 0.9))
    decision = decisions(made)[1]
    assert isinstance(decision, CheckpointHeld)
    assert decision.fallback == name("w0")
    assert [(check.name, check.passed) for check in decision.checks] == [("pairing", False)]
    assert name("w0")[:12] in decision.reasons[0]


@pytest.mark.parametrize("mode", MODES)
def test_a_candidate_with_cells_missing_is_held_however_good(mode: GateMode) -> None:
    five = PLAN.model_copy(update={"evaluation": PLAN.evaluation.model_copy(update={"repeats": 5})})
    made = gate(
        mode,
        produced(0, "w0"),
        reported(0, "w0", 0.4, plan=five),
        produced(1, "w1"),
        reported(1, "w1", cells(0.9, five)[:-1], {"w0": 0.4}, five),
    )
    decision = decisions(made)[1]
    assert isinstance(decision, CheckpointHeld)
    assert [check.name for check in decision.checks if not check.passed] == ["pairing"]


def test_cells_missing_on_both_sides_are_no_complete_pairing() -> None:
    """Both lack the same cell, so the pairs match; but the report itself says that something was not measured."""
    report = reported(1, "w1", 0.9, {"w0": 0.4}).event
    assert isinstance(report, EvaluationReported)
    assert report.comparators[0].complete
    made = gate(
        GateMode.PAIRED,
        produced(0, "w0"),
        reported(0, "w0", 0.4),
        produced(1, "w1"),
        told(EvaluationReported, **{**dict(report), "missing": 1}),
    )
    assert verdicts(made) == ["promoted", "held"]


@pytest.mark.parametrize("mode", MODES)
def test_a_candidate_of_a_round_that_was_not_healthy_is_held_however_good(mode: GateMode) -> None:
    made = gate(
        mode,
        produced(0, "w0"),
        reported(0, "w0", 0.4),
        produced(1, "w1", healthy=False),
        reported(1, "w1", 0.9, {"w0": 0.4}),
    )
    decision = decisions(made)[1]
    assert isinstance(decision, CheckpointHeld)
    assert [check.name for check in decision.checks if not check.passed] == ["health"]


def test_a_stage_that_fell_too_far_holds_a_candidate_that_gained() -> None:
    def decided(drop: float) -> list[str]:
        own = cells(0.7, stages={Stage.S2: round(0.6 - drop, 4)})
        made = gate(
            GateMode.PAIRED,
            produced(0, "w0"),
            reported(0, "w0", 0.6),
            produced(1, "w1"),
            reported(1, "w1", own, {"w0": 0.6}),
        )
        return verdicts(made)

    assert decided(0.14) == ["promoted", "promoted"]
    assert decided(0.16) == ["promoted", "held"]


def test_a_report_waits_for_those_of_earlier_rounds() -> None:
    made = gate(
        GateMode.PAIRED,
        *(produced(number, f"w{number}") for number in range(3)),
        reported(0, "w0", 0.4),
        reported(2, "w2", 0.6, {"w0": 0.4, "w1": 0.5}),
    )
    first = ids(made.required())
    assert verdicts(made) == ["promoted"]
    made.apply(reported(1, "w1", 0.5, {"w0": 0.4}))
    assert verdicts(made) == ["promoted"] * 3
    assert ids(made.required())[:1] == first


def test_a_report_waits_for_the_trainers_word_on_health() -> None:
    made = gate(GateMode.PAIRED, reported(0, "w0", 0.4))
    assert decisions(made) == []
    made.apply(produced(0, "w0"))
    assert verdicts(made) == ["promoted"]


def test_a_pause_does_not_keep_a_measured_candidate_from_its_decision() -> None:
    made = gate(GateMode.PAIRED, produced(0, "w0"), reported(0, "w0", 0.4), paused())
    assert verdicts(made) == ["promoted"]
