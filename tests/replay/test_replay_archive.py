"""Archives keep records as they were, equal records give equal bytes, and a changed archive is refused by name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bat_events.log.interface import Record
from bat_events.replay import ArchiveError, ArchiveSource, replay_campaign, to_json, write_archive
from bat_events.replay.archive import MANIFEST
from bat_events.replay.source import open_topics
from tests.replay.memory import MemorySource


@pytest.fixture
def archive(records: list[Record], tmp_path: Path) -> Path:
    """The synthetic campaign as an archive."""
    write_archive(records, tmp_path / "log", source="memory")
    return tmp_path / "log"


def test_records_come_back_as_they_were(records: list[Record], archive: Path) -> None:
    assert list(ArchiveSource(archive).records()) == records


def test_an_archive_replays_as_its_log_does(records: list[Record], archive: Path) -> None:
    source = ArchiveSource(archive)
    direct = replay_campaign(MemorySource(records, name=source.name))
    assert to_json(replay_campaign(source)) == to_json(direct)
    assert direct.reproduced


def test_equal_records_give_equal_bytes(records: list[Record], archive: Path, tmp_path: Path) -> None:
    write_archive(records[::-1], tmp_path / "again", source="memory")
    names = sorted(path.name for path in archive.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "again").iterdir())
    assert all((archive / name).read_bytes() == (tmp_path / "again" / name).read_bytes() for name in names)


def test_schemas_travel_with_the_archive_and_are_no_events(records: list[Record], tmp_path: Path) -> None:
    schema = Record(
        topic="schema", partition=0, offset=0, key=b"digest", value=b'{"type":"string"}', headers=(), timestamp_ms=1
    )
    write_archive([*records, schema], tmp_path / "log", source="memory")
    source = ArchiveSource(tmp_path / "log")
    assert source.schemas() == [schema.value]
    assert list(source.records()) == records


def test_every_flipped_byte_of_a_file_is_found(archive: Path) -> None:
    path = archive / "promotion-0.avro"
    content = path.read_bytes()
    for at in range(0, len(content), 97):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(ArchiveError, match=r"promotion-0\.avro: its SHA-256"):
            ArchiveSource(archive)


def test_a_missing_file_is_named(archive: Path) -> None:
    (archive / "round-0.avro").unlink()
    with pytest.raises(ArchiveError, match=r"round-0\.avro is missing"):
        ArchiveSource(archive)


def test_a_file_that_is_no_avro_is_named_although_its_digest_fits(archive: Path) -> None:
    import hashlib

    path = archive / "round-0.avro"
    path.write_bytes(b"Obj\x01 nothing of the kind")
    edit(archive, lambda m: file_of(m, "round").update(sha256=hashlib.sha256(path.read_bytes()).hexdigest()))
    with pytest.raises(ArchiveError, match="no Avro file of log records"):
        list(ArchiveSource(archive).records())


def edit(archive: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the manifest."""
    manifest = json.loads((archive / MANIFEST).read_text())
    change(manifest)
    (archive / MANIFEST).write_text(json.dumps(manifest))


def file_of(manifest: dict[str, Any], topic: str) -> dict[str, Any]:
    """A topic's entry in a manifest."""
    return next(entry for entry in manifest["files"] if entry["topic"] == topic)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(version=3), "version 3 is not known here"),
        (lambda m: m.update(more=1), "more: Extra inputs"),
        (lambda m: m["files"].append(m["files"][0]), "named twice"),
        (lambda m: file_of(m, "round").update(topic="heldout.cell"), "'heldout.cell' does not belong"),
        (lambda m: file_of(m, "round").update(topic="../round"), "'../round' does not belong"),
        (lambda m: file_of(m, "round").update(sha256="x"), "sha256: String should match"),
    ],
)
def test_a_wrong_manifest_is_refused(archive: Path, change: Callable[[dict[str, Any]], Any], message: str) -> None:
    edit(archive, change)
    with pytest.raises(ArchiveError, match=message):
        ArchiveSource(archive)


def test_a_wrong_record_count_is_found_when_it_is_read(archive: Path) -> None:
    edit(archive, lambda m: file_of(m, "round").update(records=1))
    with pytest.raises(ArchiveError, match="the manifest says 1 up to"):
        list(ArchiveSource(archive).records())


def test_an_archive_is_never_overwritten_and_a_folder_without_manifest_is_none(
    records: list[Record], archive: Path, tmp_path: Path
) -> None:
    with pytest.raises(ArchiveError, match="already there"):
        write_archive(records, archive, source="memory")
    with pytest.raises(ArchiveError, match="is no archive"):
        ArchiveSource(tmp_path)


def test_held_out_records_are_refused_and_leave_nothing_behind(records: list[Record], tmp_path: Path) -> None:
    secret = Record(**{**records[0].__dict__, "topic": "heldout.cell"})
    with pytest.raises(ArchiveError, match=r"heldout\.cell"):
        write_archive([*records, secret], tmp_path / "log", source="memory")
    assert list(tmp_path.iterdir()) == []
    assert not any(topic.startswith("heldout") for topic in open_topics())
