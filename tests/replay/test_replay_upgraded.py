"""A campaign whose planner goes over to another version: at a round's boundary, whatever the order of arrival."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from bat_events.codec import Codec
from bat_events.deciders import incremental, versions
from bat_events.deciders.incremental import follow
from bat_events.deciders.incremental.planner import PlannerFollower
from bat_events.deciders.old.planner import PlannerV2
from bat_events.deciders.planner import Planner
from bat_events.errors import ConfigurationError
from bat_events.events.campaign import LogicUpgraded
from bat_events.events.promotion import LogicAdopted, TargetStagePrescribed
from bat_events.events.rounds import EvaluationRequested, GroupAbandoned, GroupRequested, RoundPlanned
from bat_events.log.interface import Record
from bat_events.replay import ReplayError, render, replay_campaign, to_json
from bat_events.replay.replayer import _streamed, replay_in_memory
from bat_events.service.reactor import DeciderRules
from tests.replay.loop import CAMPAIGN, PLAN, VERSION_2, Loop, decode
from tests.replay.memory import MemorySource, falsify, pick, swapped
from tests.unit.deciders.test_interleaving import interleavings

FOUR = PLAN.model_copy(update={"rounds": 4})


class Planner4(PlannerV2):
    """Plans the steps of a round in the reverse order, and evaluates greedily."""

    version: ClassVar[int] = 4


class Planner4Follower(PlannerFollower):
    """Follows it."""

    version: ClassVar[int] = 4

    def _evaluations(self, plan: Any) -> Iterator[Any]:
        for draft in super()._evaluations(plan):
            yield replace(draft, event=draft.event.model_copy(update={"temperature": 0.0}))

    def _drawn(self, number: int, prescribed: Any, plan: Any) -> RoundPlanned | None:
        planned = super()._drawn(number, prescribed, plan)
        if planned is None:
            return None
        states = [slot for step in planned.steps for slot in step.slots][::-1]
        of_focus = {f: [s for s in states if s.focus == f] for f in {s.focus for s in states}}
        steps = tuple(
            step.model_copy(
                update={
                    "slots": tuple(
                        slot.model_copy(update={n: getattr(other, n) for n in ("track", "outcome", "state", "body")})
                        for slot in step.slots
                        for other in [of_focus[slot.focus].pop(0)]
                    )
                }
            )
            for step in planned.steps
        )
        return planned.model_copy(update={"steps": steps})


@pytest.fixture(autouse=True)
def version_4(monkeypatch: pytest.MonkeyPatch) -> None:
    """planner/4 is here, and may go on after planner/2."""
    monkeypatch.setitem(versions.DECIDERS, "planner/4", Planner4)
    monkeypatch.setattr(versions, "OLD", (*versions.OLD, Planner4))
    monkeypatch.setitem(versions.TAKES_OVER, "planner/4", frozenset({2}))
    monkeypatch.setitem(incremental._PLANNERS, Planner4, Planner4Follower)


def run(seed: int, *, at: int, version: int = 4) -> list[Record]:
    controls = {at: LogicUpgraded(decider="planner", version=version, reason="a better plan")}
    return Loop(seed=seed, plan=FOUR, controls=controls, restarts=0.02, pins=VERSION_2).run()


def by_round(records: list[Record]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for fact in decode(records):
        if fact.envelope.logic.startswith("planner/") and fact.envelope.round is not None:
            found.setdefault(fact.envelope.round, set()).add(fact.envelope.logic)
    return found


@pytest.mark.parametrize(("seed", "at"), [(1, 5), (2, 260), (3, 420), (4, 600)])
def test_rounds_prescribed_after_the_adoption_are_decided_by_the_new_version(seed: int, at: int) -> None:
    records = run(seed, at=at)
    curriculum = [fact.event for fact in decode(records) if fact.topic == "curriculum"]
    adopted = next(number for number, event in enumerate(curriculum) if isinstance(event, LogicAdopted))
    later = {e.round for e in curriculum[adopted:] if isinstance(e, TargetStagePrescribed)}
    assert by_round(records) == {n: {"planner/4" if n in later else "planner/2"} for n in range(5)}
    asked = {f.event.round: f.event.temperature for f in decode(records) if isinstance(f.event, EvaluationRequested)}
    assert {number for number, temperature in asked.items() if temperature == 0.0} == later
    drawn = [
        s.state for f in decode(records) if isinstance(f.event, RoundPlanned) for p in f.event.steps for s in p.slots
    ]
    assert len(drawn) == len(set(drawn))
    source = MemorySource(records)
    result = replay_campaign(source)
    assert (result.reproduced, result.outcome) == (True, "completed"), render(result)
    assert to_json(_streamed(source, None, None)) == to_json(replay_in_memory(source))
    assert {d.logic for d in result.deciders if d.decisions} >= ({"planner/2", "planner/4"} if later else {"planner/2"})


@pytest.mark.parametrize("at", [5, 260])
def test_any_order_of_arrival_gives_the_same_decisions_by_the_same_versions(at: int) -> None:
    records = run(1, at=at)
    reference = None
    for facts in interleavings(records, Planner, 8):
        follower, often = follow(PlannerV2, CAMPAIGN), random.Random(len(facts))
        found: dict[str, tuple[bytes, int | None]] = {}
        for fact in facts:
            follower.apply(fact)
            if often.random() < 0.1 or fact is facts[-1]:
                found |= {d.id: (Codec.encode_body(d.event), d.version) for d in follower.fresh()}
        reference = reference or found
        assert found == reference
    on_log = {f.id: f.envelope.logic for f in decode(records) if f.envelope.logic.startswith("planner/")}
    assert {id_: f"planner/{version or 2}" for id_, (_, version) in (reference or {}).items()} == on_log


def test_a_decision_passed_off_as_the_other_version_s_is_found() -> None:
    records = run(2, at=260)
    number, fact = pick(records, lambda f: isinstance(f.event, RoundPlanned) and f.envelope.logic == "planner/4")
    result = replay_campaign(MemorySource(swapped(records, number, falsify(records[number], logic="planner/2"))))
    (found,) = [d for d in result.differences if d.id == fact.id]
    assert (found.field, found.recorded, found.recomputed) == ("bat_logic", "planner/2", "planner/4")


def test_a_service_without_the_version_refuses_as_soon_as_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    records = run(2, at=260)
    monkeypatch.delitem(versions.DECIDERS, "planner/4")
    rules = DeciderRules(Planner, PlannerV2)
    started, upgraded = decode([r for r in records if r.topic == "campaign"])
    rules.apply(started)
    with pytest.raises(ConfigurationError, match="planner/4, which is not here"):
        rules.apply(upgraded)
    with pytest.raises(ReplayError, match="planner/4"):
        replay_campaign(MemorySource(records))


@pytest.mark.parametrize(("seed", "at"), [(1, 5), (2, 260), (3, 420)])
def test_planner_3_goes_on_after_planner_2_and_says_what_it_abandons(seed: int, at: int) -> None:
    records = run(seed, at=at, version=3)
    facts = decode(records)
    rounds = by_round(records)
    later = {number for number, logics in rounds.items() if logics == {"planner/3"}}
    assert later
    assert {number for number, logics in rounds.items() if logics == {"planner/2"}} == set(rounds) - later
    again = {f.event.round for f in facts if isinstance(f.event, GroupRequested) and f.event.attempt > 0}
    assert {f.event.round for f in facts if isinstance(f.event, GroupAbandoned)} == again & later != set()
    source = MemorySource(records)
    result = replay_campaign(source)
    assert (result.reproduced, result.outcome) == (True, "completed"), render(result)
    assert to_json(_streamed(source, None, None)) == to_json(replay_in_memory(source))


@pytest.mark.parametrize("at", [5, 260])
def test_planner_3_takes_over_alike_in_any_order_of_arrival(at: int) -> None:
    records = run(1, at=at, version=3)
    on_log = {f.id: f.envelope.logic for f in decode(records) if f.envelope.logic.startswith("planner/")}
    for number, facts in enumerate(interleavings(records, Planner, 8)):
        follower, often = follow(PlannerV2, CAMPAIGN), random.Random(number)
        found: dict[str, str] = {}
        for fact in facts:
            follower.apply(fact)
            if often.random() < 0.1 or fact is facts[-1]:
                found |= {d.id: f"planner/{d.version or 2}" for d in follower.fresh()}
        assert found == on_log


def test_what_cannot_go_on_in_mid_campaign_is_refused_before_it_is_written() -> None:
    assert versions.refusal(2, "planner", 4) is versions.refusal(2, "planner", 3) is None
    for name, version, in_force, wrong in (
        ("planner", 2, 3, "cannot go on where planner/3 has decided"),
        ("planner", 3, 1, "cannot go on where planner/1 has decided"),
        ("planner", 2, 1, "cannot go on where planner/1 has decided"),
        ("planner", 2, 2, "decides already"),
        ("planner", 9, 2, "no decider planner/9 here"),
        ("gate", 2, 1, "gate stays in the version"),
    ):
        assert wrong in (versions.refusal(in_force, name, version) or "")
