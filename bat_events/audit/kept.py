"""Answers that are kept: a table beside each view that is dear to make, so that a question reads few rows and not millions.

A file of sql/kept is one SELECT. NN_NAME.sql gives the view NAME, and the table NAME_kept: what the view said when the table was
last made. A statement that reads NAME is given the table in its place while the file says that nothing was written since; so
what an answer says never depends on whether the tables were made, only how long it takes does.

The file's moment is the sum of all next offsets: every batch raises it.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import duckdb

from bat_events.audit.materialiser import offsets
from bat_events.audit.schema import KEPT, kept_selects
from bat_events.audit.shape import quote
from bat_events.log.interface import Partition

_BEGINS = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*(with\s+(?:recursive\s+)?)?", re.IGNORECASE | re.DOTALL)


def is_fresh(connection: duckdb.DuckDBPyConnection, reached: Mapping[Partition, int]) -> bool:
    """Whether nothing was written since the tables were made; `reached` are the file's offsets in the same transaction."""
    row = connection.execute("SELECT value FROM meta WHERE key = $key", {"key": KEPT}).fetchone()
    return row is not None and row[0] == _moment(reached)


def keep(connection: duckdb.DuckDBPyConnection) -> bool:
    """Make the tables anew where something was written since, in one transaction; returns whether they were."""
    connection.execute("BEGIN TRANSACTION")
    try:
        reached = offsets(connection)
        stale = not is_fresh(connection, reached)
        if stale:
            for name, select in kept_selects().items():
                connection.execute(f"CREATE OR REPLACE TABLE {name}_kept AS {from_kept(select)}")
            connection.execute(
                "INSERT OR REPLACE INTO meta VALUES ($key, $moment)", {"key": KEPT, "moment": _moment(reached)}
            )
        connection.execute("COMMIT")
        return stale
    except BaseException:
        _roll_back(connection)
        raise


@lru_cache(maxsize=256)
def from_kept(select: str) -> str:
    """The same SELECT with the kept tables in place of the views that it names: for a file that is fresh.

    They shadow the views as common table expressions, so a statement's own names and names with a schema stay what they are.
    """
    return with_names(select, ((name, f"FROM {name}_kept") for name in kept_selects()))


def with_names(select: str, meanings: Iterable[tuple[str, str]]) -> str:
    """A SELECT in which names stand for other SELECTs, unless it gives them a meaning itself."""
    found = [
        f"{name} AS NOT MATERIALIZED ({meaning})" for name, meaning in meanings if re.search(rf"\b{name}\b", select)
    ]
    if not found:
        return select
    begins = _BEGINS.match(select)
    assert begins is not None
    front = begins.group(1) or "WITH "
    return f"{front}{', '.join(found)}{', ' if begins.group(1) else ' '}{select[begins.end() :]}"


def odd_rows(name: str, columns: Iterable[tuple[str, str]]) -> str:
    """A SELECT of how many rows of a kept table do not follow from the other tables, or lack; 0 where it is not fresh.

    `columns` are its (name, type). What it is made of is read from kept tables too, so all must be asked. Sums of doubles depend
    on their order: seven digits are compared, of a product that is no short decimal, which would lie between two roundings.
    """
    shown = ", ".join(
        f"format('{{:.6e}}', {quote(column)} * 1.2345678912345)" if type_ == "DOUBLE" else quote(column)
        for column, type_ in columns
    )
    made = f"SELECT {shown} FROM ({from_kept(kept_selects()[name])})"
    kept = f"SELECT {shown} FROM {name}_kept"
    return (
        f"SELECT count(*) FROM (({kept} EXCEPT ALL {made}) UNION ALL ({made} EXCEPT ALL {kept})) "
        f"WHERE (SELECT value FROM meta WHERE key = '{KEPT}') = (SELECT sum(next_offset)::VARCHAR FROM offsets)"
    )


def _moment(reached: Mapping[Partition, int]) -> str:
    return str(sum(reached.values()))


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    try:
        connection.execute("ROLLBACK")
    except duckdb.Error:  # the failure already ended the transaction
        return
