"""Archives as a Source of replay, of both formats; and the first format, in which golden logs are kept.

Second format (archive_format): one campaign, by topic, partition and round.
First format, read and written here: a namespace's open topics. One file per topic and partition holds records as they
were on the log (key, value, headers, timestamp, offset); `manifest.json` names each file with its SHA-256, its record
count and its next offset. Equal records give equal bytes. Held-out topics are never written. A folder appears whole or
not at all, and is never overwritten.
"""

import hashlib
import heapq
import json
import shutil
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import IO, Any, cast

import fastavro
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bat_events.domain.canonical import canonical_json
from bat_events.events.envelope import parse_time
from bat_events.log.interface import Partition, Record
from bat_events.log.topics import BY_NAME, SCHEMA_TOPIC
from bat_events.replay.archive_format import VERSION as NEWEST
from bat_events.replay.archive_format import ArchiveError, Other
from bat_events.replay.archive_lines import archive_lines
from bat_events.replay.archive_reader import ArchiveReader
from bat_events.replay.lines import Line, line_of
from bat_events.replay.source import OtherRecord, open_topics

FORMAT = "bat-events-archive"
VERSION = 1
MANIFEST = "manifest.json"
_CODEC = "deflate"
_MARKER = hashlib.sha256(b"bat-events-archive/1").digest()[:16]  # fixed, so that equal records give equal bytes

_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "LogRecord",
        "namespace": "bat.archive",
        "fields": [
            {"name": "offset", "type": "long"},
            {"name": "timestamp_ms", "type": "long"},
            {"name": "key", "type": "bytes"},
            {"name": "value", "type": "bytes"},
            {
                "name": "headers",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Header",
                        "fields": [{"name": "name", "type": "string"}, {"name": "value", "type": "bytes"}],
                    },
                },
            },
        ],
    }
)


class ArchivedPartition(BaseModel):
    """One file of an archive. `next_offset` is one past its last record."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")
    topic: str
    partition: int = Field(ge=0)
    records: int = Field(ge=1)
    next_offset: int = Field(ge=1)
    bytes: int = Field(ge=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")

    @property
    def file(self) -> str:
        """The file's name: made from topic and partition, never taken from the manifest."""
        return f"{self.topic}-{self.partition}.avro"


class Manifest(BaseModel):
    """`manifest.json`."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")
    format: str
    version: int
    source: str
    files: list[ArchivedPartition]


class ArchiveSource:
    """An archive folder as a Source. Raises ArchiveError at once where files are missing or not those of the manifest."""

    judged: Mapping[Partition, int] | None = None

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reader: ArchiveReader | None = None
        if version_of(folder) == NEWEST:
            self._reader = ArchiveReader(folder)
            self._of_campaign(self._reader)
            return
        self.manifest = read_manifest(folder)
        self.name = f"archive {folder.name} of {self.manifest.source}"
        for part in self.manifest.files:
            _verify(folder / part.file, part)

    def _of_campaign(self, reader: ArchiveReader) -> None:
        manifest = reader.manifest
        if manifest.only_round is not None:
            raise ArchiveError(
                f"{self._folder} holds round {manifest.only_round} only: replay folds from the campaign's start, "
                "so export the whole campaign"
            )
        self.name = f"archive {self._folder.name} of namespace {manifest.namespace}"
        if any(part.offset_judged < part.offset_end for part in manifest.partitions):
            self.judged = {(part.topic, part.partition): part.offset_judged for part in manifest.partitions}

    @property
    def sealed(self) -> bool:
        """Whether its format carries what a check against seals needs."""
        return self._reader is not None

    @property
    def holds_heldout(self) -> bool:
        """Whether it was exported with held-out topics."""
        return self._reader is not None and self._reader.manifest.heldout == "included"

    @property
    def holds_evidence(self) -> bool:
        """Whether it was exported with the training plane's artefacts."""
        return self._reader is not None and any(e.plane == "training" for e in self._reader.manifest.evidence)

    def schemas(self) -> Sequence[bytes]:
        """See Source.schemas."""
        if self._reader is not None:
            return self._reader.schemas()
        return [
            record.value
            for part in self.manifest.files
            if part.topic == SCHEMA_TOPIC
            for record in _read(self._folder / part.file, part)
        ]

    def imports(self) -> Sequence[Record]:
        """See Source.imports: an archive holds what stood on the log that was first."""
        return []

    def lines(self) -> dict[Partition, Iterator[Line]]:
        """The open partitions, each a stream of its own (see replay.lines)."""
        if self._reader is not None:
            return archive_lines(self._reader)
        return {
            (part.topic, part.partition): map(line_of, _read(self._folder / part.file, part))
            for part in self.manifest.files
            if part.topic != SCHEMA_TOPIC
        }

    def heldout_lines(self, topic: str) -> Iterator[Line]:
        """The lines of a held-out topic, where the archive was exported with them; nothing where it was not."""
        if self._reader is None:
            return iter(())
        found = archive_lines(self._reader, topics=(topic,))
        return (line for where in sorted(found) for line in found[where])

    def records(self) -> Iterator[Record | OtherRecord]:
        """See Source.records: file by file, streaming."""
        if self._reader is not None:
            for topic, partition in self._reader.partitions:
                if topic in open_topics():
                    yield from _by_offset(self._reader, topic, partition)
            return
        for part in self.manifest.files:
            if part.topic != SCHEMA_TOPIC:
                yield from _read(self._folder / part.file, part)


