"""The planner: given these facts, then exactly this work may begin."""

import pytest

from bat_events.deciders.bank import pool_mix
from bat_events.deciders.old.planner import PlannerV1, PlannerV2
from bat_events.deciders.planner import Planner
from bat_events.domain.grouping import group_id
from bat_events.domain.roundplan import required_states
from bat_events.domain.vocabulary import Stage
from bat_events.events.fact import Fact
from bat_events.events.plan import BreakerPlan
from bat_events.events.rounds import (
    CampaignFinished,
    EvaluationRequested,
    GroupAbandoned,
    GroupRequested,
    RoundBroken,
    RoundCompleted,
    RoundPlanned,
)
from tests.support.campaigns import (
    CAMPAIGN,
    PLAN,
    admitted,
    bank,
    cancelled,
    fold,
    held,
    name,
    outcomes,
    paused,
    prescribed,
    produced,
    promoted,
    required,
    resumed,
    retired,
    started,
    stepped,
    training_failed,
)

WIDTH = 4  # groups in a step of PLAN


def planner(*facts: object, **changes: object) -> Planner:
    """A planner that was told these facts after the campaign's start."""
    made = Planner(CAMPAIGN)
    fold(made, started(**changes), *facts)  # type: ignore[arg-type]
    return made


def in_round_one(*facts: object, **changes: object) -> Planner:
    """A planner in its first round, from checkpoint "base"."""
    return planner(bank(each=4), produced(0, "base"), promoted(0, "base"), prescribed(1, "base"), *facts, **changes)


def asked(made: Planner) -> list[tuple[int, int, int, str]]:
    """(step, slot, attempt, weights) of every group that is asked for."""
    return [(e.step, e.slot, e.attempt, e.weights) for e in required(made, GroupRequested)]


def whole_step(step: int, weights: str) -> list[tuple[int, int, int, str]]:
    return [(step, slot, 0, name(weights)) for slot in range(WIDTH)]


def test_the_baseline_is_evaluated_beside_nothing() -> None:
    (request,) = required(planner(produced(0, "base")), EvaluationRequested)
    assert (request.round, request.checkpoint, request.comparators) == (0, name("base"), ())
    assert (request.tracks, request.repeats) == (PLAN.tracks, PLAN.evaluation.repeats)


@pytest.mark.parametrize(
    ("decision", "comparators"),
    [
        (promoted(1, "one"), ("one",)),  # parent and best are the same: named once
        (promoted(1, "one", best="base"), ("one", "base")),
        (held(1, "one", fallback="base"), ("base",)),
        (held(1, "one", fallback="parent", best="base"), ("parent", "base")),
    ],
)
def test_a_candidate_is_evaluated_beside_its_parent_and_the_best_so_far(
    decision: object, comparators: tuple[str, ...]
) -> None:
    made = planner(produced(0, "base"), promoted(0, "base"), produced(1, "one"), decision, produced(2, "two"))
    request = required(made, EvaluationRequested)[-1]
    assert request.checkpoint == name("two")
    assert request.comparators == tuple(name(word) for word in comparators)


def test_a_candidate_waits_for_the_decision_on_the_round_before() -> None:
    made = planner(produced(0, "base"), promoted(0, "base"), produced(1, "one"), produced(2, "two"))
    assert [r.round for r in required(made, EvaluationRequested)] == [0, 1]


def test_every_evaluation_of_a_campaign_has_the_same_conditions() -> None:
    made = planner(produced(0, "base"), promoted(0, "base"), produced(1, "one"))
    first, second = required(made, EvaluationRequested)
    assert (first.seed, first.tracks, first.repeats, first.temperature) == (
        second.seed,
        second.tracks,
        second.repeats,
        second.temperature,
    )


def test_a_round_is_planned_only_when_the_bank_has_every_rank_that_it_draws() -> None:
    need = required_states(Stage.S3, PLAN.steps_per_round, pool_mix(PLAN), tracks=PLAN.tracks)
    assert sum(need.values()) > 0
    ranks = {(cell, rank): admitted(cell, rank) for cell, count in need.items() for rank in range(count)}
    complete = planner(ranks.values(), prescribed(1, "base"))
    assert len(required(complete, RoundPlanned)) == 1

    for lacking in ranks:
        made = planner([one for place, one in ranks.items() if place != lacking], prescribed(1, "base"))
        assert made.required() == []
        made.apply(ranks[lacking])
        assert required(made, RoundPlanned) == required(complete, RoundPlanned)


