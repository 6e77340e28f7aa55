"""Stage scores, the execution cap and rewards: docs/rules.md."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_events.domain.rubric import Call
from bat_events.domain.scoring import (
    e2e_reward,
    grade_summary,
    local_reward,
    rollout_reward,
    stage_means,
    stage_score,
)
from bat_events.domain.vocabulary import Focus, Stage

unit = st.floats(0, 1)


@dataclass(frozen=True)
class Item:
    item: str
    stage: Stage
    score: float
    applicable: bool = True


@dataclass(frozen=True)
class Graded:
    items: Sequence[Item]
    reached: Sequence[Stage]
    task_score: float | None


def graded(scores: Sequence[float], reached: int = 5, task: float | None = 0.5) -> Graded:
    items = tuple(Item(f"{stage}.only", stage, score) for stage, score in zip(Stage, scores, strict=True))
    return Graded(items, tuple(Stage)[:reached], task)


def test_a_real_grade_is_read_as_it_is() -> None:
    from bat_events.benchmark.interface import Grade, ItemScore

    items = (ItemScore(item="a", stage=Stage.S1, score=1.0), ItemScore(item="b", stage=Stage.S1, score=0.5))
    grade = Grade(items=items, reached=(Stage.S1,), task_score=0.0, failures=())
    assert grade_summary(grade).scores[Stage.S1] == 0.75


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([], None),
        ([Item("a", Stage.S1, 1.0, False)], None),
        ([Item("a", Stage.S1, 1.0), Item("b", Stage.S1, 0.0)], 0.5),
        ([Item("a", Stage.S1, 1.0), Item("b", Stage.S1, 0.0, False)], 1.0),
        ([Item("a", Stage.S1, 0.2), Item("b", Stage.S1, 0.5), Item("c", Stage.S1, 0.8)], 0.5),
    ],
)
def test_a_stage_scores_the_mean_of_the_items_that_apply(items: list[Item], expected: float | None) -> None:
    assert stage_score(items) == expected


def test_an_item_that_occurs_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="a occur"):
        stage_score([Item("a", Stage.S1, 1.0), Item("a", Stage.S1, 1.0)])


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.5])
def test_an_item_outside_its_range_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="rubric item a"):
        stage_score([Item("a", Stage.S1, bad)])


@given(st.lists(unit, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_items_does_not_matter(scores: list[float], random: object) -> None:
    items = [Item(str(number), Stage.S1, score) for number, score in enumerate(scores)]
    turned = list(items)
    random.shuffle(turned)  # type: ignore[attr-defined]
    assert stage_score(turned) == stage_score(items)


def test_an_unreached_stage_scores_zero_whatever_its_items_say() -> None:
    summary = grade_summary(graded((1, 1, 1, 1, 1), reached=2))
    assert list(summary.scores.values()) == [1, 1, 0, 0, 0]
    assert summary.reached == {Stage.S1, Stage.S2}
    assert summary.agentic == pytest.approx(0.40)


def test_an_unreached_stage_without_items_scores_zero_too() -> None:
    summary = grade_summary(Graded((Item("a", Stage.S1, 1.0),), (Stage.S1,), 0.0))
    assert list(summary.scores.values()) == [1, 0, 0, 0, 0]


def test_a_stage_whose_items_do_not_apply_leaves_the_weights() -> None:
    items = (*graded((1, 1, 0, 1, 1)).items[:2], Item("x", Stage.S3, 0.0, False), *graded((1, 1, 0, 1, 1)).items[3:])
    summary = grade_summary(Graded(items, tuple(Stage), 1.0))
    assert Stage.S3 not in summary.scores
    assert summary.agentic == 1.0
    assert summary.overall == 1.0


def test_a_stage_that_does_not_apply_is_no_zero_where_it_was_not_reached() -> None:
    items = (Item("a", Stage.S1, 1.0), Item("x", Stage.S3, 0.0, False))
    summary = grade_summary(Graded(items, (Stage.S1,), 1.0))
    assert Stage.S3 not in summary.scores
    assert summary.agentic == pytest.approx(0.25 / 0.65)


def test_a_reached_stage_that_was_not_graded_is_an_error_and_not_zero() -> None:
    with pytest.raises(ValueError, match="S2 was reached"):
        grade_summary(Graded((Item("a", Stage.S1, 1.0),), (Stage.S1, Stage.S2), 0.0))


def test_a_stage_local_state_is_graded_on_its_stage_alone() -> None:
    summary = grade_summary(Graded((Item("a", Stage.S3, 0.5), Item("b", Stage.S4, 1.0)), (Stage.S3,), None), Focus.S3)
    assert summary.scores == {Stage.S3: 0.5}
    assert summary.overall is None


@given(unit, unit, st.sampled_from([0.0, 1.0]))
def test_a_reward_is_the_smaller_of_score_and_cap(agentic: float, task: float, cap: float) -> None:
    assert local_reward(agentic, cap) == min(agentic, cap)
    assert e2e_reward(agentic, task, cap) == min(0.5 * agentic + 0.5 * task, cap)


def test_rewards_follow_the_focus() -> None:
    calls = [Call(exit_code=0, end="exited", changed=True)]
    failed = [Call(exit_code=1, end="exited", changed=True)]
    summary = grade_summary(graded((0.8, 0.6, 0.4, 0.2, 0.0), task=0.5))
    assert rollout_reward(summary, Focus.E2E, calls) == pytest.approx(0.48)
    local = grade_summary(graded((0.8, 0.6, 0.4, 0.2, 0.0), task=None), Focus.S2)
    assert rollout_reward(local, Focus.S2, calls) == 0.6
    assert rollout_reward(local, Focus.S2, failed) == 0.0


WORKED = [Call(exit_code=0, end="exited", changed=True)]


def test_a_reward_that_lacks_a_score_is_missing_and_not_zero() -> None:
    assert rollout_reward(grade_summary(graded((1, 1, 1, 1, 1), task=None)), Focus.E2E, WORKED) is None
    inapplicable = Graded((Item("a", Stage.S3, 1.0, False),), (Stage.S3,), None)
    assert rollout_reward(grade_summary(inapplicable, Focus.S3), Focus.S3, WORKED) is None


def test_stage_means_read_the_rollouts_that_reached_the_stage() -> None:
    summaries = [grade_summary(graded((1, 0.5, 0, 0, 0), reached=2)), grade_summary(graded((0, 0, 0, 0, 0), reached=1))]
    assert stage_means(summaries) == {Stage.S1: (0.5, 2), Stage.S2: (0.5, 1)}
