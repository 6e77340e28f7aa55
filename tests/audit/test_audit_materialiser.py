"""Given records in batches, with crashes between and inside them, the file holds every event once."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest
from audit_log import BEGIN, CANDIDATE, START, Ask, campaign, records, report

from bat_events.audit.errors import AuditError
from bat_events.audit.file import AuditFile
from bat_events.audit.materialiser import AUDITED, Materialiser
from bat_events.audit.places import audit_path
from bat_events.consumers.auditor import AuditMachine, check_log
from bat_events.log.interface import Record
from bat_events.log.topics import TOPICS
from bat_events.service.runtime import Status

ROWS = "SELECT type, count(*) AS n FROM events GROUP BY type ORDER BY type"


class Died(Exception):
    """A process was killed here."""


class ListReader:
    """A reader over records that are there already, from given offsets on."""

    def __init__(self, found: Sequence[Record], start: dict[tuple[str, int], int]) -> None:
        self._left = [r for r in found if r.offset >= start.get((r.topic, r.partition), 0)]

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:  # noqa: ARG002
        taken, self._left = self._left[:7], self._left[7:]
        return taken

    def caught_up(self) -> bool:
        return not self._left

    def close(self) -> None:
        return


def drain(file: AuditFile, materialiser: Materialiser, found: Sequence[Record], crash=lambda _: None) -> None:
    reader = ListReader(found, file.offsets())
    machine = AuditMachine(
        file=file, materialiser=materialiser, reader=reader, status=Status(service="auditor"), crash=crash
    )
    while machine.step(0.0) or not reader.caught_up():
        pass


def test_all_topics_but_the_heldout_ones_and_the_schemas_are_read() -> None:
    left_out = {spec.name for spec in TOPICS} - set(AUDITED)
    assert left_out == {spec.name for spec in TOPICS if spec.name.startswith("heldout.")} | {"schema"}


@pytest.mark.parametrize("moment", ["rows-written", "offsets-written", "committed"])
def test_a_crash_at_any_moment_of_any_batch_loses_and_doubles_nothing(
    moment: str, tmp_path: Path, materialiser: Materialiser, ask: Ask
) -> None:
    found = records(campaign().out)
    whole = AuditFile(tmp_path / "whole.duckdb", "audit")
    drain(whole, materialiser, found)

    deaths = 0
    while True:
        file = AuditFile(tmp_path / "crashed.duckdb", "audit")
        passed = 0

        def crash(where: str) -> None:
            nonlocal passed
            if where == moment:
                passed += 1
                if passed == 2:  # one batch is kept in each life where the crash comes before the commit
                    raise Died(where)

        try:
            drain(file, materialiser, found, crash)
            break
        except Died:
            deaths += 1
            file.close()
    assert deaths >= 3
    assert ask(file, ROWS) == ask(whole, ROWS)
    assert ask(file, "SELECT count(*) AS n FROM duplicates") == [{"n": 0}]
    assert file.offsets() == whole.offsets()
    file.close()
    whole.close()


def test_the_first_committed_event_of_an_id_counts(file: AuditFile, materialiser: Materialiser, ask: Ask) -> None:
    out = campaign().out
    found = records(out)
    ends = {(r.topic, r.partition): r.offset + 1 for r in found}
    reward = next(o for o in out if o.topic == "reward")
    again = records([reward, reward], start=ends)
    materialiser.take(file.writer, [*found, again[0]])  # in the same batch
    materialiser.take(file.writer, [again[1]])  # in a later one
    rows = ask(file, "duplicates")
    first = next(r for r in found if r.topic == "reward")
    assert [(row["offset"], row["first_offset"], row["same_body"]) for row in rows] == [
        (again[0].offset, first.offset, True),
        (again[1].offset, first.offset, True),
    ]
    assert ask(file, "SELECT count(*) AS n FROM events") == [{"n": len(out)}]
    assert file.offsets()[(first.topic, first.partition)] == again[1].offset + 1


def test_a_duplicate_with_another_body_is_told_apart(file: AuditFile, materialiser: Materialiser, ask: Ask) -> None:
    log = campaign()
    cause = next(dict(o.headers)["bat_cause"] for o in reversed(log.out) if o.topic == "boundary.report").decode()
    log.put(report(1, CANDIDATE, 0.75, (START,)), cause, by="evaluator", round=1)
    materialiser.take(file.writer, records(log.out))
    assert [(row["type"], row["same_body"]) for row in ask(file, "duplicates")] == [("EvaluationReported", False)]
    assert [row["overall"] for row in ask(file, "rounds")] == [0.5, 0.45]
    assert [row["finding"] for row in ask(file, "anomalies")] == ["duplicate with another body"]
    crossed = "SELECT count(DISTINCT \"offset\") AS n FROM crossings WHERE topic = 'boundary.report'"
    assert ask(file, crossed) == [{"n": 3}]  # its bytes crossed, though it does not count


def test_a_record_that_is_no_event_is_listed_and_stops_nothing(
    file: AuditFile, materialiser: Materialiser, ask: Ask
) -> None:
    found = records(campaign().out)
    cut_short = dataclasses.replace(found[5], offset=found[5].offset + 1000, value=found[5].value[:-1])
    huge = tuple((n, b"9" * 30 if n == "bat_ordinal" else v) for n, v in found[6].headers)
    too_large = dataclasses.replace(found[6], offset=found[6].offset + 1001, headers=huge)
    empty = dataclasses.replace(found[0], offset=found[0].offset + 1002, value=b"", headers=(), key=b"")
    materialiser.take(file.writer, [cut_short, *found[:3], too_large, *found[3:], empty])
    assert ask(file, "SELECT count(*) AS n FROM events") == [{"n": len(found)}]
    rows = {row["offset"]: row for row in ask(file, "undecodable")}
    assert {offset: row["kind"] for offset, row in rows.items()} == {
        cut_short.offset: "BadBody",
        too_large.offset: "BadEnvelope",
        empty.offset: "BadEnvelope",
    }
    assert rows[cut_short.offset]["campaign"] == "c1"
    assert rows[cut_short.offset]["value_bytes"] == len(cut_short.value)


def test_a_schema_that_was_published_since_is_fetched_once(file: AuditFile, codec, ask: Ask) -> None:
    found = records(campaign().out)
    unknown = tuple((n, b"sha256:" + b"0" * 64 if n == "ce_dataschema" else v) for n, v in found[0].headers)
    asked = []
    materialiser = Materialiser(codec=codec, now=lambda: BEGIN, relearn=lambda: asked.append(1))
    strange = dataclasses.replace(found[0], headers=unknown)
    materialiser.take(file.writer, [strange, dataclasses.replace(strange, offset=strange.offset + 1)])
    assert asked == [1]
    assert [row["kind"] for row in ask(file, "undecodable")] == ["UnknownSchema"] * 2


def test_a_damaged_file_is_rebuilt_beside_and_swapped(tmp_path: Path, materialiser: Materialiser, ask: Ask) -> None:
    found = records(campaign().out)
    path = audit_path(tmp_path, "audit")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database" * 1000)
    file = AuditFile(path, "audit")
    assert file.rebuilding is not None
    assert "damaged" in file.rebuilding
    assert file.offsets() == {}
    drain(file, materialiser, found)
    assert file.rebuilding is None
    assert ask(file, "SELECT count(*) AS n FROM events") == [{"n": len(found)}]
    file.close()
    assert {entry.name for entry in path.parent.iterdir()} == {path.name, "audit.lock"}
    again = AuditFile(path, "audit")
    assert again.rebuilding is None
    assert again.offsets()
    again.close()


def test_a_file_of_another_format_is_rebuilt_and_a_half_done_rebuild_goes_on(
    tmp_path: Path, materialiser: Materialiser, ask: Ask
) -> None:
    found = records(campaign().out)
    path = audit_path(tmp_path, "audit")
    old = AuditFile(path, "audit")
    old.writer.execute("UPDATE meta SET value = 'older' WHERE key = 'format'")
    old.close()
    first = AuditFile(path, "audit")
    assert first.rebuilding == "it was made by another version of bat-events"
    materialiser.take(first.writer, found[:10])
    first.close()
    second = AuditFile(path, "audit")
    assert sum(second.offsets().values()) > 0
    drain(second, materialiser, found)
    assert ask(second, "SELECT count(*) AS n FROM events") == [{"n": len(found)}]
    second.close()


def test_changed_views_are_renewed_without_a_rebuild(tmp_path: Path, materialiser: Materialiser, ask: Ask) -> None:
    path = audit_path(tmp_path, "audit")
    old = AuditFile(path, "audit")
    materialiser.take(old.writer, records(campaign().out))
    old.writer.execute("UPDATE meta SET value = 'older' WHERE key = 'views'")
    old.writer.execute("CREATE VIEW gone AS SELECT 1")
    old.close()
    file = AuditFile(path, "audit")
    assert file.rebuilding is None
    assert len(ask(file, "rounds")) == 2
    assert ask(file, "SELECT view_name FROM duckdb_views() WHERE view_name = 'gone'") == []
    file.close()


def test_a_log_that_ends_before_what_was_read_is_refused(filled: AuditFile) -> None:
    stored = filled.offsets()
    check_log(stored, stored, filled)
    with pytest.raises(AuditError, match="the log was cut or replaced"):
        check_log(stored, dict.fromkeys(stored, 0), filled)


def test_blocks_found_damaged_while_running_make_the_next_start_rebuild(
    tmp_path: Path, materialiser: Materialiser, ask: Ask
) -> None:
    path = audit_path(tmp_path, "audit")
    file = AuditFile(path, "audit")
    materialiser.take(file.writer, records(campaign().out))
    file.damage = "Corrupt database file: computed checksum"
    with pytest.raises(AuditError, match="the next start rebuilds it"):
        drain(file, materialiser, [])
    fresh = AuditFile(path, "audit")
    drain(fresh, materialiser, records(campaign().out))
    assert len(ask(fresh, "rounds")) == 2
    fresh.close()
