"""The teacher: given these reports and decisions, then exactly this stage is practised next."""

import pytest

from bat_events.deciders.teacher import Teacher
from bat_events.domain.evaluation import Cell
from bat_events.domain.vocabulary import Stage, Track
from bat_events.events.plan import TargetRule
from bat_events.events.promotion import TargetStagePrescribed
from tests.support.campaigns import (
    CAMPAIGN,
    cancelled,
    cells,
    fold,
    held,
    name,
    paused,
    promoted,
    reported,
    required,
    resumed,
    started,
)


def teacher(*facts: object, **changes: object) -> Teacher:
    made = Teacher(CAMPAIGN)
    fold(made, started(**changes), *facts)  # type: ignore[arg-type]
    return made


def prescriptions(made: Teacher) -> list[TargetStagePrescribed]:
    return required(made, TargetStagePrescribed)


def cascade() -> list[Cell]:
    """Three cells of four break at S3; the one that gets through does well, so S4 and S5 are only low where unreached."""
    early, late = (Stage.S1, Stage.S2, Stage.S3), (Stage.S4, Stage.S5)
    return [
        Cell(
            track=Track.SEGMENTATION,
            task="t",
            repeat=repeat,
            task_score=0.5,
            stages=dict.fromkeys(Stage, 0.9) | {Stage.S3: 0.3} | ({} if repeat == 0 else dict.fromkeys(late, 0.0)),
            reached=frozenset(Stage if repeat == 0 else early),
        )
        for repeat in range(4)
    ]


@pytest.mark.parametrize(("rule", "target"), [(TargetRule.REACHED, Stage.S3), (TargetRule.RAW, Stage.S4)])
def test_on_a_cascade_the_rules_differ_reached_names_the_cause_and_raw_its_effect(
    rule: TargetRule, target: Stage
) -> None:
    (word,) = prescriptions(teacher(reported(0, "base", cascade()), promoted(0, "base"), target_rule=rule))
    assert (word.round, word.target_stage, word.rule, word.corrective) == (1, target, rule, False)
    read = {reading.stage: reading.value for reading in word.readings}
    assert read[Stage.S4] == (0.9 if rule is TargetRule.REACHED else 0.225)
    assert read[Stage.S3] == 0.3


def test_a_stage_that_no_cell_reached_has_no_reading_and_is_not_chosen() -> None:
    unreached = [
        Cell(
            track=cell.track,
            task=cell.task,
            repeat=cell.repeat,
            task_score=0.0,
            stages=dict(cell.stages) | dict.fromkeys((Stage.S4, Stage.S5), 0.0),
            reached=frozenset((Stage.S1, Stage.S2, Stage.S3)),
        )
        for cell in cascade()
    ]
    (word,) = prescriptions(teacher(reported(0, "base", unreached), promoted(0, "base")))
    assert word.target_stage is Stage.S3
    assert {r.stage: r.value for r in word.readings}[Stage.S5] is None


def test_after_a_promotion_the_candidates_weakest_stage_is_practised_from_the_candidate() -> None:
    made = teacher(
        reported(0, "base", cells(0.5, stages={Stage.S1: 0.1})),
        promoted(0, "base"),
        reported(1, "one", cells(0.6, stages={Stage.S5: 0.2})),
        promoted(1, "one"),
    )
    first, second = prescriptions(made)
    assert (first.target_stage, first.start_checkpoint) == (Stage.S1, name("base"))
    assert (second.round, second.target_stage, second.start_checkpoint) == (2, Stage.S5, name("one"))


def test_after_a_hold_the_stage_that_fell_most_is_mended_from_the_fallback() -> None:
    made = teacher(
        reported(0, "base", cells(0.5, stages={Stage.S1: 0.2, Stage.S4: 0.9})),
        promoted(0, "base"),
        reported(1, "one", cells(0.5, stages={Stage.S1: 0.1, Stage.S4: 0.6})),
        held(1, "one", fallback="base"),
    )
    word = prescriptions(made)[1]
    assert (word.target_stage, word.corrective, word.start_checkpoint) == (Stage.S4, True, name("base"))


def test_after_a_hold_without_any_fall_the_weakest_stage_is_practised() -> None:
    made = teacher(
        reported(0, "base", cells(0.5, stages={Stage.S2: 0.3})),
        promoted(0, "base"),
        reported(1, "one", cells(0.5, stages={Stage.S2: 0.3})),
        held(1, "one", fallback="base"),
    )
    word = prescriptions(made)[1]
    assert (word.target_stage, word.corrective) == (Stage.S2, False)


def test_nothing_is_prescribed_after_the_last_round() -> None:
    facts = [part for n in range(3) for part in (reported(n, f"w{n}", 0.5), promoted(n, f"w{n}"))]
    assert [word.round for word in prescriptions(teacher(facts, rounds=2))] == [1, 2]


def test_a_decision_that_comes_before_its_report_waits_for_it() -> None:
    made = teacher(promoted(0, "base"))
    assert prescriptions(made) == []
    made.apply(reported(0, "base", 0.5))
    assert len(prescriptions(made)) == 1


def test_a_held_candidate_waits_for_the_report_of_its_fallback() -> None:
    made = teacher(reported(1, "one", 0.4), held(1, "one", fallback="base"))
    assert prescriptions(made) == []
    made.apply(reported(0, "base", 0.5))
    assert [word.round for word in prescriptions(made)] == [2]


def test_a_report_alone_prescribes_nothing() -> None:
    assert prescriptions(teacher(reported(0, "base", 0.5))) == []


def test_a_paused_campaign_is_given_no_target_until_it_is_resumed() -> None:
    made = teacher(reported(0, "base", 0.5), promoted(0, "base"), paused())
    assert prescriptions(made) == []
    made.apply(resumed())
    assert len(prescriptions(made)) == 1


def test_a_cancelled_campaign_is_given_no_target() -> None:
    assert prescriptions(teacher(reported(0, "base", 0.5), promoted(0, "base"), cancelled(), resumed())) == []
