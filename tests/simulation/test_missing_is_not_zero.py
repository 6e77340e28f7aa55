"""Sandboxes and judgements that break by seed: a missing reward leaves the mean, an untrainable group is replaced and says so,
and a round whose infrastructure keeps failing is broken off with the cause on the log.

Real deciders and the trainer's real state under the real loop; what the workers state is a function of seed and cause.
"""

from collections.abc import Mapping, Sequence
from functools import cache

import pytest

from bat_events.codec import Fact
from bat_events.deciders.interface import Draft
from bat_events.domain.grouping import group_advantages
from bat_events.domain.vocabulary import Track
from bat_events.events.plan import CampaignPlan, EvaluationPlan, PoolSizes
from bat_events.events.rollouts import IsolationBreached, RewardScored, RewardWithheld, RolloutCompleted, RolloutFailed
from bat_events.events.rounds import CampaignFinished, GroupAbandoned, GroupRequested, RoundBroken, RoundCompleted
from bat_events.events.training import CheckpointProduced, TrainingStepCompleted
from bat_events.log.interface import Record
from bat_events.replay import render, replay_campaign
from tests.replay.loop import Loop, decode
from tests.replay.memory import MemorySource
from tests.replay.workers import WORKERS, Handle, chance, judge, roll_out

CAMPAIGN = "missing-1"
PLAN = CampaignPlan(
    tracks=(Track.SEGMENTATION,),
    rounds=1,
    steps_per_round=2,
    group_size=4,
    group_attempts=3,
    seed=1,
    pools=PoolSizes(s_target=2, s_mix=1, e2e=1),
    evaluation=EvaluationPlan(repeats=4),
)
PLACE = ("group", "rollout", "index", "round", "step", "slot")


def breaking(sandboxes: float, judgements: float) -> Mapping[str, tuple[str, int, Handle]]:
    """Workers of which these shares of rollouts and judgements break besides."""

    def broken_rollouts(fact: Fact, plan: CampaignPlan) -> list[Draft]:
        drafts = roll_out(fact, plan)
        lost = {draft.event.rollout for draft in drafts if _hit(draft, sandboxes)}  # type: ignore[attr-defined]
        return [
            _failed(draft) if _hit(draft, sandboxes) else draft
            for draft in drafts
            if not (isinstance(draft.event, IsolationBreached) and draft.event.rollout in lost)  # nobody saw its calls
        ]

    def broken_judgements(fact: Fact, plan: CampaignPlan) -> list[Draft]:
        return [_withheld(draft) if _hit(draft, judgements) else draft for draft in judge(fact, plan)]

    return {**WORKERS, "rollout": ("group", 1, broken_rollouts), "judge": ("rollout", 1, broken_judgements)}


def _hit(draft: Draft, share: float) -> bool:
    event = draft.event
    return isinstance(event, RolloutCompleted | RewardScored) and chance(event.type_name(), event.rollout) < share


def _failed(draft: Draft) -> Draft:
    event = RolloutFailed(**{n: getattr(draft.event, n) for n in PLACE}, reason="sandbox", detail="")
    return _like(draft, event)


def _withheld(draft: Draft) -> Draft:
    event = RewardWithheld(**{n: getattr(draft.event, n) for n in PLACE}, reason="judge_unavailable", detail="")
    return _like(draft, event)


def _like(draft: Draft, event: RolloutFailed | RewardWithheld) -> Draft:
    return Draft(
        event=event,
        campaign=draft.campaign,
        cause=draft.cause,
        ordinal=draft.ordinal,
        key=draft.key,
        round=draft.round,
    )


@cache
def ran(sandboxes: float, judgements: float, seed: int = 0) -> Sequence[Record]:
    """A campaign's records."""
    return Loop(seed=seed, plan=PLAN, campaign=CAMPAIGN, workers=breaking(sandboxes, judgements)).run()


def of(facts: Sequence[Fact], kind: type) -> list[Fact]:
    return [fact for fact in facts if isinstance(fact.event, kind)]