def test_a_plan_depends_neither_on_later_admissions_nor_on_their_order() -> None:
    few, many = bank(each=2), bank(each=6)
    plans = [
        required(planner(few, prescribed(1, "base")), RoundPlanned),
        required(planner(many, prescribed(1, "base")), RoundPlanned),
        required(planner(prescribed(1, "base"), reversed(many)), RoundPlanned),
    ]
    assert len(plans[0]) == 1
    assert plans[0] == plans[1] == plans[2]


def drawn(plan: RoundPlanned) -> list[str]:
    """The states of a plan."""
    return [slot.state for step in plan.steps for slot in step.slots]


def test_no_state_is_drawn_twice_in_a_campaign() -> None:
    made = planner(bank(each=9), *(prescribed(number, "base") for number in (1, 2, 3)), rounds=3)
    for number in (1, 2, 3):
        rounds = required(made, RoundPlanned)
        assert len(rounds) == number
        fold(made, retired(rounds[-1]))
    states = [state for plan in required(made, RoundPlanned) for state in drawn(plan)]
    assert len(set(states)) == len(states) == 3 * PLAN.steps_per_round * WIDTH


def test_a_round_waits_until_the_bank_has_retired_all_that_earlier_rounds_drew() -> None:
    made = planner(bank(each=9), prescribed(1, "base"), prescribed(2, "base"))
    (first,) = required(made, RoundPlanned)
    *facts, last = retired(first)
    fold(made, facts)
    assert required(made, RoundPlanned) == [first]
    made.apply(last)
    assert len(required(made, RoundPlanned)) == 2


def test_a_plan_does_not_depend_on_when_its_own_states_retire() -> None:
    """As after a restart: what a round drew is retired before the planner is asked for that round again."""
    made = planner(bank(each=9), prescribed(1, "base"))
    (first,) = required(made, RoundPlanned)
    again = planner(bank(each=9), retired(first), prescribed(1, "base"))
    assert required(again, RoundPlanned) == [first]


def test_version_1_waits_for_no_retirement_and_draws_the_same() -> None:
    facts = [*bank(each=9), prescribed(1, "base"), prescribed(2, "base")]
    old = PlannerV1(CAMPAIGN)
    fold(old, started(), facts)
    new = planner(facts)
    fold(new, retired(required(new, RoundPlanned)[0]))
    assert required(old, RoundPlanned) == required(new, RoundPlanned)
    assert len(required(old, RoundPlanned)) == 2


def test_the_next_round_waits_for_states_that_no_round_drew() -> None:
    made = planner(bank(each=2), prescribed(1, "base"), prescribed(2, "base"))
    (first,) = required(made, RoundPlanned)
    fold(made, retired(first))
    assert required(made, RoundPlanned) == [first]


def settled(step: int) -> list[Fact]:
    """All rewards of a step's first groups are there."""
    return [fact for slot in range(WIDTH) for fact in outcomes(1, step, slot, [0.5] * 3)]


def test_a_step_is_sampled_after_the_one_before_with_its_weights() -> None:
    made = in_round_one(settled(0), settled(1))
    assert asked(made) == whole_step(0, "base")
    made.apply(stepped(1, 0, "w0"))
    assert asked(made) == whole_step(0, "base") + whole_step(1, "w0")
    made.apply(stepped(1, 1, "w1"))
    assert asked(made)[-WIDTH:] == whole_step(2, "w1")


def test_lag_one_samples_one_step_ahead_with_the_weights_of_two_steps_before() -> None:
    made = in_round_one(settled(0), lag=1)
    assert asked(made) == whole_step(0, "base") + whole_step(1, "base")
    made.apply(stepped(1, 0, "w0"))
    assert asked(made) == whole_step(0, "base") + whole_step(1, "base") + whole_step(2, "w0")


