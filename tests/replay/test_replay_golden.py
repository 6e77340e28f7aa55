"""Recorded campaigns of the past still come out the same."""

from pathlib import Path

import pytest

from bat_events.replay import ArchiveSource, render, replay_campaign
from bat_events.replay.archive import MANIFEST

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.parametrize("folder", sorted(path.parent for path in GOLDEN.glob(f"*/{MANIFEST}")), ids=lambda p: p.name)
def test_a_golden_log_is_reproduced(folder: Path) -> None:
    result = replay_campaign(ArchiveSource(folder))
    assert result.exit_code == 0, render(result)
    assert result.outcome == "completed"
    assert result.decisions > 0