@pytest.mark.parametrize(("sandboxes", "judgements"), [(0.15, 0.0), (0.0, 0.3)])
def test_means_are_over_the_rewards_that_are_there(sandboxes: float, judgements: float) -> None:
    facts = decode(ran(sandboxes, judgements))
    rewards = {fact.event.rollout: fact.event.reward for fact in of(facts, RewardScored)}
    lost = {fact.event.rollout for kind in (RolloutFailed, RewardWithheld) for fact in of(facts, kind)}
    steps = of(facts, TrainingStepCompleted)
    assert len(steps) == PLAN.steps_per_round
    short = 0
    for fact in steps:
        trained = [row for group in fact.event.groups for row in group.rollouts]
        assert not lost & {row.rollout for row in trained}
        assert fact.event.reward == pytest.approx(sum(rewards[row.rollout] for row in trained) / len(trained))
        for group in fact.event.groups:
            present = [rewards[row.rollout] for row in group.rollouts]
            assert len(present) >= 2
            assert [row.advantage for row in group.rollouts] == group_advantages(present)
            if len(present) < PLAN.group_size:
                short += 1
                as_zero = group_advantages([*present, *[0.0] * (PLAN.group_size - len(present))])
                assert any(present) is (as_zero[: len(present)] != [row.advantage for row in group.rollouts])
    assert short > 0
    result = replay_campaign(MemorySource(ran(sandboxes, judgements)))
    assert result.reproduced, render(result)


def test_an_untrainable_group_says_so_is_replaced_and_is_not_trained() -> None:
    facts = decode(ran(0.0, 0.4))
    asked = {(f.event.step, f.event.slot, f.event.attempt): f.event.group for f in of(facts, GroupRequested)}
    trained = {group.group for fact in of(facts, TrainingStepCompleted) for group in fact.event.groups}
    abandoned = [fact.event for fact in of(facts, GroupAbandoned)]
    assert abandoned
    broken = {fact.event.step for fact in of(facts, RoundBroken)}
    assert any(attempt > 0 for _, _, attempt in asked)
    for event in abandoned:
        assert event.group not in trained
        assert event.rewards < 2
        assert event.rewards + sum(reason.count for reason in event.reasons) == event.size == PLAN.group_size
        again = (event.step, event.slot, event.attempt + 1) in asked
        assert again is (event.step not in broken and event.attempt + 1 < PLAN.group_attempts)


@pytest.mark.parametrize(
    ("sandboxes", "judgements", "cause"),
    [(0.75, 0.0, ("rollout_failed", "sandbox")), (0.0, 1.0, ("reward_withheld", "judge_unavailable"))],
)
def test_a_round_whose_infrastructure_keeps_failing_is_broken_off_with_its_cause(
    sandboxes: float, judgements: float, cause: tuple[str, str]
) -> None:
    facts = decode(ran(sandboxes, judgements))
    (broken,) = of(facts, RoundBroken)
    event = broken.event
    assert (event.round, event.step) == (1, 0)
    assert event.missing > PLAN.breaker.max_missing * event.rollouts  # type: ignore[union-attr]
    assert cause in [(reason.kind, reason.reason) for reason in event.reasons]
    assert broken.envelope.cut is not None
    assert {(f.event.step, f.event.attempt) for f in of(facts, GroupRequested)} == {(0, 0)}  # nothing more is sampled
    assert of(facts, TrainingStepCompleted) == []
    candidate = of(facts, CheckpointProduced)[-1].event
    assert (candidate.round, candidate.steps, candidate.healthy) == (1, 0, False)
    assert candidate.health[0].startswith(f"broken off: {event.missing} of {event.rollouts} rollouts of step 0")
    (completed,) = of(facts, RoundCompleted)
    assert completed.event.outcome == "held"
    assert [f.event.outcome for f in of(facts, CampaignFinished)] == ["completed"]
    assert replay_campaign(MemorySource(ran(sandboxes, judgements))).reproduced


@pytest.mark.parametrize(("sandboxes", "judgements"), [(0.0, 0.42), (0.75, 0.0)])
def test_what_breaks_is_decided_alike_in_every_order_of_work(sandboxes: float, judgements: float) -> None:
    first, second = (
        {(fact.id, fact.envelope.body_digest) for fact in decode(ran(sandboxes, judgements, seed))} for seed in (0, 7)
    )
    assert first == second