def test_a_group_with_fewer_than_two_rewards_is_asked_for_again_on_the_same_state() -> None:
    made = in_round_one(outcomes(1, 0, 2, [0.5, "failed", "withheld"]))
    assert asked(made) == whole_step(0, "base")  # the step's other first groups may yet break the round off
    fold(made, settled(0))
    tries = [event for event in required(made, GroupRequested) if event.slot == 2]
    assert [event.attempt for event in tries] == [0, 1]
    assert [event.group for event in tries] == [group_id(CAMPAIGN, 1, 0, 2, attempt) for attempt in (0, 1)]
    assert len({event.seed for event in tries}) == 2
    assert len({(event.state, event.body, event.weights) for event in tries}) == 1


def test_a_group_is_tried_no_more_often_than_the_plan_allows() -> None:
    lost = ["failed"] * 3
    made = in_round_one(outcomes(1, 0, 2, lost), outcomes(1, 0, 2, lost, attempt=1), settled(0))
    assert [event.attempt for event in required(made, GroupRequested) if event.slot == 2] == [0, 1]


@pytest.mark.parametrize("rewards", [[0.5, 0.5, "failed"], [0.5, "failed"], ["failed", "failed"]])
def test_a_group_is_not_replaced_while_it_can_be_trained_or_is_not_settled(rewards: list[float | str]) -> None:
    made = in_round_one(outcomes(1, 0, 2, rewards))
    assert asked(made) == whole_step(0, "base")


def test_every_request_has_an_id_of_its_own() -> None:
    lost = ["failed"] * 3
    made = in_round_one(
        *(outcomes(1, step, slot, lost) for step in range(3) for slot in range(WIDTH)),
        *(stepped(1, step, f"w{step}") for step in range(3)),
        lag=1,
        breaker=None,
    )
    drafts = made.required()
    assert len(required(made, GroupRequested)) == 3 * WIDTH * 2
    assert len({draft.id for draft in drafts}) == len(drafts)


def test_nothing_is_sampled_after_a_step_that_was_not_healthy() -> None:
    made = in_round_one(stepped(1, 0, "w0", healthy=False))
    assert asked(made) == whole_step(0, "base")


def test_a_rewound_step_asks_for_nothing_twice() -> None:
    again, before = stepped(1, 0, "again", attempt=1), stepped(1, 0, "before")
    for order in ([before, again], [again, before]):
        made = in_round_one(*order, settled(0))
        assert asked(made) == whole_step(0, "base") + whole_step(1, "before")
        causes = {draft.cause for draft in made.required() if isinstance(draft.event, GroupRequested)}
        assert before.id in causes
        assert again.id not in causes


def test_a_paused_campaign_asks_for_nothing_until_it_is_resumed() -> None:
    made = in_round_one(settled(0), paused())
    assert made.required() == []
    made.apply(stepped(1, 0, "w0"))
    assert made.required() == []
    made.apply(resumed())
    assert asked(made) == whole_step(0, "base") + whole_step(1, "w0")


@pytest.mark.parametrize("before", [[], [paused()]])
def test_a_cancelled_campaign_only_finishes(before: list[object]) -> None:
    made = planner(bank(each=4), produced(0, "base"), prescribed(1, "base"), *before, cancelled())
    assert [draft.event for draft in made.required()] == [
        CampaignFinished(outcome="cancelled", rounds=0, best_checkpoint=None)
    ]


def test_a_campaign_whose_training_failed_only_finishes() -> None:
    made = in_round_one(training_failed(1))
    assert [draft.event for draft in made.required()] == [
        CampaignFinished(outcome="training_failed", rounds=0, best_checkpoint=name("base"))
    ]


def test_a_campaign_is_completed_after_the_last_decision_and_names_the_best() -> None:
    made = in_round_one(produced(1, "one"), promoted(1, "one"))
    assert required(made, CampaignFinished) == []
    fold(made, produced(2, "two"), held(2, "two", fallback="one"))
    assert required(made, RoundCompleted) == [
        RoundCompleted(round=1, outcome="promoted", candidate=name("one"), next_checkpoint=name("one")),
        RoundCompleted(round=2, outcome="held", candidate=name("two"), next_checkpoint=name("one")),
    ]
    assert required(made, CampaignFinished) == [
        CampaignFinished(outcome="completed", rounds=2, best_checkpoint=name("one"))
    ]


