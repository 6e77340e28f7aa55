"""The audit file made anew equals the live one; what was changed in the live one is found and mended; killed, nothing is lost."""

import dataclasses
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from audit_log import campaign, records
from rebuild_parts import ListedRecords, killed_at, log, materialiser, rebuild_here, rebuilder

from bat_events.audit.errors import AuditBusy, AuditError
from bat_events.audit.file import AuditFile
from bat_events.audit.hold import Hold
from bat_events.audit.places import audit_path, new_path, next_path
from bat_events.audit.run import list_queries, run_query
from bat_events.audit.server import QueryServer, socket_path
from bat_events.consumers.auditor import AuditMachine
from bat_events.log.interface import Partition, Record
from bat_events.service.runtime import Status

TAMPERED = {
    "reward_scored": "UPDATE reward_scored SET reward = 0.875 WHERE id = (SELECT min(id) FROM reward_scored)",
    "rollout_completed": "DELETE FROM rollout_completed WHERE id = (SELECT min(id) FROM rollout_completed)",
    "checkpoint_held": "INSERT INTO checkpoint_held (id, campaign) VALUES ('ff', 'c1')",
    "events": "UPDATE events SET cause = id WHERE type = 'CheckpointProduced'",
    "crossings": "UPDATE crossings SET permitted = NOT permitted",
    "receipts": "INSERT INTO receipts (event, rollout) VALUES ('ff', 'ff')",
    "definitions": "CREATE OR REPLACE VIEW latest_campaign AS SELECT 'another' AS campaign",
}
"""Table that differs -> what was done to the live file."""


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """The home of a small campaign whose auditor has stopped."""
    rebuilder(tmp_path).run()
    return tmp_path


def tamper(home: Path, *statements: str) -> None:
    with duckdb.connect(str(audit_path(home, "audit"))) as connection:
        for statement in statements:
            connection.execute(statement)


def answers(home: Path) -> dict[str, Any]:
    asked = ("rounds", "lineage_receipts", "bank_funnel", "boundary_faults")
    return {
        query.name: run_query(home, "audit", name=query.name).rows for query in list_queries() if query.name in asked
    }


def files(home: Path) -> set[str]:
    return {path.name for path in (home / "audit").iterdir() if path.suffix == ".duckdb"}


def test_a_rebuilt_file_answers_as_the_auditors_own_did(file: AuditFile, tmp_path: Path) -> None:
    materialiser().take(file.writer, log())
    file.close()
    before = answers(tmp_path)
    found = rebuilder(tmp_path).run()
    assert found.same
    assert found.placed_by == "rebuild"
    assert found.comparison is not None
    assert {t.table: t.rows_live for t in found.comparison.tables} == {
        t.table: t.rows_new for t in found.comparison.tables
    }
    assert answers(tmp_path) == before
    assert files(tmp_path) == {"audit.duckdb"}


def test_whatever_is_changed_in_a_live_file_is_found_by_its_table_and_mended(live: Path) -> None:
    assert rebuilder(live).run(check_only=True).same
    tamper(live, *TAMPERED.values())
    checked = rebuilder(live).run(check_only=True)
    assert not checked.same
    assert checked.placed_by is None
    assert checked.comparison is not None
    odd = {table.table: table.first for table in checked.comparison.different}
    assert set(odd) == set(TAMPERED)
    assert odd["receipts"] == "rows that belong to no record of the log"
    assert odd["definitions"] == "view latest_campaign"
    place = run_query(
        live, "audit", sql='SELECT topic, "partition", "offset" FROM events WHERE type = \'RewardScored\''
    )
    assert odd["reward_scored"] in {f"{topic}[{number}]@{offset}" for topic, number, offset in place.rows}
    rebuilder(live).run()
    assert rebuilder(live).run(check_only=True).same


def test_a_live_file_that_says_what_cannot_be_is_found_and_mended(live: Path) -> None:
    tamper(
        live,
        "UPDATE offsets SET next_offset = 1 WHERE topic = 'rollout'",
        "UPDATE offsets SET next_offset = 99999 WHERE topic = 'reward'",
        "DROP TABLE rollout_failed",
    )
    found = rebuilder(live).run()
    assert found.comparison is not None
    assert {table.table for table in found.comparison.different} == {"definitions", "rollout_failed"}
    assert {said.split("[")[0] for said in found.faults} == {"rows of rollout", "reward"}
    tamper(live, "DROP TABLE events")
    assert rebuilder(live).run().comparison is None
    assert rebuilder(live).run(check_only=True).same


def test_a_rebuild_killed_at_any_moment_leaves_a_whole_file_and_the_next_one_clears_up(live: Path) -> None:
    tamper(live, TAMPERED["reward_scored"])
    marked = "SELECT (SELECT count(*) FROM events), max(reward) FROM reward_scored"
    old = run_query(live, "audit", sql=marked).rows
    for moment in ("batch", "compared", "closed"):
        killed_at(moment, rebuild_here, live, log())
        assert new_path(audit_path(live, "audit")).exists()
        assert run_query(live, "audit", sql=marked).rows == old
    killed_at("placed", rebuild_here, live, log())
    assert files(live) == {"audit.duckdb"}
    assert run_query(live, "audit", sql=marked).rows != old
    assert rebuilder(live).run(check_only=True).same


