"""An archive of the second format that was written once and is never edited goes on being read, verified and replayed."""

import tarfile
from pathlib import Path

import pytest

from bat_events.log.heads import read_heads
from bat_events.replay import ArchiveReader, ArchiveSource, render, replay_campaign
from bat_events.replay.verify_archive import verify_archive
from tests.archive.logs import quiet

COMMITTED = Path(__file__).parent / "format-2.tar.gz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The archive, and the heads of its seals beside it."""
    with tarfile.open(COMMITTED) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "log"


def test_a_committed_archive_is_read_verified_and_replayed(folder: Path) -> None:
    reader = ArchiveReader(folder)
    assert sum(1 for where in reader.partitions for _ in reader.records(*where)) == reader.manifest.records == 193
    found = verify_archive(folder, read_heads(folder.parent / "heads.jsonl"), quiet)
    assert found.ok, [finding.line() for finding in found.findings]
    result = replay_campaign(ArchiveSource(folder), log_only=True)
    assert (result.exit_code, result.outcome) == (0, "completed"), render(result)
