"""Lines of an archive of the second format, straight from the bytes of its blocks.

Envelopes are found where they lie (archive_envelopes.py), or decoded as usual. Files are opened when their turn comes, so that
one block a partition lies in memory, however many rounds there are.
"""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from backports import zstd

from bat_events.log.interface import Partition, Record
from bat_events.replay.archive_envelopes import ENVELOPE, VARINT, Forms, matched, zigzag
from bat_events.replay.archive_format import RECORD_SCHEMA, ArchiveError, PartitionEntry, RoundEntry, container_header
from bat_events.replay.archive_raw import blocks
from bat_events.replay.archive_reader import ArchiveReader
from bat_events.replay.lines import Line, line_of, other_line
from bat_events.replay.source import open_topics

_HEADER = container_header(RECORD_SCHEMA)
_ROW = re.compile(VARINT + VARINT + rb"[\x80-\xff]*[\x00-\x7f]" + VARINT)
_QUICK_ROW = re.compile(VARINT + VARINT + rb"[\x80-\xff]*[\x00-\x7f]@([0-9a-f]{32})" + VARINT)  # with an id as its key
_SIZE = re.compile(VARINT)


def archive_lines(reader: ArchiveReader, topics: Collection[str] | None = None) -> dict[Partition, Iterator[Line]]:
    """The partitions of topics (None: all open ones) as streams of lines, with the places of other campaigns' records."""
    topics = open_topics() if topics is None else topics
    return {where: _partition(reader, where) for where in reader.partitions if where[0] in topics}


def _partition(reader: ArchiveReader, where: Partition) -> Iterator[Line]:
    entry = reader.entry(*where)
    own = _merged(reader.folder, entry)
    if entry.others is None:
        yield from own
        return
    others = (other_line(*where, other.offset, other.id, other.time) for other in reader.others(*where))
    line, other = next(own, None), next(others, None)
    while line is not None or other is not None:
        if other is None or (line is not None and line.offset < other.offset):
            assert line is not None
            yield line
            line = next(own, None)
        else:
            yield other
            other = next(others, None)


def _merged(folder: Path, entry: PartitionEntry) -> Iterator[Line]:
    """The lines of a partition's files by ordinal; a file is opened when its first one is due."""
    waiting = sorted(
        ((_first(folder, entry, part), part.name, part) for part in entry.files if part.records), reverse=True
    )
    open_: list[tuple[int, str, Line, Iterator[tuple[int, Line]]]] = []
    last = -1
    while waiting or open_:
        while waiting and (not open_ or waiting[-1][0] <= min(open_)[0]):
            _, name, part = waiting.pop()
            _push(open_, name, _lines(folder, entry, part))
        ordinal, name, line, rest = min(open_, key=lambda head: head[:2])
        open_ = [head for head in open_ if head[1] != name]
        bound = min([head[0] for head in open_] + [entry_[0] for entry_ in waiting[-1:]], default=None)
        if ordinal <= last:
            raise ArchiveError(f"{folder}: {entry.topic}[{entry.partition}]: two records have ordinal {ordinal}")
        yield line
        last = ordinal
        for ordinal, line in rest:
            if bound is not None and ordinal >= bound:
                open_.append((ordinal, name, line, rest))
                break
            last = ordinal
            yield line


def _push(open_: list[Any], name: str, lines: Iterator[tuple[int, Line]]) -> None:
    head = next(lines, None)
    if head is not None:
        open_.append((*head[:1], name, head[1], lines))


def _first(folder: Path, entry: PartitionEntry, part: RoundEntry) -> int:
    """The ordinal of a file's first row, from the first bytes of its first block."""
    path = entry.folder(folder) / part.name
    try:
        with path.open("rb") as file:
            file.seek(len(_HEADER))
            sizes = file.read(20)
            _, at = _number(sizes, 0)
            size, at = _number(sizes, at)
            file.seek(len(_HEADER) + at)
            row = zstd.ZstdDecompressor().decompress(file.read(size), max_length=16)
        return _number(row, 0)[0]
    except FileNotFoundError:
        raise ArchiveError(f"{path} is missing: the archive is incomplete, copy it again") from None
    except (ValueError, IndexError, zstd.ZstdError) as error:
        raise ArchiveError(f"{path}: not what an archive holds: {error}") from None


