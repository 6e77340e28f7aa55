"""The blocks of an archive as columns: rows are found by what every envelope begins with, and then read side by side.

Each row that is found is held against the rows before and behind it: it begins where the one before ends, and a block holds
exactly as many as it says. A block in which anything does not fit is read row by row, as other readers of archives do.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import fastavro
import numpy as np

from bat_events.audit.columnar.columns import Columns
from bat_events.audit.columnar.heads import numbers
from bat_events.audit.columnar.scan import Longs, Scan, fixed, padded
from bat_events.domain.sealing import long_bytes
from bat_events.events.envelope import ALLOWED_HEADERS, to_headers_order
from bat_events.log.belonging import round_of
from bat_events.log.interface import Record
from bat_events.replay.archive_blocks import Block, partition_blocks
from bat_events.replay.archive_format import RECORD_SCHEMA, ArchiveError, PartitionEntry
from bat_events.replay.archive_reader import ArchiveReader

BATCH_BYTES = 24 << 20
BATCH_ROWS = 32_768

_ORDER = to_headers_order()
_NAMES = {name: long_bytes(len(name)) + name.encode() for name, _ in _ORDER}
_FIRST = _NAMES[_ORDER[0][0]] + long_bytes(3) + b"1.0" + _NAMES[_ORDER[1][0]]
_NOT_THERE = -1


@dataclass(frozen=True, kw_only=True)
class ColumnBatch:
    """Records of one partition in order: those that were read side by side, and the others with their places in the batch."""

    columns: Columns | None
    others: list[tuple[int, Record]]

    def __len__(self) -> int:
        return (0 if self.columns is None else len(self.columns)) + len(self.others)


def column_batches(reader: ArchiveReader, entry: PartitionEntry) -> Iterator[ColumnBatch]:
    """A partition's records in the log's order. Raises ArchiveError."""
    carried: list[tuple[int, Record]] = []
    for blocks, bound in partition_blocks(reader.folder, entry, BATCH_BYTES, BATCH_ROWS):
        batch, carried = _batch(entry, blocks, bound, carried)
        if len(batch):
            yield batch


def _batch(
    entry: PartitionEntry, blocks: list[Block], bound: int | None, carried: list[tuple[int, Record]]
) -> tuple[ColumnBatch, list[tuple[int, Record]]]:
    """The rows of these blocks and the carried ones with ordinals below `bound`; and those that are carried on."""
    rows = _Rows(blocks)
    alone = carried + [row for block in rows.odd for row in _one_by_one(entry, blocks[block])]
    good = np.flatnonzero(rows.good)
    rows.check_rounds(entry, good)
    if bound is not None:
        late = good[rows.ordinal[good] >= bound]
        alone += [(int(rows.ordinal[row]), rows.record(entry, int(row))) for row in late]
        good = good[rows.ordinal[good] < bound]
    good = good[np.argsort(rows.ordinal[good], kind="stable")]
    kept = [(ordinal, record) for ordinal, record in alone if bound is None or ordinal < bound]
    later = [(ordinal, record) for ordinal, record in alone if bound is not None and ordinal >= bound]
    kept.sort(key=lambda row: row[0])
    columns = rows.columns(entry, good) if good.size else None
    return ColumnBatch(columns=columns, others=kept), later


class _Rows:
    """The rows of some blocks, those of blocks in which all fits being `good`; `odd` are the numbers of the other blocks."""

    def __init__(self, blocks: list[Block]) -> None:
        self._blocks = blocks
        sizes = np.array([len(block.data) for block in blocks], np.int64)
        ends = np.cumsum(sizes)
        starts = ends - sizes
        self.data = padded([block.data for block in blocks])
        found = []
        for number, block in enumerate(blocks):
            at, base = block.data.find(_FIRST), int(starts[number])
            while at >= 0:
                found.append(base + at)
                at = block.data.find(_FIRST, at + len(_FIRST))
        head = np.array(found, np.int64)
        self.block = np.searchsorted(ends, head, "right")
        self._read(head, starts, ends)

    def _read(self, head: Longs, starts: Longs, ends: Longs) -> None:
        count = len(head)
        every = np.arange(count)
        limits = ends[self.block] if count else head
        scan = Scan(self.data, head, limits)
        self.header: dict[str, tuple[Longs, Longs]] = {}
        headers = np.zeros(count, np.int64)
        for name, needed in _ORDER:
            headers += self._header(scan, every, name, needed)
        scan.fail(every, self.data[scan.at] != 0)
        self.end = scan.at + 1
        begin = np.concatenate([head[:0], np.where(np.diff(self.block, prepend=-1) != 0, starts[self.block], 0)])
        same = np.flatnonzero(np.diff(self.block, prepend=-1) == 0)
        begin[same] = self.end[same - 1]
        front = Scan(self.data, np.minimum(begin, limits), limits)
        self.ordinal, self.offset, self.timestamp = (front.long(every) for _ in range(3))
        size = front.long(every)
        self.key = (front.skip(every, size), size)
        size = front.long(every)
        self.value = (front.skip(every, size), size)
        front.fail(every, (front.at != head - 1) | (self.data[head - 1] != 2 * headers) | (headers > 63))
        self.good = ~(scan.bad | front.bad)
        self._whole_blocks(ends)

    def _header(self, scan: Scan, every: Longs, name: str, needed: bool) -> Longs:
        """Reads one header where it stands; returns 1 for those rows."""
        wanted = np.frombuffer(_NAMES[name], np.uint8)
        there = (fixed(self.data, scan.at, len(wanted)) == wanted).all(axis=1)
        if needed:
            scan.fail(every, ~there)
        rows = np.flatnonzero(there)
        start, size = np.zeros(len(every), np.int64), np.full(len(every), _NOT_THERE)
        scan.at[rows] += len(wanted)
        sizes = scan.long(rows)
        start[rows], size[rows] = scan.skip(rows, sizes), sizes
        self.header[name] = (start, size)
        return there.astype(np.int64)

    def _whole_blocks(self, ends: Longs) -> None:
        """A block is good where all its rows are, as many as it says, in order, the last one up to its end."""
        wrong = np.zeros(len(self._blocks), bool)
        wrong[self.block[~self.good]] = True
        counts = np.bincount(self.block, minlength=len(self._blocks))
        wrong |= counts != np.array([block.rows for block in self._blocks])
        last = np.cumsum(counts) - 1
        filled = counts > 0
        wrong[filled] |= self.end[last[filled]] != ends[filled]
        falls = np.flatnonzero((np.diff(self.ordinal) <= 0) | (np.diff(self.offset) <= 0)) + 1
        wrong[self.block[falls[self.block[falls] == self.block[falls - 1]]]] = True
        self.odd: list[int] = np.flatnonzero(wrong).tolist()
        self.good &= ~wrong[self.block]

    def check_rounds(self, entry: PartitionEntry, rows: Longs) -> None:
        """Raises ArchiveError where a row is not of its file's round."""
        start, size = self.header["bat_round"]
        value, odd = numbers(self.data, (start[rows], size[rows]))
        value[size[rows] < 0] = _NOT_THERE
        wanted = np.array([_NOT_THERE if b.part.round is None else b.part.round for b in self._blocks], np.int64)
        wrong = rows[(value != wanted[self.block[rows]]) | (odd & (size[rows] >= 0))]
        if wrong.size:
            block = self._blocks[int(self.block[wrong[0]])]
            raise ArchiveError(
                f"{entry.topic}/{entry.partition}/{block.part.name}: record {self.ordinal[wrong[0]]} is not of this file's round"
            )

    def columns(self, entry: PartitionEntry, rows: Longs) -> Columns:
        """These rows as columns."""
        value, size = self.value[0][rows], self.value[1][rows]
        header = {name: (self.header[name][0][rows], self.header[name][1][rows]) for name in ALLOWED_HEADERS}
        return Columns(
            index=self.ordinal[rows],
            topics=(entry.topic,),
            topic=np.zeros(len(rows), np.int64),
            partition=np.full(len(rows), entry.partition),
            offset=self.offset[rows],
            timestamp_ms=self.timestamp[rows],
            heads=self.data,
            header=header,
            bodies=self.data,
            body_start=value,
            body_end=value + size,
            sizes=self.end[rows] - self.key[0][rows],
            record=lambda row: self.record(entry, int(rows[row])),
        )

    def record(self, entry: PartitionEntry, row: int) -> Record:
        """One row as a record."""

        def piece(place: tuple[Longs, Longs]) -> bytes:
            start, size = int(place[0][row]), int(place[1][row])
            return bytes(self.data[start : start + size].tobytes())

        return Record(
            topic=entry.topic,
            partition=entry.partition,
            offset=int(self.offset[row]),
            key=piece(self.key),
            value=piece(self.value),
            headers=tuple((name, piece(self.header[name])) for name, _ in _ORDER if self.header[name][1][row] >= 0),
            timestamp_ms=int(self.timestamp[row]),
        )


