"""A faithful log replays without a difference, wherever it is cut off and whatever happened to its campaign."""

import pytest

from bat_events.errors import BadBody
from bat_events.events.bank import StateRefused, StateRetired
from bat_events.events.campaign import CampaignCancelled, CampaignPaused, CampaignResumed, CampaignStarted
from bat_events.events.plan import GateMode, GatePlan
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted
from bat_events.events.rollouts import RolloutFailed
from bat_events.events.rounds import GroupRequested
from bat_events.log.interface import Record
from bat_events.replay import ReplayError, render, replay_campaign, to_json
from tests.replay.loop import CAMPAIGN, PLAN, VERSION_1, VERSION_2, Loop, decode
from tests.replay.memory import MemorySource, falsify, pick


def test_every_decision_of_a_completed_campaign_is_reproduced(records: list[Record]) -> None:
    result = replay_campaign(MemorySource(records), campaign=CAMPAIGN)
    assert result.differences == ()
    assert (result.reproduced, result.outcome, result.pending) == (True, "completed", ())
    assert {part.logic: part.decisions - part.reproduced for part in result.deciders} == {
        "bank/2": 0,
        "gate/1": 0,
        "planner/3": 0,
        "teacher/1": 0,
    }
    assert all(check.checked == check.holds > 0 for check in result.checks)


def test_a_campaign_that_pins_version_1_is_decided_and_replayed_by_it() -> None:
    result = replay_campaign(MemorySource(Loop(seed=3, pins=VERSION_1).run()))
    assert (result.reproduced, result.outcome) == (True, "completed"), render(result)
    assert {part.logic for part in result.deciders if part.decisions} == {"bank/1", "gate/1", "planner/1", "teacher/1"}


def test_a_campaign_that_pins_version_2_of_the_planner_is_decided_and_replayed_by_it() -> None:
    result = replay_campaign(MemorySource(Loop(seed=3, pins=VERSION_2).run()))
    assert (result.reproduced, result.outcome) == (True, "completed"), render(result)
    assert {part.logic for part in result.deciders if part.decisions} == {"bank/2", "gate/1", "planner/2", "teacher/1"}


def test_a_log_that_is_passed_off_as_of_another_version_is_found_out(records: list[Record]) -> None:
    def disguised(record: Record) -> Record:
        _, fact = pick([record], lambda _: True)
        if isinstance(fact.event, CampaignStarted):
            logic = [{"name": part.name, "version": 1} for part in fact.event.logic]
            return falsify(record, body={"logic": logic})
        return falsify(record, logic=f"{fact.envelope.logic.partition('/')[0]}/1")

    result = replay_campaign(MemorySource([disguised(record) for record in records]))
    assert {d.type for d in result.differences} >= {"bat.StateRetired.v1", "bat.StateRefused.v1"}


def test_the_synthetic_campaign_has_what_makes_replay_hard(records: list[Record]) -> None:
    events = [fact.event for fact in decode(records)]
    assert any(isinstance(event, CheckpointHeld) for event in events)
    assert any(isinstance(event, CheckpointPromoted) and not event.baseline for event in events)
    assert any(isinstance(event, RolloutFailed) for event in events)
    assert any(isinstance(event, StateRefused) for event in events)
    assert any(isinstance(event, StateRetired) for event in events)
    assert any(isinstance(event, GroupRequested) and event.attempt > 0 for event in events)


def test_two_replays_give_identical_bytes(records: list[Record]) -> None:
    first, second = (replay_campaign(MemorySource(records)) for _ in range(2))
    assert to_json(first) == to_json(second)
    assert render(first) == render(second)


def test_a_running_campaign_replays_with_what_is_due_listed() -> None:
    seen_pending = False
    for seed, count in enumerate((1, 60, 150, 260, 330, 400)):
        result = replay_campaign(MemorySource(Loop(seed=seed).run(records=count)))
        assert result.reproduced, render(result)
        assert result.outcome is None
        seen_pending = seen_pending or bool(result.pending)
    assert seen_pending


def test_events_newer_than_what_is_compared_are_inputs_only(records: list[Record]) -> None:
    ends = {(r.topic, r.partition): max(1, r.offset // 2) for r in records}
    result = replay_campaign(MemorySource(records, judged=ends))
    assert result.reproduced, render(result)
    assert 0 < result.decisions < replay_campaign(MemorySource(records)).decisions


@pytest.mark.parametrize("seed", range(3))
def test_a_paused_resumed_and_cancelled_campaign_is_reproduced(seed: int) -> None:
    controls = {
        100: CampaignPaused(reason="lunch"),
        140: CampaignResumed(reason="back"),
        330: CampaignCancelled(reason="enough"),
    }
    result = replay_campaign(MemorySource(Loop(seed=seed, controls=controls).run()))
    assert (result.reproduced, result.outcome) == (True, "cancelled"), render(result)


def test_lag_and_the_reference_gate_are_reproduced() -> None:
    plan = PLAN.model_copy(update={"lag": 1, "seed": 3, "gate": GatePlan(mode=GateMode.REFERENCE)})
    result = replay_campaign(MemorySource(Loop(seed=1, plan=plan).run()))
    assert (result.reproduced, result.outcome) == (True, "completed"), render(result)


def test_one_round_is_compared_alone(records: list[Record]) -> None:
    whole = replay_campaign(MemorySource(records))
    first = replay_campaign(MemorySource(records), round=1)
    second = replay_campaign(MemorySource(records), round=2)
    assert first.reproduced
    assert second.reproduced
    assert 0 < first.decisions < whole.decisions
    with pytest.raises(ReplayError, match=r"no event of round 9; rounds there: \[0, 1, 2\]"):
        replay_campaign(MemorySource(records), round=9)


def test_the_first_committed_event_of_an_id_wins(records: list[Record]) -> None:
    number, fact = pick(records, lambda f: isinstance(f.event, RolloutFailed))
    last = max(r.offset for r in records if (r.topic, r.partition) == (fact.topic, fact.partition))
    again = falsify(records[number], body={"detail": "done again"})
    again = Record(**{**again.__dict__, "offset": last + 2})
    place = max(i for i, r in enumerate(records) if (r.topic, r.partition) == (fact.topic, fact.partition))
    result = replay_campaign(MemorySource([*records[: place + 1], again, *records[place + 1 :]]))
    assert (result.reproduced, result.duplicates) == (True, 1)


def test_another_campaign_in_the_namespace_is_told_apart(records: list[Record]) -> None:
    other = Loop(seed=3, campaign="other").run(records=40)
    ends: dict[tuple[str, int], int] = {}
    for record in records:
        ends[(record.topic, record.partition)] = record.offset + 2
    moved = [Record(**{**r.__dict__, "offset": r.offset + ends.get((r.topic, r.partition), 0)}) for r in other]
    both = [*records, *moved]
    assert replay_campaign(MemorySource(both), campaign=CAMPAIGN).reproduced
    with pytest.raises(ReplayError, match="holds 2 campaigns"):
        replay_campaign(MemorySource(both))
    with pytest.raises(ReplayError, match="campaign nobody has no CampaignStarted"):
        replay_campaign(MemorySource(both), campaign="nobody")


def test_a_record_that_is_no_event_is_named(records: list[Record]) -> None:
    broken = Record(**{**records[9].__dict__, "value": records[9].value[:-1]})
    where = rf"{broken.topic}\[{broken.partition}\]@{broken.offset}"
    with pytest.raises(BadBody, match=where):
        replay_campaign(MemorySource([*records[:9], broken, *records[10:]]))
