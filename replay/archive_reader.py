"""Reading an archive of the second format, streaming: at any size only a block per open file lies in memory.

    archive = ArchiveReader(folder)
    archive.partitions                         [(topic, partition), …] in order
    archive.records(topic, partition)          its records in the log's order, rounds merged
    archive.round(3)                           the records of one round, partition by partition (None: of no round)
    archive.others(topic, partition)           where other campaigns' records stood
    archive.raw(topic, partition)              (ordinal, content, …): bytes alone, for hashing

Every row's place is checked as it is read: ordinals and offsets rise, a round's file holds that round's records only.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import fastavro
from backports import zstd

from bat_events.domain.sealing import content_bytes
from bat_events.log.belonging import round_of
from bat_events.log.interface import Partition, Record
from bat_events.replay.archive_format import (
    LEAVES,
    OTHER_SCHEMA,
    OTHERS,
    RECORD_SCHEMA,
    SCHEMAS,
    ArchiveError,
    Other,
    PartitionEntry,
    RoundEntry,
    check_file,
    check_schema,
    read_manifest,
)
from bat_events.replay.archive_raw import Raw, raw_rows

_BROKEN = (ValueError, EOFError, LookupError, TypeError, OverflowError, MemoryError, RuntimeError, zstd.ZstdError)
"""What fastavro and zstd raise on bytes that are not what they should be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Archived:
    """A record of the campaign and its place: `ordinal` counts the campaign's records of its partition from 0."""

    ordinal: int
    record: Record

    def content(self) -> bytes:
        """What its leaf hashes."""
        r = self.record
        return content_bytes(r.key, r.value, r.headers, r.timestamp_ms)


class ArchiveReader:
    """See the module. With `check` every file is held against the manifest first. Raises ArchiveError."""

    def __init__(self, folder: Path, *, check: bool = True) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        self._entries = {(part.topic, part.partition): part for part in self.manifest.partitions}
        if check:
            self.check_files()

    @property
    def partitions(self) -> list[Partition]:
        """What was archived, in order."""
        return sorted(self._entries)

    def entry(self, topic: str, partition: int) -> PartitionEntry:
        """A partition's entry in the manifest."""
        return self._entries[(topic, partition)]

    def check_files(self) -> None:
        """Raises ArchiveError naming the first file that is missing or not the one of the manifest."""
        for where in self.partitions:
            part = self._entries[where]
            folder = part.folder(self.folder)
            for entry in part.files:
                check_file(folder / entry.name, entry)
            if part.others is not None:
                check_file(folder / OTHERS, part.others)
            check_file(folder / LEAVES, part.leaves)
            if part.leaves.records != part.records:
                raise ArchiveError(f"{folder / LEAVES}: {part.leaves.records} leaves for {part.records} records")
        for digest in self.manifest.schemas:
            check_schema(self.folder / SCHEMAS / f"{digest}.avsc", digest)

    def schemas(self) -> Sequence[bytes]:
        """The writers' schemas, as JSON texts. Raises ArchiveError where one is missing or changed."""
        paths = [(self.folder / SCHEMAS / f"{digest}.avsc", digest) for digest in self.manifest.schemas]
        for path, digest in paths:
            check_schema(path, digest)
        return [path.read_bytes() for path, _ in paths]

    def records(self, topic: str, partition: int) -> Iterator[Archived]:
        """A partition's records in the log's order."""
        entry = self.entry(topic, partition)
        rows = [_rows(self.folder, entry, part) for part in entry.files]
        key = itemgetter("ordinal")
        for row in merged(rows, key, self._where(entry)):
            yield _archived(row, topic, partition)

    def round(self, number: int | None) -> Iterator[Archived]:
        """The records of one round, partition by partition; None: those that name no round."""
        for topic, partition in self.partitions:
            entry = self.entry(topic, partition)
            for part in entry.files:
                if part.round == number:
                    for row in _rows(self.folder, entry, part):
                        yield _archived(row, topic, partition)

    def raw(self, topic: str, partition: int) -> Iterator[Raw]:
        """A partition's records in order, split and not decoded: what leaves are made of. Rounds are not looked at."""
        entry = self.entry(topic, partition)
        folder = entry.folder(self.folder)
        rows = [raw_rows(folder / part.name, part.records) for part in entry.files]
        return merged(rows, itemgetter(0), self._where(entry))

    def others(self, topic: str, partition: int) -> Iterator[Other]:
        """Where other campaigns' records stood, by offset."""
        entry = self.entry(topic, partition)
        if entry.others is None:
            return
        last, count = -1, 0
        path = entry.folder(self.folder) / OTHERS
        for row in _file_rows(path, OTHER_SCHEMA):
            if row["offset"] <= last:
                raise ArchiveError(f"{path}: offset {row['offset']} follows {last}")
            last, count = row["offset"], count + 1
            yield Other(offset=last, id=row["id"], time=row["time"])
        if count != entry.others.records:
            raise ArchiveError(f"{path}: {count} rows, the manifest says {entry.others.records}")

    def leaves(self, topic: str, partition: int) -> bytes:
        """The leaf hashes of a partition, 32 bytes each, by ordinal."""
        return (self.entry(topic, partition).folder(self.folder) / LEAVES).read_bytes()

    def _where(self, entry: PartitionEntry) -> str:
        return f"{self.folder}: {entry.topic}[{entry.partition}]"


