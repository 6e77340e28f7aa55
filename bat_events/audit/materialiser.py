"""Records -> rows: a batch and the offsets it reached are one DuckDB transaction, so a crash loses and doubles nothing.

The first committed event of an id counts; later ones are listed in `duplicates`. A record that is no event is listed
in `undecodable` and stops nothing. Rows go in as Arrow tables. Of a completed rollout its evidence is read from the artefact
store, so that its receipts are rows too; see audit.evidence.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa

from bat_events.audit.crossings import crossing_rows
from bat_events.audit.evidence import RECEIPTS, ROLLOUT_EVIDENCE, ReadArtefact, evidence_rows
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
from bat_events.log.access import BY_PRINCIPAL
from bat_events.log.interface import CrashPoint, Partition, Record
from bat_events.log.topics import TOPICS
from bat_events.service.runtime import no_crash

AUDITED: tuple[str, ...] = BY_PRINCIPAL["auditor"].reads
"""What the training plane's audit reads: everything but the held-out cells."""

HELDOUT_AUDITED: tuple[str, ...] = BY_PRINCIPAL["heldout-auditor"].reads
"""What the held-out plane's audit reads: its own topics, what crossed, and what was asked for."""

BOUNDARY = frozenset(spec.name for spec in TOPICS if spec.plane == "boundary")
_LARGEST = (1 << 63) - 1

_First = tuple[str, int, int, str]


class Materialiser:
    """See the module. `relearn` fetches schemas that were published since; it is called when one is unknown.

    `artefact` reads the training plane's store; without it the receipts of rollouts are unread.
    """

    def __init__(
        self,
        *,
        codec: Codec,
        now: Callable[[], datetime],
        relearn: Callable[[], None] | None = None,
        artefact: ReadArtefact | None = None,
    ) -> None:
        self._codec, self._now, self._relearn, self._artefact = codec, now, relearn, artefact

    def take(
        self, connection: duckdb.DuckDBPyConnection, records: Sequence[Record], crash: CrashPoint = no_crash
    ) -> int:
        """Write a batch (each partition in order, none of it written before); returns how many events are new."""
        decoded, undecodable = self._decode_all(records)
        facts = {(r.topic, r.partition, r.offset): fact for r, fact in decoded}
        crossings = [
            row
            for record in records
            if record.topic in BOUNDARY
            for row in crossing_rows(record, facts.get((record.topic, record.partition, record.offset)))
        ]
        connection.execute("BEGIN TRANSACTION")
        try:
            new, duplicates = self._first_ones(connection, decoded)
            evidence, receipts = evidence_rows([fact for _, fact in new], self._artefact)
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
            self._advance(connection, records)
            crash("offsets-written")
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise
        crash("committed")
        return len(new)

    def _decode_all(self, records: Sequence[Record]) -> tuple[list[tuple[Record, Fact]], list[dict[str, Any]]]:
        decoded, undecodable, relearned = [], [], False
        for record in records:
            try:
                try:
                    fact = self._decode(record)
                except UnknownSchema:
                    if self._relearn is None or relearned:
                        raise
                    self._relearn()
                    relearned = True
                    fact = self._decode(record)
                decoded.append((record, fact))
            except Exception as error:  # noqa: BLE001  (whatever one record does, the audit must go on and show it)
                undecodable.append(undecodable_row(record, error))
        return decoded, undecodable

    def _decode(self, record: Record) -> Fact:
        fact = self._codec.decode(record)
        cost = fact.envelope.cost
        numbers = [fact.envelope.ordinal, fact.envelope.round, *(cost.__dict__.values() if cost else ())]
        if any(number is not None and number > _LARGEST for number in numbers):
            where = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
            raise BadEnvelope("a number of its headers has more than 63 bits", **where)  # type: ignore[arg-type]
        return fact

    @staticmethod
    def _first_ones(
        connection: duckdb.DuckDBPyConnection, decoded: Sequence[tuple[Record, Fact]]
    ) -> tuple[list[tuple[Record, Fact]], list[dict[str, Any]]]:
        if not decoded:
            return [], []
        connection.register("batch_ids", pa.table({"id": [fact.id for _, fact in decoded]}))
        known = connection.execute(
            'SELECT e.id, e.topic, e."partition", e."offset", e.body_digest '
            "FROM events e SEMI JOIN batch_ids b ON e.id = b.id"
        ).fetchall()
        connection.unregister("batch_ids")
        first: dict[str, _First] = {row[0]: row[1:] for row in known}
        new, duplicates = [], []
        for record, fact in decoded:
            if fact.id in first:
                duplicates.append(duplicate_row(fact, first[fact.id]))
            else:
                first[fact.id] = (record.topic, record.partition, record.offset, fact.envelope.body_digest)
                new.append((record, fact))
        return new, duplicates

    def _advance(self, connection: duckdb.DuckDBPyConnection, records: Sequence[Record]) -> None:
        reached: dict[Partition, int] = {}
        for record in records:
            reached[(record.topic, record.partition)] = record.offset + 1
        rows = [
            {"topic": topic, "partition": partition, "next_offset": offset, "updated": self._now()}
            for (topic, partition), offset in sorted(reached.items())
        ]
        _insert(connection, "offsets", pa.Table.from_pylist(rows, schema=OFFSETS), replace=True)


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
