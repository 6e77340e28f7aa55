"""Runs one SELECT under limits. Three walls, because one is not enough:

1. the parser must see exactly one SELECT, and no table function but a few harmless ones
2. it runs in a read-only transaction (a SELECT may hold a DELETE in its WITH clause)
3. the connection has no access to files, extensions or settings (see audit.file)
The offsets are read in the same transaction, so they say exactly what the rows were made from. Where the file's kept tables are
fresh they are read in place of their views (see audit.kept).
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import duckdb

from bat_events.audit.errors import QueryFailed, QueryRefused, QueryTimeout
from bat_events.audit.file import first_line
from bat_events.audit.kept import from_kept, is_fresh
from bat_events.audit.materialiser import offsets
from bat_events.audit.result import Result, plain, plain_rows
from bat_events.events.envelope import Cut
from bat_events.log.interface import Partition

TABLE_FUNCTIONS = frozenset(
    {
        "unnest",
        "range",
        "generate_series",
        "json_each",
        "json_tree",
        "duckdb_tables",
        "duckdb_columns",
        "duckdb_views",
    }
)
_MAX_SQL = 100_000


@dataclass(frozen=True, kw_only=True)
class QueryLimits:
    """What one query may take."""

    rows: int = 10_000
    seconds: float = 30.0


def parameters_of(sql: str) -> frozenset[str]:
    """The names of a statement's `$name` parameters. Raises QueryRefused where it is not one SELECT."""
    return frozenset(_one_select(sql).named_parameters)


@lru_cache(maxsize=256)
def check(sql: str) -> bool:
    """Raises QueryRefused unless this is one SELECT that reads the audit's tables only; returns whether it limits its rows.

    A text that passed is not parsed again: taking it apart costs more than most answers.
    """
    statement = _one_select(sql)
    with _parser().cursor() as parser:
        serialised = parser.execute("SELECT json_serialize_sql($sql)", {"sql": statement.query}).fetchone()
    try:
        tree = json.loads(serialised[0] if serialised else "null")
    except RecursionError:
        raise QueryRefused("the statement is nested too deeply") from None
    if not isinstance(tree, dict) or tree.get("error"):
        raise QueryRefused(f"not a plain SELECT: {tree.get('error_message') if tree else 'it cannot be taken apart'}")
    foreign = sorted(_table_functions(tree) - TABLE_FUNCTIONS)
    if foreign:
        raise QueryRefused(
            f"table function {', '.join(foreign)} is not allowed: read the audit's tables and views "
            f"(allowed: {', '.join(sorted(TABLE_FUNCTIONS))})"
        )
    return any("LIMIT" in modifier["type"] for modifier in tree["statements"][0]["node"].get("modifiers", []))


@lru_cache(maxsize=256)
def _as_run(sql: str, fresh: bool, rows: int) -> str:
    """The statement as it is run: on kept tables where they are fresh, and with its limit: sorting the first rows is less.

    As it was given where it cannot be told so.
    """
    limited = check(sql)
    told = from_kept(sql) if fresh else sql
    if not limited:
        told = f"{told.rstrip().removesuffix(';')}\nLIMIT {rows}"
    try:
        check(told)
    except QueryRefused:
        return sql
    return told


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    """A database without anything in it, that takes statements apart: opening one for each would cost more than the rest."""
    return duckdb.connect(":memory:")


def _one_select(sql: str) -> duckdb.Statement:
    if len(sql) > _MAX_SQL:
        raise QueryRefused(f"the statement has {len(sql)} characters; {_MAX_SQL} are allowed")
    try:
        with _parser().cursor() as parser:
            statements = parser.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryRefused(f"no SQL: {error}") from None
    if len(statements) != 1:
        raise QueryRefused(f"one SELECT at a time, this is {len(statements)} statements")
    if statements[0].type != duckdb.StatementType.SELECT:
        raise QueryRefused(f"only SELECT may run here, this is {statements[0].type.name}")
    return statements[0]


def _table_functions(tree: Any) -> set[str]:
    found: set[str] = set()
    open_nodes = [tree]
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, dict):
            if node.get("type") == "TABLE_FUNCTION":
                found.add(str(node.get("function", {}).get("function_name")).lower())
            open_nodes.extend(node.values())
        elif isinstance(node, list):
            open_nodes.extend(node)
    return found


def answer(
    cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, str | None], limits: QueryLimits, source: str
) -> Result:
    """Check and run a statement. Raises QueryRefused, QueryFailed (DuckDB's words) or QueryTimeout."""
    check(sql)
    late = threading.Event()

    def interrupt() -> None:
        late.set()
        cursor.interrupt()

    cursor.execute("BEGIN TRANSACTION READ ONLY")
    timer = threading.Timer(limits.seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        reached = offsets(cursor)
        as_of, newest = _as_of(cursor, reached)
        told = _as_run(sql, is_fresh(cursor, reached), limits.rows + 1)
        cursor.execute(f"SET VARIABLE most_rows = {limits.rows + 1}")
        cursor.execute(told, dict(parameters)) if parameters else cursor.execute(told)
        description = cursor.description or []
        rows = cursor.fetchmany(limits.rows + 1)
    except duckdb.Error as error:
        if late.is_set():
            raise QueryTimeout(f"no answer within {limits.seconds:g} s: narrow the question") from None
        raise QueryFailed(str(error)) from error
    finally:
        timer.cancel()
        _end(cursor)
    types = tuple(str(column[1]) for column in description)
    return Result(
        columns=tuple(column[0] for column in description),
        types=types,
        rows=plain_rows(types, rows[: limits.rows]),
        as_of=as_of,
        newest=newest,
        truncated=len(rows) > limits.rows,
        source=source,
    )


def _as_of(cursor: duckdb.DuckDBPyConnection, reached: Mapping[Partition, int]) -> tuple[Cut, str | None]:
    cut: Cut = {}
    for (topic, partition), offset in sorted(reached.items()):
        cut.setdefault(topic, {})[partition] = offset
    row = cursor.execute("SELECT max(updated) FROM offsets").fetchone()
    return cut, plain(row[0]) if row else None


def _end(cursor: duckdb.DuckDBPyConnection) -> None:
    try:
        cursor.execute("ROLLBACK")
    except duckdb.Error as error:
        if "no transaction is active" not in str(error) and "Interrupt" not in str(error):
            raise QueryFailed(first_line(error)) from error