def test_the_baselines_promotion_completes_no_round() -> None:
    assert required(in_round_one(), RoundCompleted) == []


def test_facts_before_the_start_wait_for_it() -> None:
    made = Planner(CAMPAIGN)
    fold(made, produced(0, "base"))
    assert made.required() == []
    made.apply(started())
    assert len(required(made, EvaluationRequested)) == 1


def test_a_group_that_is_not_trained_says_so_and_why() -> None:
    made = in_round_one(outcomes(1, 0, 2, [0.5, "failed", "withheld"]))
    (event,) = required(made, GroupAbandoned)
    assert (event.group, event.slot, event.attempt) == (group_id(CAMPAIGN, 1, 0, 2), 2, 0)
    assert (event.size, event.rewards) == (3, 1)
    assert [(reason.kind, reason.count) for reason in event.reasons] == [("reward_withheld", 1), ("rollout_failed", 1)]
    (request,) = [d for d in made.required() if isinstance(d.event, GroupRequested) and d.event.slot == 2]
    (said,) = [d for d in made.required() if isinstance(d.event, GroupAbandoned)]
    assert said.cause == request.id


LOST: list[float | str] = ["failed"] * 3


def test_too_many_missing_rewards_break_the_round_off_and_nothing_more_is_sampled() -> None:
    """Eight of twelve are missing, and half may be: the untrainable groups are not asked for again."""
    lost = [fact for slot in (0, 1) for fact in outcomes(1, 0, slot, LOST)]
    lost += [fact for slot in (2, 3) for fact in outcomes(1, 0, slot, [0.5, 0.5, "withheld"])]
    made = in_round_one(lost[:-1])
    assert required(made, RoundBroken) == []  # one rollout is not settled
    made.apply(lost[-1])
    (broken,) = required(made, RoundBroken)
    assert (broken.round, broken.step, broken.rollouts, broken.missing, broken.max_missing) == (1, 0, 12, 8, 0.5)
    assert [(reason.kind, reason.count) for reason in broken.reasons] == [("reward_withheld", 2), ("rollout_failed", 6)]
    assert asked(made) == whole_step(0, "base")
    made.apply(stepped(1, 0, "w0"))  # whoever trains it all the same changes nothing
    assert asked(made) == whole_step(0, "base")
    (draft,) = [draft for draft in made.required() if isinstance(draft.event, RoundBroken)]
    assert draft.cause == next(d.id for d in made.required() if isinstance(d.event, RoundPlanned))


def test_as_many_missing_rewards_as_are_allowed_break_nothing_off() -> None:
    half = [fact for slot in range(WIDTH) for fact in outcomes(1, 0, slot, LOST if slot % 2 else [0.5] * 3)]
    made = in_round_one(half)
    assert required(made, RoundBroken) == []
    assert sorted(event.slot for event in required(made, GroupRequested) if event.attempt == 1) == [1, 3]
    assert required(in_round_one(half, breaker=BreakerPlan(max_missing=0.49)), RoundBroken)


def test_failures_among_replacements_do_not_break_a_round_off() -> None:
    made = in_round_one(outcomes(1, 0, 2, LOST), outcomes(1, 0, 2, LOST, attempt=1), settled(0))
    assert required(made, RoundBroken) == []
    assert [event.attempt for event in required(made, GroupAbandoned)] == [0, 1]


def test_version_2_replaces_at_once_and_breaks_nothing_off() -> None:
    old = PlannerV2(CAMPAIGN)
    fold(old, started(), bank(each=6), produced(0, "base"), prescribed(1, "base"))
    fold(old, (fact for slot in range(WIDTH) for fact in outcomes(1, 0, slot, LOST)))
    assert len(required(old, GroupRequested)) == 2 * WIDTH
    assert required(old, RoundBroken) == required(old, GroupAbandoned) == []
