"""Lines of an archive of the second format, straight from the bytes of its blocks.

Decoding seventeen headers into objects costs more than all else that replay does with a record. An envelope that this
project's writer wrote has its headers in one order and of known lengths, so one expression finds them where they lie. Whatever
it does not match exactly (another order, another tool's headers, text that is not ASCII) is decoded as usual, and refused or
taken as usual: a test holds both ways against each other. Files are opened when their turn comes, so that one block a
partition lies in memory, however many rounds there are.
"""

import re
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from backports import zstd

from bat_events.log.interface import Partition, Record
from bat_events.replay.archive_format import RECORD_SCHEMA, ArchiveError, PartitionEntry, RoundEntry, container_header
from bat_events.replay.archive_raw import blocks
from bat_events.replay.archive_reader import ArchiveReader
from bat_events.replay.lines import Line, line_of, other_line
from bat_events.replay.source import open_topics

_HEADER = container_header(RECORD_SCHEMA)
_VARINT = rb"([\x80-\xff]*[\x00-\x7f])"
_ROW = re.compile(_VARINT + _VARINT + rb"[\x80-\xff]*[\x00-\x7f]" + _VARINT)
_QUICK_ROW = re.compile(
    _VARINT + _VARINT + rb"[\x80-\xff]*[\x00-\x7f]@([0-9a-f]{32})" + _VARINT
)  # with an id as its key
_SIZE = re.compile(_VARINT)
_TEXT = rb"([\x02-\x7e][ -~]{1,63})"  # with the byte before it that says how long it is
_NUMBER = rb"(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?"
_COST = rb'"(?:(?:wall_s|device_s|sandbox_s)":%s|(?:tokens_in|tokens_out|bytes_out)":(?:0|[1-9]\d{0,17}))' % _NUMBER
_ENVELOPE = re.compile(
    rb"([\x1a\x1c\x1e\x20\x22])"
    rb"\x1cce_specversion\x061\.0"
    rb"\x18content-type\x20application/avro"
    rb"\x0ace_id@([0-9a-f]{32})"
    rb"\x12ce_source" + _TEXT + rb"\x0ece_type" + _TEXT + rb"\x0ece_time6(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)"
    rb"\x14ce_subject" + _TEXT + rb"\x1ace_dataschema\x8e\x01sha256:([0-9a-f]{64})"
    rb"\x14bat_digest\x80\x01([0-9a-f]{64})"
    rb"\x18bat_campaign" + _TEXT + rb"\x12bat_cause@([0-9a-f]{32})"
    rb"\x16bat_ordinal([\x02-\x24]\d{1,18})"
    rb"\x12bat_logic" + _TEXT + rb"(?:\x12bat_round([\x02-\x24]\d{1,18}))?"
    rb"(?:\x16traceparentn([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}))?"
    rb"(?:\x0ebat_cut" + _VARINT + rb"(\{[ -~]*\}))?"
    rb"(?:\x10bat_cost" + _VARINT + rb"(\{(?:" + _COST + rb"(?:," + _COST + rb")*)?\}))?"
    rb"\x00"
)
_LEAST = 13  # headers that are always there


class _Texts:
    """Bytes -> str, for what comes again and again."""

    def __init__(self) -> None:
        self.known: dict[bytes, str] = {}
        self.last = (b"", "")

    def of(self, raw: bytes) -> str:
        """A text with its length byte. Raises ValueError where it has another length."""
        if raw[0] != 2 * len(raw) - 2:
            raise ValueError("a text is not as long as is said")
        return self._keep(raw, raw[1:].decode("ascii"))

    def moment(self, raw: bytes) -> str:
        """A time. Raises ValueError where there is no such moment."""
        text = raw.decode("ascii")
        datetime.fromisoformat(text)
        self.last = (raw, text)
        return text

    def plain(self, raw: bytes) -> str:
        """A text without its length byte."""
        return self._keep(raw, raw.decode("ascii"))

    def _keep(self, raw: bytes, text: str) -> str:
        if len(self.known) > 4096:
            self.known.clear()
        self.known[raw] = text
        return text


