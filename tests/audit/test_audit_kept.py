"""Kept tables say what their views say, whatever was written in whichever order; what is not kept is answered from the views."""

import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from audit_log import Ask, campaign, records
from rebuild_parts import log, rebuilder

from bat_events.audit.file import AuditFile
from bat_events.audit.kept import is_fresh, keep, odd_rows
from bat_events.audit.materialiser import Materialiser
from bat_events.audit.places import audit_path
from bat_events.audit.query import QueryLimits, answer
from bat_events.audit.run import list_queries, run_query
from bat_events.audit.schema import kept_selects
from bat_events.consumers.auditor import AuditMachine
from bat_events.log.interface import Partition, Record
from bat_events.service.runtime import Status

STANDING = "SELECT DISTINCT status FROM rollout_results"
FAULTS = 'SELECT "check", count(*) AS n FROM boundary_faults GROUP BY ALL ORDER BY ALL'


def fresh(file: AuditFile) -> bool:
    return is_fresh(file.writer, file.offsets())


def odd(file: AuditFile) -> dict[str, int]:
    """Kept table -> rows that do not follow from the others; those without any are left out."""
    found = {}
    for name in kept_selects():
        columns = [(column, type_) for column, type_, *_ in file.writer.execute(f"DESCRIBE {name}_kept").fetchall()]
        row = file.writer.execute(odd_rows(name, columns)).fetchone()
        assert row is not None
        if row[0]:
            found[name] = row[0]
    return found


def answers(file: AuditFile) -> dict[str, Any]:
    """Every named query's rows; doubles to nine digits, since their sums depend on their order."""
    found = {}
    for query in list_queries():
        with file.cursor() as cursor:
            rows = answer(cursor, query.sql, dict.fromkeys(query.params), QueryLimits(), "file").rows
        found[query.name] = [[f"{v:.9e}" if isinstance(v, float) else v for v in row] for row in rows]
    return found


def forget(file: AuditFile) -> None:
    """The file no longer says that its kept tables are fresh."""
    file.writer.execute("DELETE FROM meta WHERE key = 'kept'")


def unsound(seed: int) -> list[Record]:
    """Two campaigns, partition by partition interleaved by chance: a tenth is not there, some come twice, some are cut short."""
    drawn = random.Random(seed)
    lanes: dict[Partition, list[Record]] = {}
    for record in [*records(campaign("c1").out), *records(campaign("c2").out)]:
        lane = lanes.setdefault(record.place, [])
        if drawn.random() < 0.1:
            continue
        lane.append(record)
        if drawn.random() < 0.1:
            lane.append(drawn.choice(lane))
        if drawn.random() < 0.03:
            lane.append(dataclasses.replace(record, value=record.value[:-1]))
    left = [
        [dataclasses.replace(record, offset=number) for number, record in enumerate(lane)]
        for lane in lanes.values()
        if lane
    ]
    mixed = []
    while left:
        lane = drawn.choice(left)
        mixed.append(lane.pop(0))
        left = [lane for lane in left if lane]
    return mixed


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_after_any_batches_what_is_kept_is_what_the_views_say(
    file: AuditFile, materialiser: Materialiser, seed: int
) -> None:
    found, drawn = unsound(seed), random.Random(seed)
    while found:
        size = drawn.choice((1, 9, 80, 400))
        materialiser.take(file.writer, found[:size])
        found = found[size:]
        if drawn.random() < 0.3:
            assert keep(file.writer)
            assert odd(file) == {}
    keep(file.writer)
    assert fresh(file)
    assert not keep(file.writer)
    kept = answers(file)
    assert kept["anomalies"]
    assert kept["boundary_faults"]
    assert odd(file) == {}
    forget(file)
    assert answers(file) == kept


