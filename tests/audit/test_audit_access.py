"""Only SELECT, only the audit's tables, while the auditor writes, and the same answer when it has stopped."""

import dataclasses
import json
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from audit_log import campaign, records

from bat_events.audit.errors import AuditError, NoAuditFile, QueryFailed, QueryRefused, QueryTimeout
from bat_events.audit.file import AuditFile
from bat_events.audit.materialiser import Materialiser
from bat_events.audit.places import audit_path
from bat_events.audit.query import QueryLimits, answer
from bat_events.audit.run import as_of_line, render, run_query
from bat_events.audit.server import QueryServer, socket_path

REFUSED = [
    "COPY events TO '/tmp/audit-stolen.csv'",
    "ATTACH '/tmp/other.duckdb'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "SET threads = 1",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT (SELECT count(*) FROM glob('/etc/*'))",
    "WITH x AS (SELECT * FROM sniff_csv('/etc/passwd')) SELECT * FROM x",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM checkpoint()",
    "DELETE FROM events",
    "INSERT INTO meta VALUES ('a', 'b')",
    "CREATE TABLE mine AS SELECT 1",
    "EXPORT DATABASE '/tmp/audit-stolen'",
    "EXPLAIN ANALYZE DELETE FROM events",
    "SELECT 1; DELETE FROM events",
    "CALL pragma_version()",
    "BEGIN",
    "COMMIT",
    "",
    "SELEKT 1",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
]


def on(file: AuditFile, sql: str, limits: QueryLimits | None = None):
    with file.cursor() as cursor:
        return answer(cursor, sql, {}, limits or QueryLimits(), "file")


@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: sql[:40])
def test_everything_but_one_plain_select_is_refused(sql: str, filled: AuditFile) -> None:
    with pytest.raises(QueryRefused):
        on(filled, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "WITH gone AS (DELETE FROM events RETURNING *) SELECT count(*) FROM gone",
        "WITH more AS (INSERT INTO meta VALUES ('a', 'b') RETURNING *) SELECT * FROM more",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM python_variable",
    ],
)
def test_a_select_that_would_write_or_reach_outside_fails(sql: str, filled: AuditFile) -> None:
    python_variable = [{"secret": 1}]
    before = on(filled, "SELECT count(*) FROM events").rows
    with pytest.raises((QueryFailed, QueryRefused)):
        on(filled, sql)
    assert on(filled, "SELECT count(*) FROM events").rows == before
    assert python_variable


@pytest.mark.parametrize("call", ["read_csv('/etc/passwd')", "read_text('/etc/passwd')", "glob('/etc/*')"])
def test_the_connection_itself_has_no_access_to_files(call: str, filled: AuditFile) -> None:
    with filled.cursor() as cursor, pytest.raises(Exception, match="disabled by configuration"):
        cursor.execute(f"SELECT * FROM {call}").fetchall()
    with filled.cursor() as cursor, pytest.raises(Exception, match="locked"):
        cursor.execute("SET enable_external_access = true")


def test_a_query_over_its_time_is_cut_off_and_the_next_one_runs(filled: AuditFile) -> None:
    endless = "SELECT count(*) FROM range(100000000000) a, range(1000) b"
    began = time.monotonic()
    with pytest.raises(QueryTimeout, match=r"within 0\.3 s"):
        on(filled, endless, QueryLimits(seconds=0.3))
    assert time.monotonic() - began < 10
    assert on(filled, "SELECT 1").rows == ((1,),)


def test_rows_over_the_limit_are_cut_off_and_said_so(filled: AuditFile) -> None:
    found = on(filled, "SELECT * FROM range(100)", QueryLimits(rows=10))
    assert len(found.rows) == 10
    assert found.truncated
    assert "there are more" in render(found)


@pytest.fixture
def served(filled: AuditFile, tmp_path: Path) -> Iterator[AuditFile]:
    server = QueryServer(filled, socket_path(tmp_path, "audit"), QueryLimits(rows=1000, seconds=5))
    yield filled
    server.close()


def test_the_socket_is_its_owners_alone_and_a_stale_one_is_replaced(filled: AuditFile, tmp_path: Path) -> None:
    path = socket_path(tmp_path, "audit")
    path.parent.mkdir(parents=True)
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    server = QueryServer(filled, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run_query(tmp_path, "audit", sql="SELECT 1 AS one").rows == ((1,),)
    server.close()
    assert not path.exists()


def test_a_socket_path_longer_than_the_system_allows_works(filled: AuditFile, tmp_path: Path) -> None:
    home = tmp_path / ("long-" * 30)
    server = QueryServer(filled, socket_path(home, "audit"))
    assert run_query(home, "audit", sql="SELECT 1 AS one").source == "auditor"
    server.close()


def test_errors_keep_their_kind_across_the_socket(served: AuditFile, tmp_path: Path) -> None:
    with pytest.raises(QueryFailed, match="nonsense"):
        run_query(tmp_path, "audit", sql="SELECT nonsense FROM events")
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(socket_path(tmp_path, "audit")))
    for request in (b"not json\n", b'{"sql": 3}\n', b'{"sql": "DELETE FROM events"}\n', b'{"sql": "SELECT 7 AS x"}\n'):
        connection.sendall(request)
    with connection.makefile("rb") as lines:
        replies = [json.loads(lines.readline()) for _ in range(4)]
    connection.close()
    assert [reply.get("kind") for reply in replies] == ["AuditError", "AuditError", "QueryRefused", None]
    assert replies[3]["result"]["rows"] == [[7]]
    assert served.offsets()


