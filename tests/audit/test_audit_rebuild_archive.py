"""Rebuilt from an archive, without a broker: the same as record by record, in its place, and never over what knows more."""

import shutil
import tarfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bat_events.audit.columnar.archive import ColumnBatch, column_batches
from bat_events.audit.file import AuditFile
from bat_events.audit.materialiser import AUDITED, Materialiser
from bat_events.audit.places import audit_path
from bat_events.audit.rebuild import ArchiveRecords, Rebuilder
from bat_events.audit.run import run_query
from bat_events.cli.main import app
from bat_events.codec import Codec
from bat_events.replay import ArchiveError
from bat_events.replay.archive_blocks import partition_blocks

COMMITTED = Path(__file__).parents[1] / "archive" / "format-2.tar.gz"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed archive of the second format: 193 records."""
    folder = tmp_path_factory.mktemp("archive")
    with tarfile.open(COMMITTED) as packed:
        packed.extractall(folder, filter="data")
    return folder / "log"


@pytest.fixture
def bat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """bat(words…) -> exit code and output of the command, in a home of its own."""
    monkeypatch.setenv("BAT_HOME", str(tmp_path))
    monkeypatch.setenv("BAT_NAMESPACE", "archived")

    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, list(words))
        return done.exit_code, done.output

    return run


def test_the_columns_of_an_archive_are_its_records(archive: Path) -> None:
    source = ArchiveRecords(archive, AUDITED)
    for part in source.parts:
        wanted = [archived.record for archived in source.reader.records(part.topic, part.partition)]
        found = []
        for batch in column_batches(source.reader, part):
            assert batch.others == []
            assert batch.columns is not None
            found += [batch.columns.record(row) for row in range(len(batch.columns))]
        assert found == wanted


def test_blocks_of_alternating_files_come_in_the_logs_order(archive: Path) -> None:
    source = ArchiveRecords(archive, AUDITED)
    for part in (part for part in source.parts if part.records):
        wanted = [archived.record for archived in source.reader.records(part.topic, part.partition)]
        groups = list(partition_blocks(archive, part, 1, 1))  # every block alone
        assert sum(block.rows for blocks, _ in groups for block in blocks) == len(wanted)
        bounds = [bound for _, bound in groups]
        assert bounds[-1] is None
        assert bounds[:-1] == sorted(bounds[:-1])  # type: ignore[type-var]


def test_a_file_made_side_by_side_is_the_one_made_record_by_record(archive: Path, tmp_path: Path) -> None:
    source = ArchiveRecords(archive, AUDITED)
    codec = Codec()
    for schema in source.reader.schemas():
        codec.learn(schema)
    slow = Materialiser(codec=codec, now=lambda: datetime(2026, 3, 2, tzinfo=UTC), quick_least=1 << 62)
    live = AuditFile(audit_path(tmp_path, "archived"), "archived")
    for part in source.parts:
        slow.take(live.writer, [archived.record for archived in source.reader.records(part.topic, part.partition)])
    live.close()
    quick = Materialiser(codec=codec, now=lambda: datetime(2026, 3, 3, tzinfo=UTC))
    found = Rebuilder(home=tmp_path, namespace="archived", source=source, materialiser=quick).run()
    assert found.same
    assert found.records > 150


def test_a_changed_or_cut_archive_is_refused_and_the_live_file_stays(
    archive: Path, tmp_path: Path, bat: Callable[..., tuple[int, str]]
) -> None:
    code, said = bat("audit", "rebuild", "--archive", str(archive))
    assert code == 0, said
    before = audit_path(tmp_path, "archived").read_bytes()
    broken = tmp_path / "broken"
    shutil.copytree(archive, broken)
    path = next(broken.glob("rollout/*/round-0001.avro"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    code, said = bat("audit", "rebuild", "--archive", str(broken))
    assert code == 2
    assert "the file was changed" in " ".join(said.split())
    path.write_bytes(bytes(data[: len(data) // 2]))
    unchecked = ArchiveRecords(broken, AUDITED, check=False)
    with pytest.raises(ArchiveError, match="not what an archive holds"):
        list(_all(unchecked))
    assert audit_path(tmp_path, "archived").read_bytes() == before


def _all(source: ArchiveRecords) -> Iterator[ColumnBatch]:
    for part in source.parts:
        yield from column_batches(source.reader, part)


def test_rebuild_check_and_what_stands_in_the_way(
    archive: Path, tmp_path: Path, bat: Callable[..., tuple[int, str]]
) -> None:
    code, said = bat("audit", "rebuild", "--archive", str(archive))
    assert code == 0, said
    assert "the new file is in place" in said
    code, said = bat("audit", "rebuild", "--archive", str(archive), "--check")
    assert code == 0, said
    assert "tables hold the same" in said
    assert run_query(tmp_path, "archived", sql="SELECT count(*) FROM events").rows[0][0] > 150
    file = AuditFile(audit_path(tmp_path, "archived"), "archived")
    file.writer.execute("UPDATE offsets SET next_offset = next_offset + 1 WHERE topic = 'round'")
    file.close()
    code, said = bat("audit", "rebuild", "--archive", str(archive))
    assert code == 2
    assert "knows more of round[0]" in " ".join(said.split())
    assert bat("audit", "rebuild", "--archive", str(archive), "--check")[0] == 1
    code, said = bat("audit", "rounds", "--check")
    assert code == 2
    assert "belong to `audit rebuild`" in " ".join(said.split())
