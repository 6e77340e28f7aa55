"""Records -> rows: a batch and the offsets it reached are one DuckDB transaction, so a crash loses and doubles nothing.

The first committed event of an id counts; later ones are listed in `duplicates`. A record that is no event is listed
in `undecodable` and stops nothing. Rows go in as Arrow tables. Of a completed rollout its evidence is read from the artefact
store, so that its receipts are rows too; see audit.evidence. Large batches are read side by side (audit.columnar); what is
unusual in any way, and every small batch, record by record.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa

from bat_events.audit.columnar.columns import BOUNDARY, columns_of
from bat_events.audit.columnar.prepared import Prepared, merged, prepared
from bat_events.audit.columnar.understand import Understood
from bat_events.audit.crossings import crossing_rows
from bat_events.audit.evidence import (
    RECEIPTS,
    ROLLOUT_EVIDENCE,
    Evidence,
    ReadArtefact,
    evidence_of,
    evidence_rows,
)
from bat_events.audit.firsts import first_ones
from bat_events.audit.rows import (
    CROSSINGS,
    DUPLICATES,
    OFFSETS,
    UNDECODABLE,
    event_rows,
    undecodable_row,
)
from bat_events.audit.shape import typed_tables
from bat_events.codec import Codec, Fact
from bat_events.errors import BadEnvelope, UnknownSchema
from bat_events.events.base import Event
from bat_events.events.rollouts import RolloutCompleted
from bat_events.log.access import BY_PRINCIPAL
from bat_events.log.interface import CrashPoint, Partition, Record
from bat_events.service.runtime import no_crash

AUDITED: tuple[str, ...] = BY_PRINCIPAL["auditor"].reads
"""What the training plane's audit reads: everything but the held-out cells."""

HELDOUT_AUDITED: tuple[str, ...] = BY_PRINCIPAL["heldout-auditor"].reads
"""What the held-out plane's audit reads: its own topics, what crossed, and what was asked for."""

QUICK_LEAST = 256
"""Records of a batch from which reading them side by side pays."""

PORTION_BYTES = 24 << 20
"""Bodies that are read side by side at once, in bytes."""

_LARGEST = (1 << 63) - 1


