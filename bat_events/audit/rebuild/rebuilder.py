"""Builds a new audit file beside the live one, holds them against each other, and puts the new one in its place.

1. NAME.new.duckdb is filled from the source, and its kept tables are made; what a killed rebuild left there is removed first.
2. Both files are compared, up to the offsets that both know.
3. The new file gets a mark and is closed. A running auditor is asked to take it over: it goes on writing into it until it
   knows as much as the file that answers, then renames it. Where none runs, it is renamed here.

Killed at any moment, the live file is the old one or the new one, whole; two rebuilds of a namespace exclude each other.
"""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from bat_events.audit.client import ask, take_over
from bat_events.audit.columnar.archive import ColumnBatch
from bat_events.audit.columnar.prepared import Prepared, merged, prepared
from bat_events.audit.columnar.understand import Understood
from bat_events.audit.errors import AuditBusy, AuditError, NoAuditFile, QueryFailed
from bat_events.audit.file import MARK, AuditFile, open_to_settle
from bat_events.audit.hold import Hold
from bat_events.audit.kept import keep, odd_rows
from bat_events.audit.materialiser import Materialiser
from bat_events.audit.places import audit_path, lock_path, new_path, next_path, put_in_place, remove, wal
from bat_events.audit.query import QueryLimits
from bat_events.audit.rebuild.ahead import ahead
from bat_events.audit.rebuild.compare import Comparison, common_cut, compare
from bat_events.audit.rebuild.sources import RecordSource
from bat_events.audit.schema import kept_selects
from bat_events.events.envelope import Cut
from bat_events.log.interface import CrashPoint, Partition
from bat_events.service.runtime import no_crash

BATCH = 245_760
"""Records from which on a transaction is made: two of DuckDB's row groups, so that each of its two threads writes whole ones,
once and in their place. A third of that costs twice the time."""

_AHEAD = 1
"""Batches that wait while one is written and the next one is read."""

_PART = 16_384
"""Records that are read at once at most, where they are records."""

_SAY_EVERY_S = 2.0
_LIMITS = QueryLimits(rows=10_000, seconds=600.0)
_TAKE_OVER_S = 660.0
_PLACE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """What a rebuild found and did.

    `comparison` is None where there was nothing to compare with, and then `uncompared` says why. `faults` are what the live file
    says of itself that cannot be. `placed_by` is auditor or rebuild; None where only a comparison was asked for.
    """

    records: int
    seconds: float
    comparison: Comparison | None
    uncompared: str | None
    faults: tuple[str, ...]
    placed_by: str | None

    @property
    def same(self) -> bool:
        """Whether the live file was there and held exactly what follows from the source."""
        return self.comparison is not None and not self.comparison.different and not self.faults


def read_batches(
    source: RecordSource, materialiser: Materialiser, tell: Callable[[int], None] = lambda _: None
) -> Iterator[Prepared]:
    """Every batch of a source, read; small ones go together. `tell` is called with the number of records that were just read."""
    parts: list[Prepared] = []
    for batch in source.batches(_PART):
        tell(len(batch))
        if isinstance(batch, ColumnBatch):
            parts.append(prepared(None if batch.columns is None else Understood(batch.columns), batch.others))
        else:
            parts.append(materialiser.prepare(batch))
        if sum(part.records for part in parts) >= BATCH:
            yield merged(parts)
            parts = []
    if parts:
        yield merged(parts)


