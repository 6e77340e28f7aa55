"""`replay` holds the record against its seals: what no rule gives, a header or a time, cannot be changed unseen either."""

import dataclasses
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bat_events.cli.main import app
from bat_events.replay.archive_reader import ArchiveReader
from tests.archive.forging import Forger
from tests.archive.test_committed_archive import COMMITTED


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(COMMITTED) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "log"


def replayed(folder: Path) -> tuple[int, str]:
    heads = folder.parent / "heads.jsonl"
    done = CliRunner().invoke(app, ["replay", "--archive", str(folder), "--log-only", "--heads", str(heads)])
    return done.exit_code, done.output


def test_a_record_as_it_was_sealed(folder: Path) -> None:
    code, text = replayed(folder)
    assert code == 0, text
    assert "unsealed; held against heads kept outside" in text


def test_a_changed_time_breaks_a_seal_though_every_decision_is_reproduced(folder: Path) -> None:
    reader = ArchiveReader(folder)
    rollouts = [where for where in reader.partitions if where[0] == "rollout" and any(reader.records(*where))]
    where = rollouts[0]
    records = [archived.record for archived in reader.records(*where)]
    records[0] = dataclasses.replace(records[0], timestamp_ms=records[0].timestamp_ms + 1)
    Forger(folder).rewrite(where, records, mend_leaves=True, offsets=[record.offset for record in records])
    code, text = replayed(folder)
    assert code == 1
    assert f"seal broken: changed: rollout[{where[1]}] event 0" in text
    assert "NOT as it was sealed: all" in text


def test_a_heads_file_that_holds_no_head_vouches_for_nothing(folder: Path) -> None:
    (folder.parent / "heads.jsonl").write_text("")
    code, text = replayed(folder)
    assert code == 0
    assert "unsealed; not held against heads kept outside" in text
