"""Two audit files, table by table: the same rows up to the same offsets, or the place of the first that differs.

Every row's content is hashed (SHA-256 of its JSON), rows are taken in the log's order, and a table's digest is that of its
blocks' digests. Rows that belong to no record are part of it, so nothing can be hidden beside the log. Of `offsets` the
clock is left out: it is the only column that does not follow from log and artefacts.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bat_events.audit.errors import AuditError
from bat_events.audit.shape import quote, text, typed_tables
from bat_events.log.interface import Partition

Select = Callable[[str], Sequence[Sequence[Any]]]
"""Runs a SELECT; raises AuditError."""

_BLOCK = 8192
_MOST_BLOCKS = 8000
_LARGE = 50_000
"""Rows of a table that is asked for alone."""

_BY_PLACE = ("events", "duplicates", "undecodable", "crossings")
_BY_EVENT = {"rollout_evidence": "event", "receipts": "event"}
NO_PLACE = "no record"


@dataclass(frozen=True, kw_only=True)
class TableComparison:
    """One table: rows and digest on both sides, and where the first difference is (None: there is none)."""

    table: str
    rows_live: int | None
    rows_new: int
    digest_live: str | None
    digest_new: str
    first: str | None

    @property
    def equal(self) -> bool:
        """Whether both hold the same."""
        return self.digest_live == self.digest_new


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All tables, up to `cut`."""

    cut: Mapping[Partition, int]
    tables: tuple[TableComparison, ...]

    @property
    def different(self) -> tuple[TableComparison, ...]:
        """The tables that differ."""
        return tuple(table for table in self.tables if not table.equal)

    def digest(self) -> str:
        """One digest of everything on the new side."""
        lines = "\n".join(f"{table.table} {table.digest_new}" for table in self.tables)
        return hashlib.sha256(lines.encode()).hexdigest()


def compare(live: Select, new: Select, cut: Mapping[Partition, int]) -> Comparison:
    """Compare everything up to `cut` (next offset of each partition of either file). Raises AuditError of `new`."""
    found = [_definitions(live, new)]
    for names in _groups(live, new):
        found += _tables(names, live, new, cut)
    return Comparison(cut=cut, tables=tuple(found))


def _groups(live: Select, new: Select) -> list[list[str]]:
    """Which tables are asked for together: small ones, because every question has its price. Tables that never held a row on
    either side are left out."""
    asked = "SELECT table_name, estimated_size FROM duckdb_tables()"
    there, _ = _try(live, asked)
    sizes: dict[str, int] = {str(name): size for name, size in new(asked)}
    live_sizes: dict[str, int] = {str(name): size for name, size in there or ()}
    names = [*_BY_PLACE, *_BY_EVENT, *(table.name for table in typed_tables().values())]
    filled = [name for name in names if sizes[name] or live_sizes.get(name, 1)]
    small = [name for name in filled if sizes[name] <= _LARGE]
    return [*([small] if small else []), *([name] for name in filled if sizes[name] > _LARGE)]


def common_cut(live: Mapping[Partition, int], new: Mapping[Partition, int]) -> dict[Partition, int]:
    """How far both files know each partition."""
    return {where: min(live.get(where, 0), new.get(where, 0)) for where in sorted({*live, *new})}


def _definitions(live: Select, new: Select) -> TableComparison:
    """Tables and views as they are defined, and what made the file."""
    asked = (
        "SELECT 'table', table_name, sql FROM duckdb_tables() WHERE NOT internal UNION ALL "
        "SELECT 'view', view_name, sql FROM duckdb_views() WHERE NOT internal UNION ALL "
        "SELECT 'meta', key, value FROM meta WHERE key NOT IN ('rebuild', 'kept') ORDER BY ALL"
    )
    there, problem = _try(live, asked)
    here = [tuple(row) for row in new(asked)]
    first = problem
    if there is not None and there != here:
        odd = sorted({*there} ^ {*here})
        first = f"{odd[0][0]} {odd[0][1]}" if odd else "their order"
    return TableComparison(
        table="definitions",
        rows_live=None if there is None else len(there),
        rows_new=len(here),
        digest_live=None if there is None else _digest(there),
        digest_new=_digest(here),
        first=first,
    )


