"""Agentic and Overall: docs/rules.md."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_events.domain.stages import STAGE_WEIGHTS, agentic_score, overall_score
from bat_events.domain.vocabulary import Stage

unit = st.floats(0, 1)
all_scores = st.fixed_dictionaries(dict.fromkeys(Stage, unit))
some_stages = st.sets(st.sampled_from(Stage), min_size=1)


def test_the_weights_are_the_published_ones() -> None:
    assert [STAGE_WEIGHTS[stage] for stage in Stage] == [0.25, 0.15, 0.35, 0.15, 0.10]
    assert math.fsum(STAGE_WEIGHTS.values()) == 1.0


def test_the_weights_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        STAGE_WEIGHTS[Stage.S1] = 1.0  # type: ignore[index]


@pytest.mark.parametrize(
    ("scores", "applicable", "expected"),
    [
        ((1, 1, 1, 1, 1), Stage, 1.0),
        ((1, 0, 0, 0, 0), Stage, 0.25),
        ((0, 1, 0, 0, 0), Stage, 0.15),
        ((0, 0, 1, 0, 0), Stage, 0.35),
        ((0, 0, 0, 1, 0), Stage, 0.15),
        ((0, 0, 0, 0, 1), Stage, 0.10),
        ((0.8, 0.6, 0.4, 0.2, 0.0), Stage, 0.46),
        ((1, 1, 0, 1, 1), [Stage.S1, Stage.S2, Stage.S4, Stage.S5], 1.0),
        ((1, 0, None, 0, 0), [Stage.S1, Stage.S2, Stage.S4, Stage.S5], 0.25 / 0.65),
        ((None, None, 0.7, None, None), [Stage.S3], 0.7),
        ((1, 1, None, 1, 1), Stage, None),
        ((1, 1, 1, 1, 1), [], None),
    ],
)
def test_agentic_is_the_weighted_mean_of_the_stages_that_apply(
    scores: tuple[float | None, ...], applicable: list[Stage], expected: float | None
) -> None:
    found = agentic_score(dict(zip(Stage, scores, strict=True)), tuple(applicable))
    assert found == (None if expected is None else pytest.approx(expected, abs=1e-12))


@given(all_scores, some_stages)
def test_agentic_lies_between_the_lowest_and_the_highest_stage(scores: dict[Stage, float], stages: set[Stage]) -> None:
    found = agentic_score(scores, stages)
    assert found is not None
    assert min(scores[s] for s in stages) - 1e-12 <= found <= max(scores[s] for s in stages) + 1e-12
    assert found <= 1.0


@given(all_scores, st.sampled_from(Stage), unit)
def test_agentic_never_falls_when_a_stage_rises(scores: dict[Stage, float], stage: Stage, better: float) -> None:
    raised = {**scores, stage: max(scores[stage], better)}
    before, after = agentic_score(scores), agentic_score(raised)
    assert before is not None
    assert after is not None
    assert after >= before - 1e-12


@given(all_scores, some_stages, st.sampled_from(Stage))
def test_a_missing_stage_makes_agentic_missing_and_not_lower(
    scores: dict[Stage, float], stages: set[Stage], gone: Stage
) -> None:
    without = {stage: score for stage, score in scores.items() if stage is not gone}
    nulled = {**scores, gone: None}
    expected = None if gone in stages else agentic_score(scores, stages)
    assert agentic_score(without, stages) == expected
    assert agentic_score(nulled, stages) == expected


@pytest.mark.parametrize("bad", [-0.01, 1.01, math.nan, math.inf])
def test_a_score_outside_its_range_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="S2"):
        agentic_score({**dict.fromkeys(Stage, 0.5), Stage.S2: bad})
    with pytest.raises(ValueError, match="task"):
        overall_score(bad, 0.5)
    with pytest.raises(ValueError, match="Agentic"):
        overall_score(0.5, bad)


@pytest.mark.parametrize(
    ("task", "agentic", "overall"),
    # Percentages of the paper (docs/rules.md), which rounds to one decimal.
    [
        (42.1, 64.7, 53.4),
        (28.4, 11.3, 19.9),
        (24.5, 39.2, 31.9),
        (17.0, 28.8, 22.9),
        (4.1, 21.6, 12.9),
        (0.0, 12.1, 6.1),
    ],
)
def test_overall_is_half_task_and_half_agentic(task: float, agentic: float, overall: float) -> None:
    found = overall_score(task / 100, agentic / 100)
    assert found is not None
    assert abs(found * 100 - overall) <= 0.05 + 1e-9


@pytest.mark.parametrize(("task", "agentic"), [(None, 0.5), (0.5, None), (None, None)])
def test_overall_is_missing_where_a_half_is(task: float | None, agentic: float | None) -> None:
    assert overall_score(task, agentic) is None