def rows_of(folder: Path, entry: PartitionEntry, part: RoundEntry) -> Iterator[Archived]:
    """The records of one file of an archive that may be unfinished. Raises ArchiveError."""
    for row in _rows(folder, entry, part):
        yield _archived(row, entry.topic, entry.partition)


def _rows(folder: Path, entry: PartitionEntry, part: RoundEntry) -> Iterator[dict[str, Any]]:
    path = entry.folder(folder) / part.name
    count, ordinal, offset = 0, -1, -1
    for row in _file_rows(path, RECORD_SCHEMA):
        if row["ordinal"] <= ordinal or row["offset"] <= offset:
            raise ArchiveError(f"{path}: record {row['ordinal']} follows {ordinal}: records are out of order")
        count, ordinal, offset = count + 1, row["ordinal"], row["offset"]
        row["headers"] = tuple([(header["name"], header["value"]) for header in row["headers"]])
        if round_of(row["headers"]) != part.round:
            raise ArchiveError(f"{path}: record {ordinal} is not of this file's round")
        yield row
    if count != part.records:
        raise ArchiveError(f"{path}: {count} records, the manifest says {part.records}")


def _archived(row: dict[str, Any], topic: str, partition: int) -> Archived:
    record = Record(
        topic=topic,
        partition=partition,
        offset=row["offset"],
        key=row["key"],
        value=row["value"],
        headers=row["headers"],
        timestamp_ms=row["timestamp_ms"],
    )
    return Archived(ordinal=row["ordinal"], record=record)


def merged(sources: Sequence[Iterator[Any]], key: Any, where: str) -> Iterator[Any]:
    """Rows of several files by ordinal: a run of one file is passed on without looking at the others.

    Raises ArchiveError where an ordinal comes twice.
    """
    heads = []
    for number, source in enumerate(sources):
        row = next(source, None)
        if row is not None:
            heads.append((key(row), number, row))
    last = -1
    while heads:
        head = min(heads)[:2]
        at = next(i for i, found in enumerate(heads) if found[:2] == head)
        (ordinal, number, row) = heads.pop(at)
        limit = min((found[0] for found in heads), default=None)
        source = sources[number]
        if ordinal <= last:
            raise ArchiveError(f"{where}: two records have ordinal {ordinal}")
        while True:
            yield row
            last = ordinal
            row = next(source, None)
            if row is None:
                break
            ordinal = key(row)
            if limit is not None and ordinal >= limit:
                heads.append((ordinal, number, row))
                break


@functools.cache
def _parsed(name: str) -> Any:
    return fastavro.parse_schema(OTHER_SCHEMA if name == OTHER_SCHEMA["name"] else RECORD_SCHEMA)


def _file_rows(path: Path, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A file's rows. Raises ArchiveError where it is no Avro file of exactly this schema, or bytes trail a block."""
    try:
        with path.open("rb") as file:
            blocks: Any = fastavro.block_reader(file)
            if fastavro.parse_schema(blocks.writer_schema) != _parsed(schema["name"]):
                raise ArchiveError(f"{path}: its Avro schema is not that of an archive's {schema['name']}")
            for block in blocks:
                yield from block
                if block.bytes_.read(1):
                    raise ArchiveError(f"{path}: bytes trail the rows of a block")
    except FileNotFoundError:
        raise ArchiveError(f"{path} is missing: the archive is incomplete, copy it again") from None
    except ArchiveError:
        raise
    except _BROKEN as error:
        raise ArchiveError(f"{path} is no Avro file of an archive: {type(error).__name__}: {error}") from None