def test_queries_are_answered_while_rows_are_written_each_from_one_moment(
    file: AuditFile, materialiser: Materialiser, tmp_path: Path
) -> None:
    server = QueryServer(file, socket_path(tmp_path, "audit"))
    found = [record for number in range(4) for record in records(campaign(f"c{number}").out)]
    placed: dict[tuple[str, int], int] = {}
    numbered = []
    for record in found:
        where = (record.topic, record.partition)
        placed[where] = placed.get(where, -1) + 1
        numbered.append(dataclasses.replace(record, offset=placed[where]))

    def write() -> None:
        for begin in range(0, len(numbered), 17):
            materialiser.take(file.writer, numbered[begin : begin + 17])

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while writer.is_alive() or not seen:
        result = run_query(tmp_path, "audit", sql="SELECT count(*) AS n FROM events")
        as_of = sum(offset for partitions in result.as_of.values() for offset in partitions.values())
        assert result.rows[0][0] == as_of  # offsets have no gaps here: rows and offsets are of the same moment
        seen.append(as_of)
    writer.join()
    assert seen == sorted(seen)
    assert run_query(tmp_path, "audit", sql="SELECT count(*) AS n FROM events").rows == ((len(numbered),),)
    server.close()


def test_the_answer_is_the_same_from_the_auditor_and_from_its_file(mine: AuditFile, tmp_path: Path) -> None:
    server = QueryServer(mine, socket_path(tmp_path, "audit"))
    live = run_query(tmp_path, "audit", name="rounds")
    server.close()
    mine.close()
    stopped = run_query(tmp_path, "audit", name="rounds")
    assert (live.source, stopped.source) == ("auditor", "file")
    assert {**live.to_json(), "source": ""} == {**stopped.to_json(), "source": ""}
    assert f"round {live.as_of['round'][0]}," in as_of_line(stopped)
    assert as_of_line(stopped).endswith("no auditor runs")
    with pytest.raises(QueryRefused):
        run_query(tmp_path, "audit", sql="DELETE FROM events")


def test_a_killed_auditors_file_is_read_with_what_it_committed(tmp_path: Path) -> None:
    code = (
        "import sys, os; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path; from datetime import datetime\n"
        "from audit_log import campaign, records\n"
        "from bat_events.audit.file import AuditFile; from bat_events.audit.materialiser import Materialiser\n"
        "from bat_events.audit.places import audit_path\n"
        "from bat_events.codec import Codec\n"
        "file = AuditFile(audit_path(Path(sys.argv[1]), 'audit'), 'audit')\n"
        "Materialiser(codec=Codec(), now=datetime.now).take(file.writer, records(campaign().out))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path), str(Path(__file__).parent)], check=False)
    assert killed.returncode == -9
    assert len(run_query(tmp_path, "audit", name="rounds").rows) == 2
    reopened = AuditFile(audit_path(tmp_path, "audit"), "audit")
    assert reopened.rebuilding is None
    assert reopened.offsets()
    reopened.close()


def test_without_a_file_the_message_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(NoAuditFile, match="run `bat-events serve auditor`"):
        run_query(tmp_path, "audit", name="rounds")


def test_a_file_of_another_version_says_what_to_do(mine: AuditFile, tmp_path: Path) -> None:
    mine.writer.execute("UPDATE meta SET value = 'older' WHERE key = 'format'")
    mine.close()
    with pytest.raises(AuditError, match="start `bat-events serve auditor` once"):
        run_query(tmp_path, "audit", name="rounds")


def test_formats_carry_the_same_rows(filled: AuditFile) -> None:
    found = on(filled, "SELECT round, overall, reasons, baseline FROM decisions ORDER BY round")
    assert json.loads(render(found, "json"))["rows"][1] == [1, 0.45, ["the lower bound is below zero"], False]
    assert render(found, "csv").splitlines()[2] == '1,0.45,"[""the lower bound is below zero""]",false'
    table = render(found, "table", width=120)
    assert "2 rows; as of" in table
    assert f"promotion {found.as_of['promotion'][0]}" in " ".join(table.split())
    with pytest.raises(ValueError, match="choose of table, csv, json"):
        render(found, "xml")


def test_a_table_too_wide_for_the_terminal_names_the_columns_that_it_hides(filled: AuditFile) -> None:
    found = on(filled, "SELECT * FROM events")
    shown = render(found, "table", width=100).splitlines()
    assert max(len(line) for line in shown) <= 100
    assert any(line.startswith("hidden for want of width:") for line in shown)


def test_one_row_too_wide_for_the_terminal_is_shown_field_by_field(filled: AuditFile) -> None:
    shown = render(on(filled, "SELECT * FROM events LIMIT 1"), "table", width=100)
    assert "  id_follows " in shown
    assert "hidden" not in shown
