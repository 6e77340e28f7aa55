"""The second archive format: records come back as they were, replay cannot tell it from the log, a killed export goes on."""

import dataclasses
import io
from pathlib import Path

import fastavro
import pytest

from bat_events.codec import Codec
from bat_events.domain.sealing import Leaves, content_bytes
from bat_events.log.interface import Record
from bat_events.replay import ArchiveError, ArchiveReader, ArchiveSource, replay_campaign
from bat_events.replay.archive_format import MANIFEST, RECORD_SCHEMA
from bat_events.replay.export import ExportOptions, export_campaign
from tests.archive.logs import MemoryLog, export, quiet
from tests.replay.loop import CAMPAIGN, Loop
from tests.replay.memory import MemorySource

SCHEMAS = [schema.text for schema in Codec().schemas()]


@pytest.fixture(scope="session")
def records() -> list[Record]:
    """A completed campaign's records, by topic, partition and offset."""
    return Loop(seed=7).run()


@pytest.fixture(scope="session")
def archive(records: list[Record], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The campaign as an archive, not to be changed."""
    folder = tmp_path_factory.mktemp("archive") / "log"
    export(records, folder, CAMPAIGN)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_records_come_back_as_they_were_in_the_logs_order(records: list[Record], archive: Path) -> None:
    reader = ArchiveReader(archive)
    found = [list(reader.records(*where)) for where in reader.partitions]
    assert [archived.record for part in found for archived in part] == records
    assert all([archived.ordinal for archived in part] == list(range(len(part))) for part in found)
    assert sum(len(part) for part in found) == reader.manifest.records


def test_rounds_partition_the_records_by_their_header(records: list[Record], archive: Path) -> None:
    reader = ArchiveReader(archive)
    assert reader.manifest.rounds == [0, 1, 2]
    by_round = {number: [a.record for a in reader.round(number)] for number in (None, 0, 1, 2)}
    for number, part in by_round.items():
        wanted = None if number is None else str(number).encode()
        assert part == [r for r in records if dict(r.headers).get("bat_round") == wanted]
    assert by_round[None]
    assert by_round[2]


def test_an_archive_replays_as_its_log_does(records: list[Record], archive: Path) -> None:
    source = ArchiveSource(archive)
    assert replay_campaign(source) == replay_campaign(MemorySource(records, name=source.name))


def test_raw_rows_are_what_leaves_hash_and_equal_what_is_decoded(archive: Path) -> None:
    reader = ArchiveReader(archive)
    for topic, partition in reader.partitions:
        leaves, hashed = reader.leaves(topic, partition), Leaves(topic, partition)
        decoded = [(a.ordinal, a.content()) for a in reader.records(topic, partition)]
        assert [row[:2] for row in reader.raw(topic, partition)] == decoded
        assert b"".join(hashed.leaf(*row) for row in decoded) == leaves


def test_content_bytes_are_avros_own(records: list[Record]) -> None:
    fields = [field for field in RECORD_SCHEMA["fields"] if field["name"] not in ("ordinal", "offset")]
    schema = fastavro.parse_schema({**RECORD_SCHEMA, "fields": fields})
    odd = dataclasses.replace(records[0], headers=(("ä" * 70, b""), ("", b"x" * 5000)), key=b"", timestamp_ms=-(2**40))
    for record in (*records, odd, dataclasses.replace(odd, headers=())):
        buffer = io.BytesIO()
        headers = [{"name": name, "value": value} for name, value in record.headers]
        row = {"timestamp_ms": record.timestamp_ms, "key": record.key, "value": record.value, "headers": headers}
        fastavro.schemaless_writer(buffer, schema, row)
        assert content_bytes(record.key, record.value, record.headers, record.timestamp_ms) == buffer.getvalue()


def test_the_files_are_plain_avro(records: list[Record], archive: Path) -> None:
    with (archive / "promotion" / "0" / "round-0001.avro").open("rb") as file:
        rows = list(fastavro.reader(file))
    wanted = [r for r in records if r.topic == "promotion" and dict(r.headers).get("bat_round") == b"1"]
    assert [(row["value"], row["headers"][0]["name"]) for row in rows] == [(r.value, r.headers[0][0]) for r in wanted]


def test_two_exports_and_a_killed_one_that_went_on_are_byte_identical(
    records: list[Record], archive: Path, tmp_path: Path
) -> None:
    log = MemoryLog(records, schemas=SCHEMAS)
    options = ExportOptions(campaign=CAMPAIGN, namespace="memory")
    for fail_at in (0, 1, 150, 80):
        log.fail_at, log.read_records = fail_at, 0
        with pytest.raises(KeyboardInterrupt):
            export_campaign(log, tmp_path / "log", options, quiet)
        with pytest.raises(ArchiveError, match="is no archive"):
            ArchiveReader(tmp_path / "log")
    log.fail_at, log.read_records = None, 0
    export_campaign(log, tmp_path / "log", options, quiet)
    assert log.read_records < len(records) - 150, "finished partitions were read again"
    assert contents(tmp_path / "log") == contents(archive)


def test_an_export_goes_on_with_the_ends_that_it_began_with(records: list[Record], tmp_path: Path) -> None:
    half = [record for record in records if record.offset < 5]
    log, options = MemoryLog(half, schemas=SCHEMAS), ExportOptions(campaign=CAMPAIGN, namespace="memory")
    log.fail_at = 10
    with pytest.raises(KeyboardInterrupt):
        export_campaign(log, tmp_path / "log", options, quiet)
    export_campaign(MemoryLog(records, schemas=SCHEMAS), tmp_path / "log", options, quiet)
    export(half, tmp_path / "half", CAMPAIGN)
    assert contents(tmp_path / "log") == contents(tmp_path / "half")


def test_an_export_overwrites_nothing(records: list[Record], archive: Path, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="never overwritten"):
        export(records, archive, CAMPAIGN)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(ArchiveError, match="not empty"):
        export(records, tmp_path / "mine", CAMPAIGN)
    log = MemoryLog(records, schemas=SCHEMAS)
    log.fail_at = 3
    with pytest.raises(KeyboardInterrupt):
        export_campaign(log, tmp_path / "log", ExportOptions(campaign=CAMPAIGN, namespace="memory"), quiet)
    with pytest.raises(ArchiveError, match="begun with another only_round"):
        export(records, tmp_path / "log", CAMPAIGN, only_round=1)
    with pytest.raises(ArchiveError, match="campaign nobody is not in"):
        export(records, tmp_path / "none", "nobody")
    assert not (tmp_path / "none").exists()


def test_one_round_is_exported_alone_and_is_no_source_of_replay(records: list[Record], tmp_path: Path) -> None:
    manifest = export(records, tmp_path / "log", CAMPAIGN, only_round=1)
    reader = ArchiveReader(tmp_path / "log")
    assert manifest.rounds == [1]
    assert list(reader.round(1))
    assert not list(reader.round(2))
    with pytest.raises(ArchiveError, match="round 1 only"):
        ArchiveSource(tmp_path / "log")


def test_another_campaigns_records_leave_their_place_and_no_content(records: list[Record], tmp_path: Path) -> None:
    other = Loop(seed=3, campaign="other").run(records=60)
    ends: dict[tuple[str, int], int] = {}
    for record in other:
        ends[(record.topic, record.partition)] = record.offset + 2
    moved = [dataclasses.replace(r, offset=r.offset + ends.get((r.topic, r.partition), 0)) for r in records]
    both = sorted([*other, *moved], key=lambda r: (r.topic, r.partition, r.offset))
    export(both, tmp_path / "log", CAMPAIGN)
    text = b"".join(contents(tmp_path / "log").values())
    assert b"other" not in text.replace(b"others", b"").replace(b"OtherRecord", b"")
    source = ArchiveSource(tmp_path / "log")
    assert replay_campaign(source) == replay_campaign(MemorySource(both, name=source.name), campaign=CAMPAIGN)


def test_a_missing_file_and_a_flipped_byte_are_named(records: list[Record], tmp_path: Path) -> None:
    export(records, tmp_path / "log", CAMPAIGN)
    for name, content in contents(tmp_path / "log").items():
        if name == MANIFEST or not content:
            continue
        path = tmp_path / "log" / name
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(ArchiveError, match=path.name.replace(".", r"\.")):
            ArchiveReader(tmp_path / "log")
        path.unlink()
        with pytest.raises(ArchiveError, match="is missing"):
            ArchiveReader(tmp_path / "log")
        path.write_bytes(content)