class Materialiser:
    """See the module. `relearn` fetches schemas that were published since; it is called when one is unknown.

    `artefact` reads the training plane's store; without it the receipts of rollouts are unread. Batches of at least
    `quick_least` records are read side by side.
    """

    def __init__(
        self,
        *,
        codec: Codec,
        now: Callable[[], datetime],
        relearn: Callable[[], None] | None = None,
        artefact: ReadArtefact | None = None,
        quick_least: int = QUICK_LEAST,
    ) -> None:
        self._quick_least = quick_least
        self._codec, self._now, self._relearn, self._artefact = codec, now, relearn, artefact

    def take(
        self, connection: duckdb.DuckDBPyConnection, records: Sequence[Record], crash: CrashPoint = no_crash
    ) -> int:
        """Write a batch (each partition in order, none of it written before); returns how many events are new."""
        return self.write(connection, self.prepare(records), crash)

    def prepare(self, records: Sequence[Record]) -> Prepared:
        """Read a batch without writing it: side by side where it is large."""
        if len(records) < self._quick_least:
            return prepared(None, list(enumerate(records)))
        return merged([self._side_by_side(portion) for portion in _portions(records)])

    @staticmethod
    def _side_by_side(records: Sequence[Record]) -> Prepared:
        columns, others = columns_of(records)
        understood = None if columns is None else Understood(columns)
        return prepared(understood, [(number, records[number]) for number in others])

    def write(self, connection: duckdb.DuckDBPyConnection, batch: Prepared, crash: CrashPoint = no_crash) -> int:
        """Write a batch; the records that are left in it are decoded here. Returns how many events are new."""
        decoded, undecodable = self._decode_all(batch.alone)
        facts = {(r.topic, r.partition, r.offset): fact for _, r, fact in decoded}
        crossings = [
            row
            for _, record in batch.alone
            if record.topic in BOUNDARY
            for row in crossing_rows(record, facts.get((record.topic, record.partition, record.offset)))
        ]
        connection.execute("BEGIN TRANSACTION")
        try:
            batch, new, duplicates = first_ones(connection, batch, decoded)
            named = evidence_of(fact for _, fact in new)
            named += [one for part in batch.typed if part.cls is RolloutCompleted for one in _evidence(part.rows)]
            evidence, receipts = evidence_rows(named, self._artefact)
            if len(batch.order):
                _insert(connection, "events", batch.events)
                for part in batch.typed:
                    _insert(connection, typed_tables()[part.cls].name, part.rows)
            if new:
                _insert(connection, "events", event_rows(new))
                for cls, group in _by_type(new).items():
                    table = typed_tables()[cls]
                    _insert(connection, table.name, table.rows(group))
            for name, schema, rows in (
                ("duplicates", DUPLICATES, duplicates),
                ("undecodable", UNDECODABLE, undecodable),
                ("crossings", CROSSINGS, crossings),
                ("rollout_evidence", ROLLOUT_EVIDENCE, evidence),
                ("receipts", RECEIPTS, receipts),
            ):
                if rows:
                    _insert(connection, name, pa.Table.from_pylist(rows, schema=schema))
            crash("rows-written")
            self._advance(connection, batch.reached)
            crash("offsets-written")
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise
        crash("committed")
        return len(new) + len(batch.order)

    def _decode_all(
        self, alone: Sequence[tuple[int, Record]]
    ) -> tuple[list[tuple[int, Record, Fact]], list[dict[str, Any]]]:
        decoded, undecodable, relearned = [], [], False
        for place, record in alone:
            try:
                try:
                    fact = self._decode(record)
                except UnknownSchema:
                    if self._relearn is None or relearned:
                        raise
                    self._relearn()
                    relearned = True
                    fact = self._decode(record)
                decoded.append((place, record, fact))
            except Exception as error:  # noqa: BLE001  (whatever one record does, the audit must go on and show it)
                undecodable.append(undecodable_row(record, error))
        return decoded, undecodable

    def _decode(self, record: Record) -> Fact:
        fact = self._codec.decode(record)
        cost = fact.envelope.cost
        numbers = [fact.envelope.ordinal, fact.envelope.round, *(vars(cost).values() if cost else ())]
        if any(isinstance(number, int | float) and number > _LARGEST for number in numbers):
            where = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
            raise BadEnvelope("a number of its headers has more than 63 bits", **where)  # type: ignore[arg-type]
        return fact

    def _advance(self, connection: duckdb.DuckDBPyConnection, reached: Mapping[Partition, int]) -> None:
        rows = [
            {"topic": topic, "partition": partition, "next_offset": offset, "updated": self._now()}
            for (topic, partition), offset in sorted(reached.items())
        ]
        _insert(connection, "offsets", pa.Table.from_pylist(rows, schema=OFFSETS), replace=True)


def _evidence(table: Any) -> Iterator[Evidence]:
    columns = (table.column(name).to_pylist() for name in ("id", "campaign", "rollout", "evidence"))
    yield from map(Evidence, *columns)


def offsets(connection: duckdb.DuckDBPyConnection) -> Mapping[Partition, int]:
    """The next offset to read of each partition that has rows."""
    rows = connection.execute('SELECT topic, "partition", next_offset FROM offsets').fetchall()
    return {(topic, partition): offset for topic, partition, offset in rows}


def _portions(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """The records in portions of few bytes: reading side by side copies them."""
    begin = size = 0
    for number, record in enumerate(records):
        size += len(record.value)
        if size >= PORTION_BYTES:
            yield records[begin : number + 1]
            begin, size = number + 1, 0
    if begin < len(records):
        yield records[begin:]


def _by_type(pairs: Sequence[tuple[Record, Fact]]) -> dict[type[Event], list[Fact]]:
    groups: dict[type[Event], list[Fact]] = {}
    for _, fact in pairs:
        groups.setdefault(type(fact.event), []).append(fact)
    return groups


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: Any, *, replace: bool = False) -> None:
    connection.register("batch", rows)
    try:
        connection.execute(f"INSERT {'OR REPLACE ' if replace else ''}INTO {table} SELECT * FROM batch")
    finally:
        connection.unregister("batch")


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    try:
        connection.execute("ROLLBACK")
    except duckdb.Error:  # the failure already ended the transaction
        return