class _Progress:
    """Says how far reading is, now and then."""

    def __init__(self, total: int, say: Callable[[str], None]) -> None:
        self._total, self._say, self._done = total, say, 0
        self._began = self._told = time.monotonic()

    def tell(self, records: int) -> None:
        """So many more were read."""
        self._done += records
        now = time.monotonic()
        if now - self._told > _SAY_EVERY_S:
            self._told = now
            share = min(100, 100 * self._done // max(self._total, 1))
            rate = self._done / (now - self._began)
            self._say(f"{self._done:,} of about {self._total:,} records read ({share} %), {rate:,.0f} a second")


class Rebuilder:
    """See the module. `home` is BAT_HOME, or `heldout_home` of it. Raises AuditBusy where another rebuild runs."""

    def __init__(
        self,
        *,
        home: Path,
        namespace: str,
        source: RecordSource,
        materialiser: Materialiser,
        say: Callable[[str], None] = lambda _: None,
        crash: CrashPoint = no_crash,
    ) -> None:
        self._home, self._namespace, self._source = home, namespace, source
        self._materialiser, self._say, self._crash = materialiser, say, crash
        self._live = audit_path(home, namespace)
        self._new = new_path(self._live)

    def run(self, *, check_only: bool = False) -> Rebuilt:
        """All of it. With `check_only` the live file stays and the new one is removed. Raises AuditError or LogError."""
        hold = Hold(self._live.with_suffix(".rebuild.lock"), f"another rebuild of {self._live} is running")
        try:
            remove(self._new)
            return self._run(check_only)
        except duckdb.Error as error:
            raise AuditError(f"{self._new}: {error}") from error
        finally:
            remove(self._new)  # an auditor that took it over has renamed it
            hold.release()

    def _run(self, check_only: bool) -> Rebuilt:
        began = time.monotonic()
        file = AuditFile(self._new, self._namespace, lock=False)
        try:
            self._crash("begun")
            records = self._fill(file)
            self._keep(file)
            seconds = time.monotonic() - began
            self._crash("filled")
            comparison, uncompared, faults = self._check(file)
            self._crash("compared")
            mark = secrets.token_hex(16)
            file.writer.execute("INSERT INTO meta VALUES ($key, $mark)", {"key": MARK, "mark": mark})
            file.writer.execute("CHECKPOINT")
        finally:
            file.close()
        self._crash("closed")
        placed = None if check_only else self._place(mark)
        self._crash("placed")
        if placed is not None and comparison is not None and comparison.different:
            self._confirm(comparison)
        return Rebuilt(
            records=records,
            seconds=seconds,
            comparison=comparison,
            uncompared=uncompared,
            faults=faults,
            placed_by=placed,
        )

    # -- filling

    def _fill(self, file: AuditFile) -> int:
        progress = _Progress(self._source.total, self._say)
        done, began = 0, time.monotonic()
        for batch in ahead(read_batches(self._source, self._materialiser, progress.tell), _AHEAD):
            self._materialiser.write(file.writer, batch)
            done += batch.records
            self._crash("batch")
        self._say(f"{done:,} records of the {self._source.name} in {time.monotonic() - began:,.1f} s")
        return done

    def _keep(self, file: AuditFile) -> None:
        began = time.monotonic()
        keep(file.writer)
        self._say(f"kept tables made in {time.monotonic() - began:,.1f} s")

    # -- comparing

    def _check(self, file: AuditFile) -> tuple[Comparison | None, str | None, tuple[str, ...]]:
        reached = file.offsets()
        try:
            as_of, faults = self._live_state()
            known = {(topic, number): offset for topic, parts in as_of.items() for number, offset in parts.items()}
        except NoAuditFile:
            return None, "there was no live file", ()
        except AuditBusy:
            raise
        except AuditError as error:
            return None, f"the live file cannot be asked: {error}", ()
        faults += self._beyond(known, reached)
        self._say("comparing every table with the live file")

        def new(sql: str) -> Sequence[Sequence[Any]]:
            with file.cursor() as cursor:
                return cursor.execute(sql).fetchall()

        comparison = compare(self._select, new, common_cut(known, reached))
        faults += self._kept_faults(new, {table.table for table in comparison.different})
        return comparison, None, tuple(faults)

    def _kept_faults(self, new: Callable[[str], Sequence[Sequence[Any]]], different: set[str]) -> list[str]:
        """Kept tables of the live file that do not say what follows from its other ones; of a file with other definitions none
        is asked for."""
        if "definitions" in different:
            return []
        faults = []
        for name in kept_selects():
            columns = [(column, type_) for column, type_, *_ in new(f"DESCRIBE {name}_kept")]
            odd = self._select(odd_rows(name, columns))[0][0]
            if odd:
                faults.append(f"{odd} rows of what is kept of {name} do not follow from its other tables")
        return faults

    def _select(self, sql: str) -> Sequence[Sequence[Any]]:
        result = ask(self._home, self._namespace, sql, {}, _LIMITS)
        if result.truncated:
            raise QueryFailed("the live file has more blocks of rows than it can have")
        return result.rows

    def _live_state(self) -> tuple[Cut, list[str]]:
        """The live file's offsets, and rows of it that lie beyond them."""
        result = ask(self._home, self._namespace, _BEYOND, {}, _LIMITS)
        return result.as_of, [
            f"rows of {topic}[{number}] up to {last}, though it says that it was read to {offset}"
            for topic, number, last, offset in result.rows
        ]

    def _beyond(self, known: dict[Partition, int], reached: dict[Partition, int]) -> list[str]:
        """Partitions of which the live file says that it knows more than there is now."""
        ahead = {where for where, offset in known.items() if offset > reached.get(where, 0)}
        ends = self._source.ends_now() if ahead else {}
        return [
            f"{topic}[{number}]: it says that it was read to {known[topic, number]}, where the {self._source.name} "
            f"ends at {ends.get((topic, number), 0)}"
            for topic, number in sorted(ahead)
            if known[topic, number] > ends.get((topic, number), 0)
        ]

    def _confirm(self, before: Comparison) -> None:
        """The live file now holds, up to the same offsets, what the new one held."""
        wanted = {table.table: table.digest_new for table in before.tables}
        again = compare(self._select, self._select, before.cut)
        wrong = [table.table for table in again.tables if table.digest_new != wanted[table.table]]
        if wrong:
            raise AuditError(f"after the swap {', '.join(wrong)} differ from what was built: run the rebuild again")

    # -- putting in place

    def _place(self, mark: str) -> str:
        deadline = time.monotonic() + _PLACE_S
        while True:
            try:
                if take_over(self._home, self._namespace, mark, _TAKE_OVER_S):
                    return "auditor"
                hold = Hold(lock_path(self._live), f"an auditor holds {self._live}, but does not answer")
            except AuditError as error:
                if self._is_in_place(mark):  # it went away before it could say so
                    return "auditor"
                if not self._new.exists() or not isinstance(error, AuditBusy) or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)  # one starts, or stops
                continue
            try:
                self._rename()
            finally:
                hold.release()
            return "rebuild"

    def _rename(self) -> None:
        remove(next_path(self._live))
        if wal(
            self._live
        ).exists():  # of an auditor that was killed: who asks until the rename gets all that it committed
            with contextlib.suppress(duckdb.Error):
                open_to_settle(self._live)
        put_in_place(self._new, self._live)
        remove(self._live.with_suffix(".rebuild.duckdb"))

    def _is_in_place(self, mark: str) -> bool:
        try:
            result = ask(self._home, self._namespace, f"SELECT value FROM meta WHERE key = '{MARK}'", {}, _LIMITS)
        except AuditError:
            return False
        return result.rows == ((mark,),)


_BEYOND = """
WITH placed AS (
    SELECT topic, "partition" AS number, max("offset") AS last FROM (
        SELECT topic, "partition", "offset" FROM events
        UNION ALL SELECT topic, "partition", "offset" FROM duplicates
        UNION ALL SELECT topic, "partition", "offset" FROM undecodable
        UNION ALL SELECT topic, "partition", "offset" FROM crossings
    ) GROUP BY ALL
)
SELECT p.topic, p.number, p.last, coalesce(o.next_offset, 0) AS reached
FROM placed p LEFT JOIN offsets o ON o.topic = p.topic AND o."partition" = p.number
WHERE p.last >= coalesce(o.next_offset, 0) ORDER BY ALL
"""