def test_two_rebuilds_exclude_each_other(live: Path) -> None:
    hold = Hold(audit_path(live, "audit").with_suffix(".rebuild.lock"), "")
    with pytest.raises(AuditBusy, match="another rebuild of"):
        rebuilder(live).run()
    hold.release()
    assert rebuilder(live).run().same


class Growing:
    """A LogReader over a list that others append to; each poll gives a few records."""

    def __init__(self, log: list[Record], start: Mapping[Partition, int]) -> None:
        self._log, self._start, self._at = log, start, 0

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:  # noqa: ARG002
        taken = self._log[self._at : self._at + 7]
        self._at += len(taken)
        return [record for record in taken if record.offset >= self._start.get(record.place, 0)]

    def caught_up(self) -> bool:
        return self._at == len(self._log)

    def close(self) -> None:
        return


def numbered(found: list[Record]) -> list[Record]:
    """The same records with their own offsets: rows and offsets have no gaps."""
    placed: dict[Partition, int] = {}
    out = []
    for record in found:
        placed[record.place] = placed.get(record.place, -1) + 1
        out.append(dataclasses.replace(record, offset=placed[record.place]))
    return out


def auditor(home: Path, log: list[Record], crash: Callable[[str], None] = lambda _: None) -> None:
    """A running auditor: steps until the file's folder holds a file called `stop`."""
    file = AuditFile(audit_path(home, "audit"), "audit")
    server = QueryServer(file, socket_path(home, "audit"))
    machine = AuditMachine(
        file=file,
        materialiser=materialiser(),
        reader=Growing(log, file.offsets()),
        status=Status(service="auditor"),
        crash=crash,
        read_from=lambda start: Growing(log, start),
        asked=server.asked_to_take_over,
    )
    while not (home / "stop").exists():
        if not machine.step(0.0):
            (home / "idle").touch()
            threading.Event().wait(0.01)
    server.close()
    file.close()


def test_a_running_auditor_takes_the_new_file_over_and_no_question_fails_or_goes_back(tmp_path: Path) -> None:
    found = numbered([record for number in range(3) for record in records(campaign(f"c{number}").out)])
    first = len(found) // 3
    written = found[:first]
    running = threading.Thread(target=auditor, args=(tmp_path, written))
    running.start()
    while not (tmp_path / "idle").exists():
        running.join(0.01)
    seen: dict[int, list[int]] = {0: [], 1: []}
    over = threading.Event()

    def ask(number: int) -> None:
        while not over.is_set():
            result = run_query(tmp_path, "audit", sql="SELECT count(*) FROM events")
            as_of = sum(offset for parts in result.as_of.values() for offset in parts.values())
            assert result.rows[0][0] == as_of  # of one moment
            seen[number].append(as_of)

    asking = [threading.Thread(target=ask, args=(number,)) for number in seen]
    for thread in asking:
        thread.start()
    source = list(written)
    more = threading.Thread(target=lambda: [written.append(record) for record in found[first:]])
    placed = rebuilder(tmp_path, source, crash=lambda where: more.start() if where == "compared" else None).run()
    assert placed.placed_by == "auditor"
    assert placed.same
    more.join()
    while run_query(tmp_path, "audit", sql="SELECT count(*) FROM events").rows != ((len(found),),):
        running.join(0.01)
    over.set()
    for thread in asking:
        thread.join()
    (tmp_path / "stop").touch()
    running.join()
    assert all(seen.values())
    assert all(numbers == sorted(numbers) for numbers in seen.values())
    assert rebuilder(tmp_path, found).run(check_only=True).same
    assert files(tmp_path) == {"audit.duckdb"}


@pytest.mark.parametrize("moment", ["rows-written", "swapped"])
def test_an_auditor_killed_while_it_takes_over_leaves_a_whole_file(live: Path, moment: str) -> None:
    tamper(live, TAMPERED["reward_scored"])
    asked = threading.Thread(target=_hand_over, args=(live, log()))
    asked.start()
    killed_at(moment, auditor, live, log())
    asked.join()
    again = AuditFile(audit_path(live, "audit"), "audit")
    assert again.rebuilding is None
    again.close()
    assert not next_path(audit_path(live, "audit")).exists()
    assert rebuilder(live).run(check_only=True).same == (moment == "swapped")


def _hand_over(home: Path, found: list[Record]) -> None:
    """A rebuild of half the log, so that the auditor has to write on before it can swap."""
    import contextlib

    while not (home / "idle").exists():
        threading.Event().wait(0.01)
    half = ListedRecords(found[: len(found) // 2])
    made = rebuilder(home, found)
    made._source = half
    with contextlib.suppress(AuditError):  # the auditor went away before it answered
        made.run()


def test_a_file_that_was_not_announced_is_not_taken_over(live: Path) -> None:
    file = AuditFile(audit_path(live, "audit"), "audit")
    with pytest.raises(AuditError, match="is not there"):
        file.adopt("mark")
    AuditFile(new_path(file.path), "audit", lock=False).close()
    with pytest.raises(AuditError, match="not the one that was announced"):
        file.adopt("mark")
    assert file.offsets()
    file.close()
    assert files(live) == {"audit.duckdb"}