def _tables(names: Sequence[str], live: Select, new: Select, cut: Mapping[Partition, int]) -> list[TableComparison]:
    size = max(_BLOCK, sum(cut.values()) // _MOST_BLOCKS)
    sql = " UNION ALL ".join(f"({_blocks(name, cut, size)})" for name in names) + " ORDER BY ALL"
    there, problem = _try(live, sql)
    if there is None and len(names) > 1:  # which of them is it?
        return [one for name in names for one in _tables([name], live, new, cut)]
    here = [tuple(row) for row in new(sql)]
    found = []
    for name in names:
        first = problem
        mine = [row[1:] for row in here if row[0] == name]
        theirs = None if there is None else [row[1:] for row in there if row[0] == name]
        if theirs is not None and theirs != mine:
            first = _first(name, live, new, cut, sorted({*theirs} ^ {*mine})[0])
        found.append(
            TableComparison(
                table=name,
                rows_live=None if theirs is None else sum(row[3] for row in theirs),
                rows_new=sum(row[3] for row in mine),
                digest_live=None if theirs is None else _digest(theirs),
                digest_new=_digest(mine),
                first=first,
            )
        )
    return found


def _first(name: str, live: Select, new: Select, cut: Mapping[Partition, int], block: tuple[Any, ...]) -> str:
    """Where in a block of rows the first difference is: smaller and smaller blocks."""
    topic, partition, number, _, _, size = block
    if topic == NO_PLACE:
        return "rows that belong to no record of the log"
    while size > 1:
        low, high, size = number * size, (number + 1) * size, max(1, size // 4096)
        sql = _blocks(name, cut, size, (topic, partition, low, high))
        there, problem = _try(live, sql)
        if there is None:
            return str(problem)
        odd = sorted({*there} ^ {tuple(row) for row in new(sql)})
        if not odd:
            return f"{topic}[{partition}] from {low} on, changed while it was looked at"
        number = odd[0][3]
    return f"{topic}[{partition}]@{number}"


def _blocks(name: str, cut: Mapping[Partition, int], size: int, within: tuple[str, int, int, int] | None = None) -> str:
    """A SELECT of (table, topic, partition, number of block, rows, digest of their contents in order, offsets in a block)."""
    values = ", ".join(f"({text(topic)}, {number}, {offset})" for (topic, number), offset in sorted(cut.items()))
    known = values or "('', -1, 0)"
    if name in _BY_PLACE:
        placed = f'SELECT t.topic, t."partition" AS number, t."offset" AS place, {_HASH} FROM {quote(name)} t'
    else:
        key = _BY_EVENT.get(name, "id")
        placed = (
            f'SELECT e.topic, e."partition" AS number, e."offset" AS place, {_HASH} '
            f"FROM {quote(name)} t LEFT JOIN events e ON e.id = t.{quote(key)}"
        )
    part = ""
    if within is not None:
        topic, partition, low, high = within
        part = f" AND p.topic = {text(topic)} AND p.number = {partition} AND p.place >= {low} AND p.place < {high}"
    return (
        f"WITH cut(topic, number, ending) AS (VALUES {known}), placed AS ({placed}) "
        f"SELECT {text(name)} AS tab, coalesce(p.topic, '{NO_PLACE}') AS t, coalesce(p.number, -1) AS n, "
        f"coalesce(p.place, 0) // {size} AS block, count(*) AS rows, "
        f"sha256(string_agg(p.hash, '' ORDER BY p.place, p.hash)) AS digest, {size} AS size "
        "FROM placed p LEFT JOIN cut c ON c.topic = p.topic AND c.number = p.number "
        f"WHERE (c.ending IS NULL OR p.place < c.ending){part} GROUP BY ALL"
    )


_HASH = "sha256(to_json(t)::VARCHAR) AS hash"


def _try(select: Select, sql: str) -> tuple[list[tuple[Any, ...]] | None, str | None]:
    try:
        return [tuple(row) for row in select(sql)], None
    except AuditError as error:
        return None, f"cannot be read: {error}"


def _digest(rows: Sequence[tuple[Any, ...]]) -> str:
    return hashlib.sha256(repr(rows).encode()).hexdigest()