_KNOWN = _Texts()


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
    path = entry.folder(folder) / part.name
    topic, partition, of_round = entry.topic, entry.partition, part.round
    count, ordinal, offset = 0, -1, -1
    try:
        with path.open("rb") as file:
            if file.read(len(_HEADER)) != _HEADER:
                raise ArchiveError(f"{path} does not begin as an archive's file")
            for rows, data in blocks(file):
                at = 0
                for _ in range(rows):
                    found = _QUICK_ROW.match(data, at)
                    if found is None:
                        number, line, at = _row(data, at, topic, partition)
                    else:
                        first, second, key, size = found.groups()
                        number, start = _zigzag(first), found.end()
                        at = start + _zigzag(size)
                        envelope = _ENVELOPE.match(data, at)
                        quick = None
                        if envelope is not None:
                            quick = _matched(envelope, topic, partition, _zigzag(second), key, data[start:at])
                        if quick is None or envelope is None:
                            number, line, at = _row(data, found.start(), topic, partition)
                        else:
                            line, at = quick, envelope.end()
                    if number <= ordinal or line.offset <= offset:
                        raise ArchiveError(f"{path}: record {number} follows {ordinal}: records are out of order")
                    if line.round != of_round:
                        raise ArchiveError(f"{path}: record {number} is not of this file's round")
                    ordinal, offset = number, line.offset
                    yield number, line
                count += rows
                if at != len(data):
                    raise ArchiveError(f"{path}: bytes trail the rows of a block")
    except FileNotFoundError:
        raise ArchiveError(f"{path} is missing: the archive is incomplete, copy it again") from None
    except (IndexError, EOFError, MemoryError, zstd.ZstdError, UnicodeDecodeError, AttributeError) as error:
        raise ArchiveError(f"{path}: not what an archive holds: {error}") from None
    if count != part.records:
        raise ArchiveError(f"{path}: {count} records, the manifest says {part.records}")


def _row(data: bytes, at: int, topic: str, partition: int) -> tuple[int, Line, int]:
    """Ordinal and line of the row that begins there, and where it ends."""
    head = _ROW.match(data, at)
    if head is None:
        raise IndexError("a row is cut off")
    ordinal, offset, size = map(_zigzag, head.groups())
    start = head.end()
    at = start + size
    key = data[start:at]
    size, start = _number(data, at)
    at = start + size
    value = data[start:at]
    if size < 0 or len(value) != size:
        raise IndexError("a row is cut off")
    found = _ENVELOPE.match(data, at)
    line = None if found is None else _matched(found, topic, partition, offset, key, value)
    if line is None or found is None:
        headers, at = _headers(data, at)
        record = Record(
            topic=topic, partition=partition, offset=offset, key=key, value=value, headers=headers, timestamp_ms=0
        )
        return ordinal, line_of(record), at
    return ordinal, line, found.end()


def _matched(found: re.Match[bytes], topic: str, partition: int, offset: int, key: bytes, value: bytes) -> Line | None:
    """The line of an envelope; None where a length is not the one that is said, or the moment none that there is."""
    (
        count,
        id_,
        source,
        type_,
        moment,
        subject,
        schema,
        digest,
        campaign,
        cause,
        number,
        logic,
        round_,
        trace,
        cut_size,
        cut,
        cost_size,
        cost,
    ) = found.groups()
    more = 0 if trace is None else 1
    of_round = cut_text = None
    if round_ is not None:
        more += 1
        if round_[0] != 2 * len(round_) - 2:
            return None
        of_round = int(round_[1:])
    if cut is not None:
        more += 1
        if _zigzag(cut_size) != len(cut):
            return None
        cut_text = cut.decode()
    if cost is not None:
        more += 1
        if _zigzag(cost_size) != len(cost):
            return None
    if count[0] != 2 * (_LEAST + more) or subject[0] != 2 * len(subject) - 2 or number[0] != 2 * len(number) - 2:
        return None
    known = _KNOWN.known
    try:
        return Line(
            topic,
            partition,
            offset,
            key,
            value,
            id_.decode(),
            known.get(source) or _KNOWN.of(source),
            known.get(type_) or _KNOWN.of(type_),
            _KNOWN.last[1] if moment == _KNOWN.last[0] else _KNOWN.moment(moment),
            subject[1:].decode(),
            known.get(schema) or _KNOWN.plain(schema),
            digest.decode(),
            known.get(campaign) or _KNOWN.of(campaign),
            cause.decode(),
            int(number[1:]),
            known.get(logic) or _KNOWN.of(logic),
            of_round,
            cut_text,
        )
    except ValueError:
        return None


def _zigzag(raw: bytes) -> int:
    if len(raw) == 1:
        return (raw[0] >> 1) ^ -(raw[0] & 1)
    value = shift = 0
    for byte in raw:
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends."""
    found = _SIZE.match(data, at)
    if found is None:
        raise IndexError("a number is cut off")
    return _zigzag(found[1]), found.end()


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
