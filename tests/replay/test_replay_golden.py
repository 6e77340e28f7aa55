"""Recorded campaigns of the past still come out the same."""

from pathlib import Path

import pytest

from bat_events.codec import Codec
from bat_events.events.bank import StateRetired
from bat_events.events.campaign import CampaignStarted
from bat_events.replay import ArchiveSource, render, replay_campaign
from bat_events.replay.archive import MANIFEST

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.parametrize("folder", sorted(path.parent for path in GOLDEN.glob(f"*/{MANIFEST}")), ids=lambda p: p.name)
def test_a_golden_log_is_reproduced(folder: Path) -> None:
    result = replay_campaign(ArchiveSource(folder))
    assert result.exit_code == 0, render(result)
    assert result.outcome == "completed"
    assert result.decisions > 0


@pytest.mark.parametrize(("version", "retirements"), [(1, 0), (2, 12)])
def test_golden_logs_hold_a_campaign_of_each_bank_and_planner(version: int, retirements: int) -> None:
    """The second plan of planner 2 needed the retirements of the first, so it is decided again with them."""
    folder = GOLDEN / {1: "mini-scripted-two-rounds", 2: "mini-bank-2-three-rounds"}[version]
    codec = Codec()
    events = [codec.decode(record).event for record in ArchiveSource(folder).records() if record.topic != "schema"]
    (started,) = (event for event in events if isinstance(event, CampaignStarted))
    pinned = {part.name: part.version for part in started.logic}
    assert (pinned["bank"], pinned["planner"]) == (version, version)
    assert sum(isinstance(event, StateRetired) for event in events) == retirements
