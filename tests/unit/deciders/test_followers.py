"""A follower says exactly what its decider newly requires: over interleavings, with pauses, and over golden logs."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bat_events.codec import Codec, Fact
from bat_events.deciders import incremental
from bat_events.deciders.incremental import follow
from bat_events.deciders.interface import Decider, Draft
from bat_events.deciders.planner import Planner
from bat_events.deciders.premises import Premises
from bat_events.deciders.versions import DECIDERS, NEWEST
from bat_events.events.bank import StateSynthesized
from bat_events.events.campaign import CampaignCancelled, CampaignPaused, CampaignResumed, CampaignStarted
from bat_events.events.plan import BreakerPlan
from bat_events.events.promotion import TargetStagePrescribed
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted
from bat_events.events.rounds import EvaluationRequested, RoundCompleted
from bat_events.replay import ArchiveSource
from tests.replay.loop import CAMPAIGN, VERSION_1, VERSION_2, Loop
from tests.unit.deciders.test_interleaving import CASES, PLANS, interleavings, recorded

GOLDEN = Path(__file__).parents[2] / "golden"
every_version = pytest.mark.parametrize(("plan", "kind"), CASES, ids=lambda v: getattr(v, "__name__", v))


def compare(kind: type[Decider], campaign: str, facts: Sequence[Fact], seed: int) -> int:
    """Fold facts into decider and follower, ask both now and then; returns how many drafts came out."""
    rng, often = random.Random(seed), random.Random(seed).choice((0.02, 0.2, 1.0))
    decider, follower = kind(campaign), follow(kind, campaign)
    said: dict[str, bytes] = {}
    for number, fact in enumerate(facts):
        decider.apply(fact)
        follower.apply(fact)
        if rng.random() < often or number == len(facts) - 1:
            expected = [
                _shown(d) for d in decider.required() if d.id not in said and not _waits(d, facts[: number + 1])
            ]
            found = [_shown(draft) for draft in follower.fresh()]
            if kind.name == "planner":  # what waited comes before what is newer
                expected, found = sorted(expected), sorted(found)
            assert found == expected
            said.update({entry[0]: entry[1] for entry in found})
    assert list(follower.fresh()) == []
    return len(said)


def _shown(draft: Draft) -> tuple[str, bytes, str, str]:
    return draft.id, Codec.encode_body(draft.event), draft.key, str(draft.round)


def _waits(draft: Draft, folded: Sequence[Fact]) -> bool:
    """Whether a planner's decision is about a round whose prescription, and so its version, is not known yet."""
    if not isinstance(draft.event, EvaluationRequested | RoundCompleted) or draft.round == 0:
        return False
    return not any(isinstance(f.event, TargetStagePrescribed) and f.event.round == draft.round for f in folded)


@every_version
def test_a_follower_says_what_is_newly_required(plan: str, kind: type[Decider]) -> None:
    for seed, facts in enumerate(interleavings(recorded(plan, kind), kind, 8)):
        assert compare(kind, CAMPAIGN, facts, seed) > 0


@pytest.mark.parametrize("max_missing", [0.0, 0.2, 0.35, 0.5, None])
def test_a_breaker_is_followed_wherever_it_breaks(max_missing: float | None) -> None:
    """In any order: rewards before the request, before the plan, before the step before was trained."""
    made: set[tuple[str, bool]] = set()
    for plan in PLANS:
        for seed, facts in enumerate(interleavings(recorded(plan, Planner), Planner, 6)):
            altered = [_losing(_with_breaker(fact, max_missing)) for fact in facts]
            assert compare(Planner, CAMPAIGN, altered, seed) > 0
            decider = Planner(CAMPAIGN)
            for fact in altered:
                decider.apply(fact)
            made |= {(d.event.type_name(), getattr(d.event, "attempt", 0) > 0) for d in decider.required()}
    assert (("RoundBroken", False) in made) is (max_missing is not None)
    assert ("GroupAbandoned", False) in made
    assert (("GroupRequested", True) in made) is (max_missing is None or max_missing > 0.2)


def _losing(fact: Fact) -> Fact:
    """A third of all rewards is withheld."""
    event = fact.event
    if not isinstance(event, RewardScored) or int(fact.id[:2], 16) % 3:
        return fact
    place = {name: getattr(event, name) for name in ("group", "round", "step", "slot", "rollout", "index")}
    return replace(fact, event=RewardWithheld(**place, reason="judge", detail="away"))


def _with_breaker(fact: Fact, max_missing: float | None) -> Fact:
    event = fact.event
    if not isinstance(event, CampaignStarted):
        return fact
    breaker = None if max_missing is None else BreakerPlan(max_missing=max_missing)
    plan = event.plan.model_copy(update={"breaker": breaker})
    return replace(fact, event=event.model_copy(update={"plan": plan}))


def test_every_planner_has_a_follower_to_go_over_with() -> None:
    assert set(incremental._PLANNERS) == {kind for kind in DECIDERS.values() if kind.name == "planner"}


@every_version
def test_a_follower_is_given_what_premises_let_through(plan: str, kind: type[Decider]) -> None:
    """What rests on something comes when that is there, out of its partition's order; what is impossible never does."""
    lost, held = random.Random(7), 0
    for seed, facts in enumerate(interleavings(recorded(plan, kind), kind, 6)):
        premises = Premises(kind.inputs)
        there = [f for f in facts if not (isinstance(f.event, _FOUNDATIONS) and lost.random() < 0.05)]
        false = [_impossible(f) for f in there if isinstance(f.event, RewardScored)][:3]
        counting = [one for fact in [*false, *there] for one in premises.take(fact)]
        held += len(list(premises.held()))
        assert len(premises.refused()) == len(false)
        assert compare(kind, CAMPAIGN, counting, seed) > 0
    assert held > 0 or not {"rollout", "bank.state"} & set(kind.inputs)


_FOUNDATIONS = (RolloutCompleted, StateSynthesized)


def _impossible(fact: Fact) -> Fact:
    event = fact.event
    assert isinstance(event, RewardScored)
    return replace(fact, event=event.model_copy(update={"index": event.index + 1}))


@pytest.mark.parametrize("kind", DECIDERS.values(), ids=DECIDERS)
def test_pauses_and_a_cancellation_are_followed(kind: type[Decider]) -> None:
    controls = {
        40: CampaignPaused(reason="a"),
        60: CampaignResumed(reason="b"),
        300: CampaignPaused(reason="c"),
        310: CampaignCancelled(reason="d"),
    }
    pins = NEWEST if kind in NEWEST else VERSION_2 if kind in VERSION_2 else VERSION_1
    loop = Loop(seed=5, controls=controls, pins=pins)
    for seed, facts in enumerate(interleavings(loop.run(), kind, 6)):
        compare(kind, CAMPAIGN, facts, seed)


@pytest.mark.parametrize("golden", sorted(p.name for p in GOLDEN.iterdir() if p.is_dir()))
def test_followers_say_what_golden_logs_hold(golden: str) -> None:
    records = list(ArchiveSource(GOLDEN / golden).records())
    facts = [Codec().decode(r) for r in records]  # type: ignore[arg-type]
    campaign = facts[0].envelope.campaign
    for logic in sorted({f.envelope.logic for f in facts} & set(DECIDERS)):
        kind = DECIDERS[logic]
        for seed, order in enumerate(interleavings(records, kind, 3)):  # type: ignore[arg-type]
            assert compare(kind, campaign, order, seed) >= sum(f.envelope.logic == logic for f in facts)