def _one_by_one(entry: PartitionEntry, block: Block) -> Iterator[tuple[int, Record]]:
    """(ordinal, record) of a block's rows. Raises ArchiveError."""
    buffer = io.BytesIO(block.data)
    where = f"{entry.topic}/{entry.partition}/{block.part.name}"
    try:
        for _ in range(block.rows):
            row: Any = fastavro.schemaless_reader(buffer, _parsed(), None)
            headers = tuple((header["name"], header["value"]) for header in row["headers"])
            if round_of(headers) != block.part.round:
                raise ArchiveError(f"{where}: record {row['ordinal']} is not of this file's round")
            yield (
                row["ordinal"],
                Record(
                    topic=entry.topic,
                    partition=entry.partition,
                    offset=row["offset"],
                    key=row["key"],
                    value=row["value"],
                    headers=headers,
                    timestamp_ms=row["timestamp_ms"],
                ),
            )
    except (ValueError, EOFError, LookupError, TypeError, OverflowError, MemoryError) as error:
        raise ArchiveError(f"{where}: not what an archive holds: {type(error).__name__}: {error}") from None
    if buffer.tell() != len(block.data):
        raise ArchiveError(f"{where}: bytes trail the rows of a block")


@cache
def _parsed() -> Any:
    return fastavro.parse_schema(RECORD_SCHEMA)
