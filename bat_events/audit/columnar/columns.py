"""Records as columns: where each header's value and each body lies in a run of bytes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bat_events.audit.columnar.scan import Longs, padded
from bat_events.events.envelope import ALLOWED_HEADERS, to_headers_order
from bat_events.log.interface import Record
from bat_events.log.topics import TOPICS

BOUNDARY = frozenset(spec.name for spec in TOPICS if spec.plane == "boundary")
"""Topics of which every header and field is looked at: their records are always read one by one."""

REQUIRED = frozenset(name for name, needed in to_headers_order() if needed)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """See the module. All arrays have one entry per record; `index` is its place in the batch.

    `heads` and `bodies` are bytes with padding behind them. A header that a record lacks has size -1. `sizes` are at least the
    bytes of key, value and headers together. `record` gives a record as such, by its row.
    """

    index: Longs
    topics: tuple[str, ...]
    topic: Longs
    partition: Longs
    offset: Longs
    timestamp_ms: Longs
    heads: Any
    header: Mapping[str, tuple[Longs, Longs]]
    bodies: Any
    body_start: Longs
    body_end: Longs
    sizes: Longs
    record: Callable[[int], Record]

    def __len__(self) -> int:
        return len(self.index)


def columns_of(records: Sequence[Record]) -> tuple[Columns | None, list[int]]:
    """The records whose headers are this project's, as columns, and the places of all others."""
    layouts: dict[tuple[str, ...], bool] = {}
    groups: dict[tuple[str, ...], tuple[list[int], list[tuple[bytes, ...]]]] = {}
    others: list[int] = []
    for number, record in enumerate(records):
        names, values = zip(*record.headers, strict=True) if record.headers else ((), ())
        known = layouts.get(names)
        if known is None:
            known = layouts[names] = len(set(names)) == len(names) and REQUIRED <= set(names) <= ALLOWED_HEADERS
        if known and record.topic not in BOUNDARY:
            places, rows = groups.setdefault(names, ([], []))
            places.append(number)
            rows.append(values)
        else:
            others.append(number)
    if not groups:
        return None, others
    index = np.fromiter((number for places, _ in groups.values() for number in places), np.int64)
    return _columns(records, index, groups), others


def _columns(
    records: Sequence[Record], index: Longs, groups: Mapping[tuple[str, ...], tuple[list[int], list[tuple[bytes, ...]]]]
) -> Columns:
    chosen = [records[number] for number in index.tolist()]
    count, first = len(chosen), 0
    header = {name: (np.zeros(count, np.int64), np.full(count, -1, np.int64)) for name in ALLOWED_HEADERS}
    heads: list[bytes] = []
    head_bytes, at = np.zeros(count, np.int64), 0
    for names, (places, rows) in groups.items():
        part = slice(first, first + len(places))
        for name, values in zip(names, zip(*rows, strict=True), strict=True):
            sizes = np.fromiter(map(len, values), np.int64, len(values))
            ends = np.cumsum(sizes)
            header[name][0][part] = at + ends - sizes
            header[name][1][part] = sizes
            head_bytes[part] += sizes + len(name)
            heads.append(b"".join(values))
            at += int(ends[-1])
        first += len(places)
    values_ = [record.value for record in chosen]
    body_sizes = np.fromiter(map(len, values_), np.int64, count)
    body_end = np.cumsum(body_sizes)
    topics = tuple(sorted({record.topic for record in chosen}))
    codes = {topic: code for code, topic in enumerate(topics)}
    keys = np.fromiter((len(record.key) for record in chosen), np.int64, count)
    return Columns(
        index=index,
        topics=topics,
        topic=np.fromiter((codes[record.topic] for record in chosen), np.int64, count),
        partition=np.fromiter((record.partition for record in chosen), np.int64, count),
        offset=np.fromiter((record.offset for record in chosen), np.int64, count),
        timestamp_ms=np.fromiter((record.timestamp_ms for record in chosen), np.int64, count),
        heads=padded(heads),
        header=header,
        bodies=padded(values_),
        body_start=body_end - body_sizes,
        body_end=body_end,
        sizes=keys + body_sizes + head_bytes,
        record=chosen.__getitem__,
    )
