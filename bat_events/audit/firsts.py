"""The first committed event of an id counts: which rows and facts of a batch are new, and which are duplicates."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

from bat_events.audit.columnar.prepared import Prepared
from bat_events.audit.rows import duplicate_row, duplicate_row_of
from bat_events.codec import Fact
from bat_events.log.interface import Record

First = tuple[str, int, int, str]
"""(topic, partition, offset, body digest) of the event that counts."""


def first_ones(
    connection: duckdb.DuckDBPyConnection, batch: Prepared, decoded: Sequence[tuple[int, Record, Fact]]
) -> tuple[Prepared, list[tuple[Record, Fact]], list[dict[str, Any]]]:
    """(the batch with its new rows only, the new facts, rows of the duplicates)."""
    quick = batch.events.column("id").to_pylist()
    ids = [*quick, *(fact.id for *_, fact in decoded)]
    known = _known(connection, ids)
    if not known and len(set(ids)) == len(ids):
        return batch, [(record, fact) for _, record, fact in decoded], []
    first: dict[str, First] = {row[0]: row[1:] for row in known}
    again = {*first, *(id_ for id_, count in Counter(ids).items() if count > 1)}
    order = batch.order.tolist()
    entries: list[tuple[int, int, tuple[Record, Fact] | None]] = [
        (order[at], at, None) for at, id_ in enumerate(quick) if id_ in again
    ]
    entries += [(place, -1, (record, fact)) for place, record, fact in decoded]
    new, dropped, duplicates = [], [], []
    for _, at, pair in sorted(entries, key=lambda entry: entry[0]):
        if pair is None:
            row = batch.events.slice(at, 1).to_pylist()[0]
            if _is_again(first, row["id"], (row["topic"], row["partition"], row["offset"], row["body_digest"])):
                dropped.append(at)
                duplicates.append(duplicate_row_of(row, first[row["id"]]))
            continue
        record, fact = pair
        if _is_again(first, fact.id, (fact.topic, fact.partition, fact.offset, fact.envelope.body_digest)):
            duplicates.append(duplicate_row(fact, first[fact.id]))
        else:
            new.append((record, fact))
    return batch.without(dropped) if dropped else batch, new, duplicates


def _is_again(first: dict[str, First], id_: str, place: First) -> bool:
    """Whether an id was there before; if not, it is now."""
    if id_ in first:
        return True
    first[id_] = place
    return False


def _known(connection: duckdb.DuckDBPyConnection, ids: Sequence[str]) -> list[tuple[Any, ...]]:
    """(id, topic, partition, offset, body digest) of those ids that the file has already."""
    if not ids:
        return []
    connection.register("batch_ids", pa.table({"id": pa.array(ids, pa.string())}))
    try:
        return connection.execute(
            'SELECT e.id, e.topic, e."partition", e."offset", e.body_digest '
            "FROM events e SEMI JOIN batch_ids b ON e.id = b.id"
        ).fetchall()
    finally:
        connection.unregister("batch_ids")
