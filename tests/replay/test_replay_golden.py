"""Recorded campaigns of the past still come out the same, and a rule that changed them without a new version is named."""

from collections import Counter
from pathlib import Path

import pytest

from bat_events.codec import Codec
from bat_events.deciders import gate, teacher
from bat_events.deciders.breaker import Wave
from bat_events.deciders.gate import Gate
from bat_events.deciders.versions import DECIDERS
from bat_events.domain.curriculum import Target
from bat_events.domain.promotion import Decision
from bat_events.domain.vocabulary import Stage
from bat_events.events.bank import StateRetired
from bat_events.events.campaign import CampaignStarted
from bat_events.events.rounds import GroupAbandoned, GroupRequested, RoundBroken
from bat_events.events.seals import RoundSealed
from bat_events.replay import ArchiveSource, ReplayResult, render, replay_campaign
from bat_events.replay.archive import MANIFEST
from bat_events.replay.receipts import CHAINS, PROOFS

GOLDEN = Path(__file__).parent.parent / "golden"
LOGS = sorted(path.parent for path in GOLDEN.glob(f"*/{MANIFEST}"))
FIRST = GOLDEN / "mini-scripted-two-rounds"
BREAKER = GOLDEN / "mini-breaker-sealed"


@pytest.mark.parametrize("folder", LOGS, ids=lambda p: p.name)
def test_a_golden_log_is_reproduced(folder: Path) -> None:
    result = replay_campaign(ArchiveSource(folder))
    assert result.reproduced, moved(result)
    assert result.outcome == "completed"
    assert result.decisions > 0


def moved(result: ReplayResult) -> str:
    """What a change of a rule did to the past, and what to do about it."""
    first = result.first
    if first is None:
        return render(result)
    name, _, version = first.replayed_by.partition("/")
    return (
        f"a past decision of {first.replayed_by} moved: {first.type} {first.id} at {first.at}, {first.field or first.kind}: "
        f"recorded {first.recorded!r}, now {first.recomputed!r}. Give {name} version {int(version) + 1} in bat_events/deciders "
        f"and keep version {version} as it was in bat_events/deciders/old.\n{render(result)}"
    )


def test_a_target_rule_that_changed_without_a_new_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def always(**_: object) -> Target:
        return Target(stage=Stage.S1, corrective=False, reason="always S1")

    monkeypatch.setattr(teacher, "choose_target", always)
    text = moved(replay_campaign(ArchiveSource(FIRST)))
    assert text.startswith("a past decision of teacher/1 moved: bat.TargetStagePrescribed.v1 ")
    assert "target_stage: recorded 'S5', now 'S1'. Give teacher version 2" in text


def test_a_gate_that_changed_without_a_new_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = gate.decide

    def strict(*args: object, **kwargs: object) -> Decision:
        decision = real(*args, **kwargs)  # type: ignore[arg-type]
        return type(decision)(promoted=False, checks=decision.checks, reasons=("never",))

    monkeypatch.setattr(gate, "decide", strict)
    text = moved(replay_campaign(ArchiveSource(FIRST)))
    assert text.startswith(f"a past decision of gate/{Gate.version} moved: bat.CheckpointPromoted.v1 ")
    assert "CheckpointHeld" in text


def test_every_version_that_is_here_has_decided_a_golden_log() -> None:
    decided = {d.logic for folder in LOGS for d in replay_campaign(ArchiveSource(folder)).deciders if d.decisions}
    assert set(DECIDERS) <= decided


@pytest.mark.parametrize(("version", "retirements"), [(1, 0), (2, 12)])
def test_golden_logs_hold_a_campaign_of_each_bank_and_planner(version: int, retirements: int) -> None:
    """The second plan of planner 2 needed the retirements of the first, so it is decided again with them."""
    folder = GOLDEN / {1: "mini-scripted-two-rounds", 2: "mini-bank-2-three-rounds"}[version]
    codec = Codec()
    events = [codec.decode(record).event for record in ArchiveSource(folder).records() if record.topic != "schema"]  # type: ignore[arg-type]
    (started,) = (event for event in events if isinstance(event, CampaignStarted))
    pinned = {part.name: part.version for part in started.logic}
    assert (pinned["bank"], pinned["planner"]) == (version, version)
    assert sum(isinstance(event, StateRetired) for event in events) == retirements


def test_a_golden_log_holds_a_broken_round_signed_receipts_and_seals() -> None:
    codec = Codec()
    facts = [codec.decode(record) for record in ArchiveSource(BREAKER).records()]  # type: ignore[arg-type]
    started = next(fact.event for fact in facts if isinstance(fact.event, CampaignStarted))
    assert {(part.name, part.version) for part in started.logic} >= {("planner", 3), ("premises", 1), ("rubric", 2)}
    kinds = Counter(type(fact.event) for fact in facts)
    assert (kinds[GroupAbandoned], kinds[RoundBroken], kinds[RoundSealed]) == (4, 1, 3)
    again = [f.event for f in facts if isinstance(f.event, GroupRequested) and f.event.attempt == 1]
    assert [event.round for event in again] == [1]  # in round 2 the breaker broke: nothing is asked for again
    checks = {check.name: check.checked for check in replay_campaign(ArchiveSource(BREAKER)).checks}
    assert (checks[CHAINS], checks[PROOFS]) == (26, 18)


def test_a_breaker_that_changed_without_a_new_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wave, "breaks", lambda self, _: self.missing >= 2)
    text = moved(replay_campaign(ArchiveSource(BREAKER)))
    assert text.startswith("a past decision of planner/3 moved: bat.RoundBroken.v1 ")
    assert "Give planner version 4" in text
