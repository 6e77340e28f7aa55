"""Records -> rows: a batch and the offsets it reached are one DuckDB transaction, so a crash loses and doubles nothing.

The first committed event of an id counts; later ones are listed in `duplicates`. A record that is no event is listed
in `undecodable` and stops nothing. Rows go in as Arrow tables. Of a completed rollout its evidence is read from the artefact
store, so that its receipts are rows too; see audit.evidence. Large batches are read side by side (audit.columnar); what is
unusual in any way, and every small batch, record by record.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from bat_events.audit.columnar.columns import BOUNDARY, columns_of
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
from bat_events.audit.rows import (
    CROSSINGS,
    DUPLICATES,
    OFFSETS,
    UNDECODABLE,
    duplicate_row,
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

_LARGEST = (1 << 63) - 1

_First = tuple[str, int, int, str]


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
        quick, others = None, list(range(len(records)))
        if len(records) >= self._quick_least:
            columns, others = columns_of(records)
            quick = None if columns is None else Understood(columns)
        return self.write(connection, quick, [(number, records[number]) for number in others], crash)

    def write(
        self,
        connection: duckdb.DuckDBPyConnection,
        quick: Understood | None,
        others: Sequence[tuple[int, Record]],
        crash: CrashPoint = no_crash,
    ) -> int:
        """Write a batch of which a part was read side by side already; `others` are its other records, each with its place in
        the batch. Returns how many events are new."""
        batch = _Batch(quick, others)
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
            new, keep, duplicates = self._first_ones(connection, decoded, batch)
            typed = batch.typed(keep)
            named = evidence_of(fact for _, fact in new)
            named += [one for cls, table in typed if cls is RolloutCompleted for one in _evidence(table)]
            evidence, receipts = evidence_rows(named, self._artefact)
            if keep.any():
                _insert(connection, "events", batch.events(keep))
                for cls, rows in typed:
                    _insert(connection, typed_tables()[cls].name, rows)
            if new:
                _insert(connection, "events", event_rows(new))
                for cls, group in _by_type(new).items():
                    table = typed_tables()[cls]
                    _insert(connection, table.name, table.rows(group))
            for name, schema, listed in (
                ("duplicates", DUPLICATES, duplicates),
                ("undecodable", UNDECODABLE, undecodable),
                ("crossings", CROSSINGS, crossings),
                ("rollout_evidence", ROLLOUT_EVIDENCE, evidence),
                ("receipts", RECEIPTS, receipts),
            ):
                if listed:
                    _insert(connection, name, pa.Table.from_pylist(listed, schema=schema))
            crash("rows-written")
            self._advance(connection, batch.reached())
            crash("offsets-written")
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise
        crash("committed")
        return len(new) + int(keep.sum())

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

    def _first_ones(
        self, connection: duckdb.DuckDBPyConnection, decoded: Sequence[tuple[int, Record, Fact]], batch: "_Batch"
    ) -> tuple[list[tuple[Record, Fact]], Any, list[dict[str, Any]]]:
        """(new facts, which of the quick rows are new, rows of the duplicates among both)."""
        keep = batch.good.copy()
        known = _known(connection, batch, decoded)
        ids = [*batch.ids, *(fact.id for *_, fact in decoded)]
        if not known and len(set(ids)) == len(ids):
            return [(record, fact) for _, record, fact in decoded], keep, []
        first: dict[str, _First] = {row[0]: row[1:] for row in known}
        new, duplicates = [], []
        alone: list[tuple[int, Record | int, Fact | None]] = list(decoded)
        alone += [(place, row, None) for place, row in batch.places()]
        for _, record, fact in sorted(alone, key=lambda entry: entry[0]):
            if fact is None:
                assert isinstance(record, int)
                if self._again(first, *batch.first(record)):
                    keep[record] = False
                    said = self._decode(batch.record(record))
                    duplicates.append(duplicate_row(said, first[said.id]))
            elif self._again(first, fact.id, (fact.topic, fact.partition, fact.offset, fact.envelope.body_digest)):
                duplicates.append(duplicate_row(fact, first[fact.id]))
            else:
                assert isinstance(record, Record)
                new.append((record, fact))
        return new, keep, duplicates

    @staticmethod
    def _again(first: dict[str, _First], id_: str, place: _First) -> bool:
        """Whether an id was there before; if not, it is now."""
        return first.setdefault(id_, place) is not place

    def _advance(self, connection: duckdb.DuckDBPyConnection, reached: Mapping[Partition, int]) -> None:
        rows = [
            {"topic": topic, "partition": partition, "next_offset": offset, "updated": self._now()}
            for (topic, partition), offset in sorted(reached.items())
        ]
        _insert(connection, "offsets", pa.Table.from_pylist(rows, schema=OFFSETS), replace=True)


class _Batch:
    """A batch in two parts: what was understood side by side, and the records that are read alone."""

    def __init__(self, quick: Understood | None, others: Sequence[tuple[int, Record]]) -> None:
        self._quick, self._others = quick, others
        self.alone = list(others)
        self.good: Any = np.zeros(0, bool)
        if quick is not None:
            self.good = quick.good
            self.alone += [
                (int(quick.columns.index[row]), quick.columns.record(row)) for row in np.flatnonzero(~quick.good).tolist()
            ]
            self.alone.sort(key=lambda entry: entry[0])

    @functools.cached_property
    def ids(self) -> list[str]:
        """The ids of the good rows."""
        if self._quick is None:
            return []
        found: list[str] = self._quick.ids.filter(pa.array(self.good)).to_pylist()
        return found

    def places(self) -> Iterator[tuple[int, int]]:
        """(place in the batch, row) of the good rows."""
        if self._quick is not None:
            rows = np.flatnonzero(self.good)
            yield from zip(self._quick.columns.index[rows].tolist(), rows.tolist(), strict=True)

    def record(self, row: int) -> Record:
        """The record of a row."""
        assert self._quick is not None
        return self._quick.columns.record(row)

    def first(self, row: int) -> tuple[str, _First]:
        """(id, what is kept of the first event of an id) of a good row."""
        record = self.record(row)
        headers = dict(record.headers)
        place = (record.topic, record.partition, record.offset, headers["bat_digest"].decode())
        return headers["ce_id"].decode(), place

    def events(self, keep: Any) -> Any:
        """See Understood.events."""
        assert self._quick is not None
        return self._quick.events(np.flatnonzero(keep))

    def typed(self, keep: Any) -> list[tuple[type[Event], Any]]:
        """See Understood.typed."""
        return [] if self._quick is None or not keep.any() else self._quick.typed(keep)

    def reached(self) -> dict[Partition, int]:
        """The next offset of each partition."""
        reached: dict[Partition, int] = {}
        for _, record in self._others:
            reached[record.place] = max(record.offset + 1, reached.get(record.place, 0))
        if self._quick is not None:
            columns = self._quick.columns
            for code, topic in enumerate(columns.topics):
                mine = columns.topic == code
                for partition in np.unique(columns.partition[mine]).tolist():
                    last = int(columns.offset[mine & (columns.partition == partition)].max())
                    reached[topic, partition] = max(last + 1, reached.get((topic, partition), 0))
        return reached


def _known(
    connection: duckdb.DuckDBPyConnection, batch: _Batch, decoded: Sequence[tuple[int, Record, Fact]]
) -> list[tuple[Any, ...]]:
    """(id, topic, partition, offset, body digest) of the batch's ids that the file has already."""
    ids = pa.array([*batch.ids, *(fact.id for *_, fact in decoded)], pa.string())
    if not len(ids):
        return []
    connection.register("batch_ids", pa.table({"id": ids}))
    known = connection.execute(
        'SELECT e.id, e.topic, e."partition", e."offset", e.body_digest FROM events e SEMI JOIN batch_ids b ON e.id = b.id'
    ).fetchall()
    connection.unregister("batch_ids")
    return known


def _evidence(table: Any) -> Iterator[Evidence]:
    columns = (table.column(name).to_pylist() for name in ("id", "campaign", "rollout", "evidence"))
    yield from map(Evidence, *columns)


def offsets(connection: duckdb.DuckDBPyConnection) -> Mapping[Partition, int]:
    """The next offset to read of each partition that has rows."""
    rows = connection.execute('SELECT topic, "partition", next_offset FROM offsets').fetchall()
    return {(topic, partition): offset for topic, partition, offset in rows}


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