def _lines(folder: Path, entry: PartitionEntry, part: RoundEntry) -> Iterator[tuple[int, Line]]:
    """A block's lines are made at once, while its bytes are at hand."""
    path = entry.folder(folder) / part.name
    forms = Forms(entry.topic, entry.partition)
    count, ordinal, offset = 0, -1, -1
    try:
        with path.open("rb") as file:
            if file.read(len(_HEADER)) != _HEADER:
                raise ArchiveError(f"{path} does not begin as an archive's file")
            for rows, data in blocks(file):
                found = _of_block(rows, data, forms, entry)
                of_round, count = part.round, count + rows
                for number, line in found:
                    if number <= ordinal or line.offset <= offset:
                        raise ArchiveError(f"{path}: record {number} follows {ordinal}: records are out of order")
                    if line.round != of_round:
                        raise ArchiveError(f"{path}: record {number} is not of this file's round")
                    ordinal, offset = number, line.offset
                del data
                yield from found
    except FileNotFoundError:
        raise ArchiveError(f"{path} is missing: the archive is incomplete, copy it again") from None
    except (IndexError, EOFError, MemoryError, zstd.ZstdError, UnicodeDecodeError, AttributeError) as error:
        raise ArchiveError(f"{path}: not what an archive holds: {error}") from None
    if count != part.records:
        raise ArchiveError(f"{path}: {count} records, the manifest says {part.records}")


def _of_block(rows: int, data: bytes, forms: Forms, entry: PartitionEntry) -> list[tuple[int, Line]]:
    """Ordinal and line of each row. Raises IndexError where the bytes are no such rows."""
    lines: list[tuple[int, Line]] = []
    at = 0
    for _ in range(rows):
        found = _QUICK_ROW.match(data, at)
        if found is None:
            number, line, at = _row(data, at, entry)
        else:
            first, second, key, size = found.groups()
            start = found.end()
            at = start + _count(size)
            number, quick = _count(first), forms.line(data, at, _count(second), key, data[start:at])
            if quick is None:
                number, line, at = _row(data, found.start(), entry)
            else:
                line, at = quick, forms.end
        lines.append((number, line))
    if at != len(data):
        raise IndexError("bytes trail the rows of a block")
    return lines


def _count(raw: bytes) -> int:
    """A number that is hardly ever below zero or over a million."""
    number = int.from_bytes(raw, "little")
    if number & 1 or len(raw) > 3:
        return zigzag(raw)
    return number >> 1 & 0x3F | number >> 2 & 0x1FC0 | number >> 3 & 0xFE000


def _row(data: bytes, at: int, entry: PartitionEntry) -> tuple[int, Line, int]:
    """Ordinal and line of the row that begins there, and where it ends."""
    topic, partition = entry.topic, entry.partition
    head = _ROW.match(data, at)
    if head is None:
        raise IndexError("a row is cut off")
    ordinal, offset, size = map(zigzag, head.groups())
    start = head.end()
    at = start + size
    key = data[start:at]
    size, start = _number(data, at)
    at = start + size
    value = data[start:at]
    if size < 0 or len(value) != size:
        raise IndexError("a row is cut off")
    found = ENVELOPE.match(data, at)
    line = None if found is None else matched(found, topic, partition, offset, key, value)
    if line is None or found is None:
        headers, at = _headers(data, at)
        record = Record(
            topic=topic, partition=partition, offset=offset, key=key, value=value, headers=headers, timestamp_ms=0
        )
        return ordinal, line_of(record), at
    return ordinal, line, found.end()


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends."""
    found = _SIZE.match(data, at)
    if found is None:
        raise IndexError("a number is cut off")
    return zigzag(found[1]), found.end()


def _headers(data: bytes, at: int) -> tuple[tuple[tuple[str, bytes], ...], int]:
    """Headers as Avro has them, in one block, as this project writes them."""
    count, at = _number(data, at)
    if count < 0:
        raise IndexError("headers in another form than this project writes")
    found = []
    for _ in range(count):
        parts = []
        for _ in (0, 1):
            size, start = _number(data, at)
            at = start + size
            if size < 0 or at > len(data):
                raise IndexError("a header is cut off")
            parts.append(data[start:at])
        found.append((parts[0].decode("utf-8"), parts[1]))
    if count:
        if data[at]:
            raise IndexError("headers in more than one block")
        at += 1
    return tuple(found), at