def _by_offset(reader: ArchiveReader, topic: str, partition: int) -> Iterator[Record | OtherRecord]:
    """A partition as its log had it, with the places of other campaigns' records."""
    own = (archived.record for archived in reader.records(topic, partition))
    others = (_other(other, topic, partition) for other in reader.others(topic, partition))
    return heapq.merge(own, others, key=lambda record: record.offset)


def _other(other: Other, topic: str, partition: int) -> OtherRecord:
    try:
        time = parse_time(other.time)
    except ValueError as error:
        raise ArchiveError(f"{topic}[{partition}]@{other.offset}: time {other.time!r}: {error}") from None
    return OtherRecord(topic=topic, partition=partition, offset=other.offset, id=other.id, time=time)


def version_of(folder: Path) -> int:
    """Which format an archive has, by its manifest alone. Raises ArchiveError."""
    path = folder / MANIFEST
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ArchiveError(f"{folder} is no archive: it has no {MANIFEST}") from None
    except ValueError as error:
        raise ArchiveError(f"{path} is no JSON: {error}") from None
    version = data.get("version") if isinstance(data, dict) else None
    return version if type(version) is int else VERSION


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an archive. Raises ArchiveError saying what is wrong with it."""
    path = folder / MANIFEST
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise ArchiveError(f"{folder} is no archive: it has no {MANIFEST}") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ArchiveError(f"{path}: {field}: {first['msg']}") from None
    if manifest.format != FORMAT or manifest.version != VERSION:
        raise ArchiveError(
            f"{path}: format {manifest.format} version {manifest.version} is not known here ({FORMAT} {VERSION}): "
            "install a newer bat-events"
        )
    names = [(part.topic, part.partition) for part in manifest.files]
    if len(set(names)) != len(names):
        raise ArchiveError(f"{path}: a partition is named twice")
    for topic, _ in names:
        if topic not in BY_NAME or BY_NAME[topic].plane == "heldout":
            raise ArchiveError(f"{path}: topic {topic!r} does not belong into an archive")
    return manifest


def write_archive(records: Sequence[Record], folder: Path, *, source: str) -> Manifest:
    """Write records as a new archive folder; `source` says, for people, where they come from.

    Raises ArchiveError where the folder exists and where a record is of the held-out plane.
    """
    if folder.exists():
        raise ArchiveError(f"{folder} is already there: an archive is never overwritten")
    refused = sorted({r.topic for r in records if r.topic not in BY_NAME or BY_NAME[r.topic].plane == "heldout"})
    if refused:
        raise ArchiveError(f"records of {', '.join(refused)} do not belong into an archive")
    temporary = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}.tmp")
    temporary.mkdir(parents=True)
    try:
        ordered = sorted(records, key=lambda r: (r.topic, r.partition, r.offset))
        files = [
            _write(temporary, topic, partition, list(group))
            for (topic, partition), group in groupby(ordered, key=lambda r: (r.topic, r.partition))
        ]
        manifest = Manifest(format=FORMAT, version=VERSION, source=source, files=files)
        text = json.dumps(json.loads(canonical_json(manifest.model_dump())), indent=1, sort_keys=True) + "\n"
        (temporary / MANIFEST).write_text(text)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return manifest


def _write(folder: Path, topic: str, partition: int, records: Sequence[Record]) -> ArchivedPartition:
    path = folder / f"{topic}-{partition}.avro"
    with path.open("wb") as file:
        fastavro.writer(file, _SCHEMA, (_row(r) for r in records), codec=_CODEC, sync_marker=_MARKER, strict=True)
    return ArchivedPartition(
        topic=topic,
        partition=partition,
        records=len(records),
        next_offset=records[-1].offset + 1,
        bytes=path.stat().st_size,
        sha256=_sha256(path),
    )


def _row(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": record.key,
        "value": record.value,
        "headers": [{"name": name, "value": value} for name, value in record.headers],
    }


def _read(path: Path, part: ArchivedPartition) -> Iterator[Record]:
    count, previous = 0, -1
    with path.open("rb") as file:
        for row in _rows(file, path):
            if row["offset"] <= previous:
                raise ArchiveError(f"{path}: offset {row['offset']} follows {previous}: records are out of order")
            count, previous = count + 1, row["offset"]
            yield Record(
                topic=part.topic,
                partition=part.partition,
                offset=row["offset"],
                key=row["key"],
                value=row["value"],
                headers=tuple((header["name"], header["value"]) for header in row["headers"]),
                timestamp_ms=row["timestamp_ms"],
            )
    if count != part.records or previous + 1 != part.next_offset:
        raise ArchiveError(
            f"{path}: {count} records up to offset {previous}, but the manifest says {part.records} up to "
            f"{part.next_offset - 1}"
        )


def _rows(file: IO[bytes], path: Path) -> Iterator[dict[str, Any]]:
    try:
        yield from cast("Iterator[dict[str, Any]]", fastavro.reader(file, _SCHEMA))
    except (ValueError, EOFError, LookupError, TypeError, OverflowError, zlib.error) as error:
        raise ArchiveError(f"{path} is no Avro file of log records: {type(error).__name__}: {error}") from None


def _verify(path: Path, part: ArchivedPartition) -> None:
    try:
        found = _sha256(path)
    except FileNotFoundError:
        raise ArchiveError(f"{path} is missing: the archive is incomplete, copy it again") from None
    if found != part.sha256:
        raise ArchiveError(f"{path}: its SHA-256 is {found}, the manifest says {part.sha256}: the file was changed")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
