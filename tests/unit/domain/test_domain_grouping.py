"""Group advantages and the ids of states, groups and rollouts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_events.domain.grouping import (
    group_advantages,
    group_id,
    group_seed,
    rollout_id,
    rollout_seed,
    state_id,
    state_seed,
    trainable,
    zero_variance,
)
from bat_events.domain.vocabulary import Focus, Outcome, Track

rewards = st.lists(st.none() | st.floats(0, 1), max_size=8)


@pytest.mark.parametrize(
    ("given_rewards", "advantages"),
    [
        ([1.0, 0.0, 0.0, 1.0], [0.5, -0.5, -0.5, 0.5]),
        ([0.5, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]),
        ([1.0, None, 0.0, None], [0.5, None, -0.5, None]),
        ([0.25, 0.75], [-0.25, 0.25]),
        ([1.0, None, None, None], [None, None, None, None]),
        ([None, None], [None, None]),
        ([], []),
    ],
)
def test_an_advantage_is_the_reward_less_the_mean_of_those_present(
    given_rewards: list[float | None], advantages: list[float | None]
) -> None:
    assert group_advantages(given_rewards) == advantages


def test_advantages_are_not_divided_by_the_deviation() -> None:
    assert group_advantages([0.51, 0.49]) == pytest.approx([0.01, -0.01])


@given(rewards)
def test_advantages_of_a_group_add_up_to_zero(values: list[float | None]) -> None:
    present = [advantage for advantage in group_advantages(values) if advantage is not None]
    assert abs(math.fsum(present)) < 1e-12
    assert bool(present) == trainable(values)


@given(rewards, st.integers(0, 8))
def test_a_missing_reward_moves_nobody_elses_advantage(values: list[float | None], place: int) -> None:
    place = min(place, len(values))
    padded = [*values[:place], None, *values[place:]]
    found = group_advantages(padded)
    assert found[place] is None
    assert found[:place] + found[place + 1 :] == group_advantages(values)


@given(rewards, st.randoms(use_true_random=False))
def test_a_reorder_reorders_the_advantages(values: list[float | None], random: object) -> None:
    order = list(range(len(values)))
    random.shuffle(order)  # type: ignore[attr-defined]
    plain = group_advantages(values)
    assert group_advantages([values[place] for place in order]) == [plain[place] for place in order]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_reward_that_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        group_advantages([0.0, bad])


@pytest.mark.parametrize(
    ("values", "flat"),
    [
        ([0.5, 0.5, 0.5], True),
        ([0.1 + 0.2, 0.3], True),
        ([0.5, None, 0.5], True),
        ([0.5, None], True),
        ([0.5, 0.4], False),
        ([0.0, None, 1.0], False),
    ],
)
def test_a_group_of_equal_rewards_teaches_nothing(values: list[float | None], flat: bool) -> None:
    assert zero_variance(values) is flat


def test_ids_tell_every_cause_apart() -> None:
    groups = {
        group_id(campaign, number, step, slot, attempt)
        for campaign in ("a", "b")
        for number in range(3)
        for step in range(5)
        for slot in range(8)
        for attempt in range(2)
    }
    assert len(groups) == 2 * 3 * 5 * 8 * 2
    states = {
        state_id("a", focus, track, outcome, ordinal)
        for focus in Focus
        for track in Track
        for outcome in Outcome
        for ordinal in range(3)
    }
    assert len(states) == 126 * 3
    rollouts = {rollout_id(group, index) for group in groups for index in range(4)}
    assert len(rollouts) == len(groups) * 4
    assert all(len(name) == 32 and int(name, 16) >= 0 for name in groups | states | rollouts)


def test_ids_and_seeds_are_recorded_and_stay() -> None:
    group = group_id("c", 1, 2, 3)
    assert group == "2e718bb7ec9c17820ec19af8a9e54a4c"
    assert state_id("c", Focus.S3, Track.VQA, Outcome.RECOVERY, 7) == "c86046c689ea622472a7e1b891b9e45e"
    assert state_seed(5, "s") == 4367833899391892987
    assert group_seed(5, group) == 1357553047245939596
    assert rollout_seed(5, group, 0) == 1148475060300484481
