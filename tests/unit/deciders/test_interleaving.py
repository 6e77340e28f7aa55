"""The deciders are functions of a cut: whatever the order of arrival, the same decisions and the same state."""

import random
from collections.abc import Iterator, Sequence
from functools import cache

import pytest

from bat_events.codec import Codec, Fact
from bat_events.deciders.interface import Decider
from bat_events.deciders.versions import NEWEST, OLD
from bat_events.events.plan import GateMode, GatePlan
from bat_events.log.interface import Partition, Record
from tests.replay.loop import CAMPAIGN, PLAN, VERSION_1, VERSION_2, Loop, decode

WHOLE_RUNS = 4
FOLDS = 8
PLANS = {
    "default": PLAN,
    "lag-and-reference-gate": PLAN.model_copy(update={"lag": 1, "gate": GatePlan(mode=GateMode.REFERENCE)}),
}


CASES = [
    *((plan, kind) for plan in PLANS for kind in NEWEST),
    *(("default", kind) for kind in OLD),
]
every_version = pytest.mark.parametrize(("plan", "kind"), CASES, ids=lambda v: getattr(v, "__name__", v))


@cache
def recorded(plan: str, kind: type[Decider]) -> list[Record]:
    """One campaign's records, decided by this version."""
    pins = NEWEST if kind in NEWEST else VERSION_2 if kind in VERSION_2 else VERSION_1
    return _run(plan, pins)


@cache
def _run(plan: str, pins: tuple[type[Decider], ...]) -> list[Record]:
    return Loop(seed=100, plan=PLANS[plan], pins=pins).run()


def interleavings(records: Sequence[Record], kind: type[Decider], count: int) -> Iterator[list[Fact]]:
    """The decider's inputs in several orders that respect partitions."""
    partitions: dict[Partition, list[Fact]] = {}
    for fact in decode([r for r in records if r.topic in kind.inputs]):
        partitions.setdefault((fact.topic, fact.partition), []).append(fact)
    for seed in range(count):
        rng = random.Random(seed)
        places = [where for where, facts in partitions.items() for _ in facts]
        rng.shuffle(places)
        if seed == 0:
            places.sort()  # partition after partition, as replay folds
        if seed == 1:
            places.sort(reverse=True)
        waiting = {where: iter(facts) for where, facts in partitions.items()}
        yield [next(waiting[where]) for where in places]


def made(decider: Decider) -> dict[str, bytes]:
    """What is required, by id."""
    return {draft.id: Codec.encode_body(draft.event) for draft in decider.required()}


@every_version
def test_any_order_of_arrival_gives_the_same_state_and_decisions(plan: str, kind: type[Decider]) -> None:
    reference = None
    for facts in interleavings(recorded(plan, kind), kind, FOLDS):
        decider = kind(CAMPAIGN)
        asked = random.Random(len(facts))
        for fact in facts:
            decider.apply(fact)
            if asked.random() < 0.1:  # asking in between must leave no trace
                decider.required()
        found = (decider.state(), list(made(decider).items()))
        reference = reference or found
        assert found == reference


@every_version
def test_what_is_required_only_grows_and_never_changes(plan: str, kind: type[Decider]) -> None:
    for facts in interleavings(recorded(plan, kind), kind, 3):
        decider = kind(CAMPAIGN)
        before: dict[str, bytes] = {}
        for number, fact in enumerate(facts):
            decider.apply(fact)
            if number % 3 == 0 or number == len(facts) - 1:
                now = made(decider)
                assert before.items() <= now.items()
                before = now


@every_version
def test_a_fact_that_comes_twice_changes_nothing(plan: str, kind: type[Decider]) -> None:
    """The loop drops repeated ids already; a decider is not to depend on it for what it requires."""
    once, twice = kind(CAMPAIGN), kind(CAMPAIGN)
    for facts in interleavings(recorded(plan, kind), kind, 1):
        for fact in facts:
            once.apply(fact)
            twice.apply(fact)
            twice.apply(fact)
    assert made(once) == made(twice)


def test_campaigns_of_all_versions_hold_what_the_versions_differ_in() -> None:
    for pins, bank_2, planner_3 in ((VERSION_1, False, False), (VERSION_2, True, False), (NEWEST, True, True)):
        events = {type(fact.event).__name__ for fact in decode(_run("default", pins))}
        assert ({"StateRefused", "StateRetired"} <= events) is bank_2
        assert ("GroupAbandoned" in events) is planner_3
        assert "CampaignFinished" in events


@pytest.mark.parametrize("plan", PLANS)
def test_whole_campaigns_end_with_the_same_events_whatever_the_order_of_work(plan: str) -> None:
    runs = [
        {(f.id, f.envelope.body_digest) for f in decode(Loop(seed=seed, plan=PLANS[plan], restarts=0.03).run())}
        for seed in range(WHOLE_RUNS)
    ]
    assert all(run == runs[0] for run in runs)