def test_what_is_written_later_is_seen_before_anything_is_kept_again(
    file: AuditFile, materialiser: Materialiser, ask: Ask
) -> None:
    found = records(campaign().out)
    late = [record for record in found if record.topic == "reward"]
    materialiser.take(file.writer, [record for record in found if record not in late])
    keep(file.writer)
    assert {"status": "judging"} in ask(file, STANDING)
    assert ask(file, FAULTS) != []
    materialiser.take(file.writer, late)
    assert not fresh(file)
    assert {"status": "judging"} not in ask(file, STANDING)
    assert ask(file, FAULTS) == []
    broken = dataclasses.replace(found[0], offset=found[0].offset + 1000, value=b"")
    keep(file.writer)
    materialiser.take(file.writer, [broken])  # no event, but not what the tables were made of either
    assert not fresh(file)
    assert [row["finding"] for row in ask(file, "anomalies")] == ["undecodable"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS n FROM group_results",
        "  -- group_results\n/* and */ with a AS (FROM group_results) SELECT count(*) AS n FROM a, rollout_results",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT max(n) AS n FROM t, milestones",
        "WITH group_results AS (SELECT 1 AS n) FROM group_results",
        "(SELECT count(*) AS n FROM milestones) UNION ALL (SELECT count(*) FROM main.milestones) ORDER BY 1;",
        "SELECT 'group_results' AS n",
        "FROM (SELECT max(number) AS n FROM boundary_faults) LIMIT 1 -- the last",
    ],
)
def test_a_statement_means_the_same_on_kept_tables(filled: AuditFile, ask: Ask, sql: str) -> None:
    keep(filled.writer)
    kept = ask(filled, sql)
    forget(filled)
    assert ask(filled, sql) == kept


def test_the_limit_of_an_answer_is_not_a_statements_own() -> None:
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE meta (key VARCHAR, value VARCHAR)")
    connection.execute(
        'CREATE TABLE offsets (topic VARCHAR, "partition" INTEGER, next_offset BIGINT, updated TIMESTAMP)'
    )

    def rows(sql: str, most: int) -> tuple[list[int], bool]:
        found = answer(connection, sql, {}, QueryLimits(rows=most), "file")
        return [row[0] for row in found.rows], found.truncated

    assert rows("SELECT i FROM range(9) t(i) ORDER BY i DESC -- the largest", 2) == ([8, 7], True)
    assert rows("SELECT i FROM range(2) t(i) ORDER BY i;", 2) == ([0, 1], False)
    assert rows("SELECT i FROM range(9) t(i) ORDER BY i LIMIT 3", 5) == ([0, 1, 2], False)
    assert rows("SELECT i FROM range(9) t(i) ORDER BY i LIMIT 4 OFFSET 5", 2) == ([5, 6], True)


def test_a_kept_table_that_was_changed_is_found_and_mended(tmp_path: Path) -> None:
    rebuilder(tmp_path).run()
    with duckdb.connect(str(audit_path(tmp_path, "audit"))) as connection:
        connection.execute("UPDATE training_lineage_kept SET complete = NOT complete")
        connection.execute("UPDATE event_totals_kept SET wall_s = wall_s + 0.001 WHERE type = 'RewardScored'")
    found = rebuilder(tmp_path).run()
    assert not found.same
    assert [said.split(" rows of what is kept of ")[1].split()[0] for said in found.faults if "kept of" in said] == [
        "event_totals",
        "training_lineage",
        "boundary_faults",
    ]
    assert rebuilder(tmp_path).run(check_only=True).same
    assert run_query(tmp_path, "audit", sql="SELECT bool_and(complete) FROM training_lineage").rows == ((True,),)


def test_other_views_forget_what_was_kept(tmp_path: Path, materialiser: Materialiser) -> None:
    path = audit_path(tmp_path, "audit")
    old = AuditFile(path, "audit")
    materialiser.take(old.writer, log())
    keep(old.writer)
    old.writer.execute("UPDATE meta SET value = 'older' WHERE key = 'views'")
    old.writer.execute("CREATE TABLE gone_kept AS SELECT 1 AS n")
    old.close()
    renewed = AuditFile(path, "audit")
    assert renewed.rebuilding is None
    assert not fresh(renewed)
    assert renewed.writer.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'gone_kept'").fetchone() == (
        0,
    )
    keep(renewed.writer)
    assert odd(renewed) == {}
    renewed.close()


class Whole:
    """A reader that gives all there is at once."""

    def __init__(self, found: Sequence[Record]) -> None:
        self._left = list(found)

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:  # noqa: ARG002
        taken, self._left = self._left, []
        return taken

    def caught_up(self) -> bool:
        return not self._left

    def close(self) -> None:
        return


def test_an_auditor_keeps_once_it_has_read_all_and_goes_on_where_it_cannot(
    file: AuditFile, materialiser: Materialiser
) -> None:
    machine = AuditMachine(file=file, materialiser=materialiser, reader=Whole(log()), status=Status(service="auditor"))
    file.writer.execute("ALTER TABLE meta RENAME TO elsewhere")
    assert machine.step(0.0)
    file.writer.execute("ALTER TABLE elsewhere RENAME TO meta")
    assert not fresh(file)
    machine._keep_again = 0.0
    assert not machine.step(0.0)
    assert fresh(file)
