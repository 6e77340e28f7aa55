"""What the trainer folds: given these facts, then exactly this step is due, or the round ends for this reason."""

import pytest

from bat_events.codec import Fact
from bat_events.consumers.learner import train_groups
from bat_events.consumers.trainer_state import TrainerState
from bat_events.domain.grouping import group_id
from bat_events.events.rounds import CampaignFinished
from bat_events.events.training import TrainingRewound
from tests.support.campaigns import (
    CAMPAIGN,
    cancelled,
    name,
    outcomes,
    paused,
    planned,
    produced,
    resumed,
    started,
    stepped,
    told,
    training_failed,
)

GOOD = [0.0, 0.5, 1.0]
LOST = ["failed"] * 3


def state(*facts: object) -> TrainerState:
    """A trainer's state after its inputs and, in their place, its own outputs."""
    made = TrainerState(CAMPAIGN)
    for part in (started(), *facts):
        for fact in [part] if isinstance(part, Fact) else part:  # type: ignore[attr-defined]
            tell(made, fact)
    return made


def tell(made: TrainerState, fact: Fact) -> None:
    if fact.topic == "training":
        made.learn(fact.event, fact.id)
    else:
        made.apply(fact)


def in_round_one(*facts: object) -> TrainerState:
    return state(produced(0, "base"), planned(1, "base"), *facts)


def step_zero(first: list[float | str] = GOOD, second: list[float | str] = GOOD) -> list[Fact]:  # type: ignore[assignment]
    return [*outcomes(1, 0, 0, first), *outcomes(1, 0, 1, second)]


def rewound(step: int, attempt: int) -> Fact:
    return told(TrainingRewound, round=1, step=step, attempt=attempt)


def test_the_cold_start_is_due_until_it_has_been_made() -> None:
    made = state()
    assert made.cold_start_due
    tell(made, produced(0, "base"))
    assert not made.cold_start_due
    assert made.due() is None


def test_a_step_is_due_only_when_every_slot_is_settled() -> None:
    made = in_round_one()
    facts = step_zero()
    for fact in facts:
        assert made.due() is None
        tell(made, fact)
    assert made.due() == 0


def test_a_step_is_not_due_while_a_rollout_that_has_its_reward_was_not_read() -> None:
    """Rollouts and rewards come by different topics, in any order."""
    facts = step_zero()
    late = next(fact for fact in facts if fact.topic == "rollout")
    made = in_round_one([fact for fact in facts if fact is not late])
    assert made.due() is None
    tell(made, late)
    assert made.due() == 0


@pytest.mark.parametrize("loss", ["failed", "withheld"])
def test_a_missing_reward_leaves_the_groups_mean(loss: str) -> None:
    made = in_round_one(step_zero([0.25, loss, 0.75]))
    assert made.due() == 0
    rows = train_groups(made, 0)[0].rollouts
    assert [(row.reward, row.advantage) for row in rows] == [(0.25, -0.25), (0.75, 0.25)]


def test_groups_are_trained_in_the_order_of_slots_with_what_was_sampled() -> None:
    made = in_round_one(reversed(step_zero()))
    groups = train_groups(made, 0)
    assert [(group.slot, group.group) for group in groups] == [(n, group_id(CAMPAIGN, 1, 0, n)) for n in (0, 1)]
    row = groups[0].rollouts[0]
    assert (list(row.response_ids), list(row.response_mask), list(row.logprobs)) == ([2, 3], [1, 0], [-0.5, 0.0])
    assert sum(row.advantage for row in groups[0].rollouts) == 0.0


def test_a_group_with_fewer_than_two_rewards_is_waited_for_in_its_next_attempt() -> None:
    made = in_round_one(step_zero([0.5, "failed", "withheld"]))
    assert made.due() is None
    for fact in outcomes(1, 0, 0, GOOD, attempt=1):
        tell(made, fact)
    assert made.due() == 0
    assert train_groups(made, 0)[0].group == group_id(CAMPAIGN, 1, 0, 0, 1)


def test_a_slot_whose_tries_are_used_up_ends_the_round_with_the_last_healthy_weights() -> None:
    made = in_round_one(step_zero(), stepped(1, 0, "w0"), outcomes(1, 1, 0, LOST), outcomes(1, 1, 0, LOST, attempt=1))
    reason = made.due()
    assert isinstance(reason, str)
    assert "step 1 slot 0" in reason
    assert (made.last_healthy(), made.healthy_steps()) == (name("w0"), 1)


def test_a_step_that_is_not_healthy_ends_the_round_with_the_weights_before_it() -> None:
    made = in_round_one(stepped(1, 0, "w0"), stepped(1, 1, "w1", healthy=False))
    reason = made.due()
    assert isinstance(reason, str)
    assert "entropy fell" in reason
    assert (made.last_healthy(), made.healthy_steps()) == (name("w0"), 1)


def test_a_round_without_a_healthy_step_has_its_own_start_as_candidate() -> None:
    made = in_round_one(stepped(1, 0, "w0", healthy=False))
    assert (made.last_healthy(), made.healthy_steps()) == (name("base"), 0)


def test_a_whole_round_ends_without_a_reason() -> None:
    made = in_round_one(*(stepped(1, step, f"w{step}") for step in range(3)))
    assert made.due() == ""
    assert (made.last_healthy(), made.healthy_steps()) == (name("w2"), 3)


def test_rewound_steps_are_due_again_and_carry_the_new_attempt() -> None:
    made = in_round_one(step_zero(), stepped(1, 0, "w0"), stepped(1, 1, "w1"), rewound(0, 1))
    assert made.due() == 0
    assert made.attempts == {1: 1}
    assert made.last_healthy() == name("base")
    tell(made, stepped(1, 0, "again", attempt=1))
    assert made.last_healthy() == name("again")


def test_steps_before_the_rewound_one_stand() -> None:
    made = in_round_one(stepped(1, 0, "w0"), stepped(1, 1, "w1"), rewound(1, 1))
    assert made.last_healthy() == name("w0")
    assert made.due() is None  # step 1's groups are not in this test


def test_a_rounds_rollouts_are_forgotten_with_its_candidate_and_late_ones_are_not_kept() -> None:
    other = list(outcomes(2, 0, 0, GOOD))
    made = in_round_one(step_zero(), other)
    assert len(made.rollouts) == 3
    tell(made, produced(1, "one"))
    assert list(made.rollouts) == [group_id(CAMPAIGN, 2, 0, 0)]
    for fact in outcomes(1, 1, 0, GOOD):
        tell(made, fact)
    assert list(made.rollouts) == [group_id(CAMPAIGN, 2, 0, 0)]


def test_the_next_round_is_open_after_the_candidate() -> None:
    made = in_round_one(planned(2, "one"))
    assert made.open_round() == 1
    tell(made, produced(1, "one"))
    assert made.open_round() == 2
    tell(made, produced(2, "two"))
    assert made.due() is None
    with pytest.raises(LookupError):
        made.current()


def test_nothing_is_due_while_paused_nor_after_the_end() -> None:
    made = in_round_one(paused())
    assert made.closed
    tell(made, resumed())
    assert not made.closed
    for end in (cancelled(), training_failed(1), told(CampaignFinished)):
        assert in_round_one(end).closed


def test_what_is_waited_for_is_said_in_words() -> None:
    made = in_round_one(outcomes(1, 0, 0, GOOD))
    assert made.waiting() == "round 1 step 0: 1 of 2 groups ready"
