"""bench/asynchrony: a tiny round in simulated time keeps the books, and the synchronous order is what it says."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from bench.asynchrony_parts.comparing import Condition, bound, rounds_of
from bench.asynchrony_parts.durations import Durations
from bench.asynchrony_parts.reading import Reading
from bench.asynchrony_parts.spans import Round, Span, in_order
from bench.asynchrony_parts.synchronous import synchronous_round
from bench.asynchrony_parts.timed import BEGIN, Shape, TimedCampaign

TINY = Condition(
    name="tiny",
    steps=4,
    group_size=2,
    pools=(2, 1, 1),
    tracks=1,
    durations=Durations(evaluation=60.0, cold_start=600.0),
    shape=Shape(samplers=8, judges=4, partitions=16),
)


@cache
def both(condition: Condition) -> tuple[Round, Round]:
    return rounds_of(condition)


@cache
def campaign(condition: Condition) -> tuple[Reading, Round]:
    ran = TimedCampaign(condition.plan(), condition.durations, condition.shape)
    reading = Reading(ran.run(), BEGIN)
    return reading, reading.round(1, ran.spans, condition.shape.samplers)


def kinds(done: Round, kind: str) -> list[Span]:
    return sorted((span for span in done.spans if span.kind == kind), key=lambda span: span.begin)


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_every_group_is_trained_once_and_no_older_than_the_lag(lag: int) -> None:
    condition = replace(TINY, lag=lag)
    reading, ours = campaign(condition)
    steps = reading.steps(1, condition.group_size)
    rollouts = [rollout for groups in steps for group in groups for rollout in group]
    assert [len(groups) for groups in steps] == [4] * condition.steps
    assert len(set(rollouts)) == len(rollouts) == 4 * 4 * 2
    lags = reading.lags(1)
    assert max(lags) == lag  # it is used, and never exceeded
    assert min(lags) == 0  # the first steps have the round's first weights
    assert [span.step for span in kinds(ours, "train")] == list(range(condition.steps))
    assert len(kinds(ours, "sample")) == 4 * condition.steps
    assert len(kinds(ours, "judge")) == len(rollouts)


def test_no_lane_does_two_things_at_once() -> None:
    for done in both(TINY):
        for lane in {span.lane for span in done.spans}:
            mine = sorted((span for span in done.spans if span.lane == lane), key=lambda span: span.begin)
            assert all(one.end <= later.begin for one, later in pairwise(mine))


def test_both_orders_do_the_same_work() -> None:
    sync, ours = both(TINY)
    for kind in ("sample", "judge", "train", "evaluate"):
        theirs = sorted(round(span.seconds, 6) for span in kinds(sync, kind))
        assert theirs == sorted(round(span.seconds, 6) for span in kinds(ours, kind)), kind


def test_the_synchronous_order_begins_nothing_before_all_of_the_kind_before_is_done() -> None:
    sync, _ = both(TINY)
    phases = []
    for step in range(TINY.steps):
        for kind in ("sample", "judge", "train"):
            mine = [span for span in kinds(sync, kind) if span.step == step]
            phases.append((min(span.begin for span in mine), max(span.end for span in mine)))
    made = kinds(sync, "synthesis")
    assert max(span.end for span in made) == pytest.approx(phases[0][0])
    for (_, end), (begin, _) in pairwise(phases):
        assert begin == pytest.approx(end)
    (evaluated,) = kinds(sync, "evaluate")
    assert evaluated.begin == pytest.approx(phases[-1][1])
    assert sync.wall == pytest.approx(evaluated.end)
    assert set(sync.lags) == {0}


def test_a_round_is_no_quicker_than_its_lag_allows_and_waits_for_no_states() -> None:
    for lag in (0, 1, 2):
        condition = replace(TINY, lag=lag)
        sync, ours = both(condition)
        assert (
            sync.wall / ours.wall <= bound(sync, condition) * 1.05
        )  # shortest chain: see `bound`, few steps are uneven
        assert ours.waited_for_states == 0.0


def test_a_bank_that_is_not_ahead_is_seen_as_waiting() -> None:
    slow = replace(TINY, durations=replace(TINY.durations, synthesis=60.0))
    _, ours = both(slow)
    assert ours.waited_for_states > 0


def test_jobs_are_taken_in_order_by_whoever_is_free_first() -> None:
    assert in_order(1.0, [3.0, 1.0, 1.0, 5.0], 2) == [(1.0, 4.0, 0), (1.0, 2.0, 1), (2.0, 3.0, 1), (3.0, 8.0, 1)]


def test_means_stay_where_tails_grow() -> None:
    for tail in (0.0, 0.8):
        durations = Durations(tail=tail)
        drawn = [durations.of_rollout(f"r{number}") for number in range(4000)]
        assert sum(drawn) / len(drawn) == pytest.approx(durations.rollout, rel=0.06)


def test_the_reference_order_is_arithmetic_on_the_stated_seconds() -> None:
    flat = Durations(
        tail=0.0, judge_tail=0.0, rollout=10.0, judge=1.0, step=3.0, synthesis=0.5, gate=0.0, evaluation=7.0
    )
    steps = [[["a", "b"], ["c", "d"]], [["e", "f"], ["g", "h"]]]
    done = synchronous_round(steps, flat, samplers=1, judges=2)
    assert done.wall == pytest.approx(4 * 0.5 + 2 * (2 * 10.0 + 2 * 1.0 + 3.0) + 7.0)
    assert done.trainer_idle == pytest.approx(1 - 6.0 / done.wall)
