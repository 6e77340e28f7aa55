"""What happened when, what other settings would have decided, and replay up to a moment."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bat_events.cli.main import app
from bat_events.events.plan import CampaignPlan, GateMode, GatePlan, TargetRule
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted, TargetStagePrescribed
from bat_events.log.interface import Record
from bat_events.replay import ReplayError, Until, replay_campaign, timeline, timeline_table, what_if, write_archive
from tests.replay.loop import CAMPAIGN, PLAN, Loop, decode
from tests.replay.memory import MemorySource

FIVE = PLAN.model_copy(update={"rounds": 5})


@pytest.fixture(scope="module")
def five() -> list[Record]:
    """A campaign of five rounds; two candidates in a row are held."""
    return Loop(seed=7, plan=FIVE).run()


def decided(records: list[Record]) -> dict[int, str]:
    events = [fact.event for fact in decode(records)]
    words = {CheckpointPromoted: "promoted", CheckpointHeld: "held"}
    return {e.round: words[type(e)] for e in events if isinstance(e, CheckpointPromoted | CheckpointHeld)}


@pytest.mark.parametrize(
    ("changes", "plan"),
    [
        ({"gate.mode": "reference"}, {"gate": GatePlan(mode=GateMode.REFERENCE)}),
        ({"gate.max_stage_drop": "0"}, {"gate": GatePlan(max_stage_drop=0.0)}),
        ({"target_rule": "raw"}, {"target_rule": TargetRule.RAW}),
    ],
    ids=str,
)
def test_what_is_told_is_what_such_a_campaign_decides(
    five: list[Record], changes: dict[str, str], plan: dict[str, Any]
) -> None:
    """Facts of the synthetic campaign depend on their cause alone, so the other campaign shows what would have happened."""
    answer = what_if(MemorySource(five), changes)
    other = Loop(seed=3, plan=CampaignPlan.model_validate({**dict(FIVE), **plan})).run()
    truth = decided(other)
    targets = {f.event.round: f.event.target_stage for f in decode(other) if isinstance(f.event, TargetStagePrescribed)}
    told = [row for row in answer.rounds if row.would_decide is not None]
    assert told
    assert {row.round: row.would_decide for row in told} == {row.round: truth[row.round] for row in told}
    assert all(row.would_target == targets.get(row.round + 1) for row in told)
    assert {row.round: row.decision for row in answer.rounds} == decided(five)
    if answer.told_until is not None:
        assert max(row.round for row in told) == answer.told_until


def test_where_another_stage_would_be_practised_the_record_ends(five: list[Record]) -> None:
    answer = what_if(MemorySource(five), {"target_rule": "raw"})
    first = next(row for row in answer.rounds if row.target != row.would_target)
    assert answer.told_until == first.round
    assert f"round {first.round + 1} would have practised" in answer.why
    assert all(row.would_decide is None for row in answer.rounds if row.round > first.round)


def test_the_same_settings_change_nothing(five: list[Record]) -> None:
    answer = what_if(MemorySource(five), {"gate.mode": "paired", "gate.max_stage_drop": "0.15"})
    assert answer.told_until is None
    assert not any(row.differs for row in answer.rounds)


@pytest.mark.parametrize(
    "changes", [{"gate.min_gain": "1"}, {"gate.mode": "loose"}, {"gate.max_stage_drop": "2"}, {"rounds": "3"}], ids=str
)
def test_what_no_gate_knows_is_refused(five: list[Record], changes: dict[str, str]) -> None:
    with pytest.raises(ReplayError, match="--what-if"):
        what_if(MemorySource(five), changes)


def test_causes_stand_before_what_they_caused(records: list[Record]) -> None:
    found = timeline(MemorySource(records), single=True)
    assert len(found.events) == len(records)
    places = {event.id: number for number, event in enumerate(found.events)}
    assert all(places.get(event.cause, -1) < number for number, event in enumerate(found.events))
    short = timeline(MemorySource(records))
    assert sum(short.counted.values()) + len(short.events) == len(records)
    assert "CheckpointPromoted" in timeline_table(short)


def test_what_is_later_is_not_compared(records: list[Record]) -> None:
    source = MemorySource(records)
    whole = replay_campaign(source)
    events = timeline(source, single=True).events
    half = replay_campaign(Until(source, events[len(events) // 2].time))
    cut = replay_campaign(Until(source, '{"promotion": {"0": 1}}'))
    assert half.reproduced
    assert cut.reproduced
    assert 0 < half.decisions < cut.decisions < whole.decisions
    with pytest.raises(ReplayError, match="--until"):
        Until(source, "yesterday")


def test_the_commands_answer_from_an_archive(records: list[Record], tmp_path: Path) -> None:
    write_archive(records, tmp_path / "log", source="memory")
    run = CliRunner().invoke

    def ask(*more: str) -> Any:
        return run(app, ["--home", str(tmp_path), "replay", CAMPAIGN, "--archive", str(tmp_path / "log"), *more])

    told = json.loads(ask("--timeline", "--json", "--round", "1").stdout)
    assert {event["round"] for event in told["events"]} == {1}
    answer = json.loads(ask("--what-if", "gate.mode=reference", "--json").stdout)
    assert answer["settings"] == {"gate.mode": "reference"}
    page = ask("--what-if", "gate.mode=reference")
    assert (page.exit_code, "what if gate.mode paired -> reference" in page.stdout) == (0, True)
    assert json.loads(ask("--until", "2026-01-01T00:00:02Z", "--json").stdout)["differences"] == []
    assert ask("--what-if", "nothing").exit_code == 2
