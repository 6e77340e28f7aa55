"""The second archive format: one campaign as Avro container files per topic, partition and round (docs/archive.md).

manifest.json                     written last; without it a folder is no archive
TOPIC/PARTITION/round-0001.avro   the campaign's records whose `bat_round` header says 1
TOPIC/PARTITION/campaign.avro     its records without that header
TOPIC/PARTITION/others.avro       where other campaigns' records stood: offset, id and time, no content
TOPIC/PARTITION/leaves            the leaf hash of every record of the partition, 32 bytes each, by ordinal
schemas/DIGEST.avsc               the writers' schemas
artifacts/AB/ABCD…, artifacts.txt with evidence: what events name by digest, and the list of it (held-out: heldout-…)
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from backports import zstd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bat_events.domain.sealing import long_bytes
from bat_events.log.topics import BY_NAME, IMPORT_TOPIC, SCHEMA_TOPIC, SEAL_TOPIC
from bat_events.replay.source import ReplayError

FORMAT = "bat-events-archive"
VERSION = 2
MANIFEST = "manifest.json"
LEAVES = "leaves"
OTHERS = "others.avro"
ARTIFACTS = {"training": "artifacts", "heldout": "heldout-artifacts"}
"""Folder of a plane's artefacts; the list of them has the same name and `.txt`: one line each, digest and bytes."""
SCHEMAS = "schemas"
CODEC = "zstandard"
LEVEL = 3
BLOCK_BYTES = 1 << 18
"""Uncompressed bytes after which a block of an Avro file ends: what a reader holds at once."""

SEAL_TOPICS = (SEAL_TOPIC, "heldout.seal")
"""Archived whole, also where one round is: without the chain no seal can be checked."""

NOT_ARCHIVED = frozenset({SCHEMA_TOPIC, IMPORT_TOPIC})
"""Topics that are no part of a campaign's archive: schemas travel as files, and imports are of one log only."""


class ArchiveError(ReplayError):
    """An archive is incomplete, changed, or of another format."""


def _record(name: str, fields: list[tuple[str, Any]]) -> dict[str, Any]:
    listed = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": name, "namespace": "bat.archive", "fields": listed}


_HEADER = {
    "type": "record",
    "name": "Header",
    "fields": [{"name": "name", "type": "string"}, {"name": "value", "type": "bytes"}],
}
RECORD_SCHEMA = _record(
    "ArchivedRecord",
    [
        ("ordinal", "long"),
        ("offset", "long"),
        ("timestamp_ms", "long"),
        ("key", "bytes"),
        ("value", "bytes"),
        ("headers", {"type": "array", "items": _HEADER}),
    ],
)
"""A record of the campaign. From `timestamp_ms` on these are the bytes that its leaf hashes (domain.sealing)."""

OTHER_SCHEMA = _record("OtherRecord", [("offset", "long"), ("id", "string"), ("time", "string")])
"""Where another campaign's record stood: a cut counts it, and its time may be a decision's. No content."""

MARKER = hashlib.sha256(b"bat-events-archive/2").digest()[:16]  # fixed, so that equal records give equal bytes

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class FileEntry(_Part):
    """One file: how long it is, its SHA-256, and how many records it holds."""

    records: Count
    bytes: Count
    sha256: Sha256


class RoundEntry(FileEntry):
    """A partition's records of one round; round None: those that name none."""

    round: Annotated[int, Field(ge=0)] | None

    @property
    def name(self) -> str:
        """The file's name: made from the round, never taken from the manifest."""
        return "campaign.avro" if self.round is None else f"round-{self.round:04d}.avro"


class PartitionEntry(_Part):
    """One partition. `records` are the campaign's.

    `offset_end` is one past the last record that stood there, `offset_judged` where replay stops comparing: no broker gives the
    ends of several partitions at one moment, so what came while they were taken is input only.
    """

    topic: str
    partition: Count
    records: Count
    offset_judged: Count
    offset_end: Count
    files: list[RoundEntry]
    others: FileEntry | None
    leaves: FileEntry

    def folder(self, root: Path) -> Path:
        """Where its files lie."""
        return root / self.topic / str(self.partition)


class TopicEntry(_Part):
    """How a topic was declared and how many partitions it had: an import makes it so again."""

    name: str
    partitions: Annotated[int, Field(ge=1)]
    writer: str
    plane: str
    parallel: bool


class EvidenceEntry(_Part):
    """A plane's artefacts beside the log: how many, and the list of them. `missing` were named and not in the store."""

    plane: Literal["training", "heldout"]
    artifacts: Count
    bytes: Count
    list_sha256: Sha256
    missing: list[Sha256]


class Manifest(_Part):
    """`manifest.json`. `only_round`: the archive holds one round (and what names none), not the whole campaign."""

    format: Literal["bat-events-archive"]
    version: Literal[2]
    campaign: str
    namespace: str
    only_round: Annotated[int, Field(ge=0)] | None
    rounds: list[int]
    heldout: Literal["included", "not included"]
    records: Count
    topics: list[TopicEntry]
    partitions: list[PartitionEntry]
    schemas: list[Sha256]
    schemas_missing: list[Sha256]
    evidence: list[EvidenceEntry]
    package_version: str
    sha256: Sha256

    def digest(self) -> str:
        """SHA-256 over everything but itself."""
        data = self.model_dump(mode="json")
        del data["sha256"]
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an archive, checked in itself. Raises ArchiveError saying what is wrong with it."""
    path = folder / MANIFEST
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise ArchiveError(
            f"{folder} is no archive: it has no {MANIFEST}; an export that was stopped goes on"
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ArchiveError(f"{path}: {field}: {first['msg']}") from None
    fault = _fault(manifest)
    if fault is not None:
        raise ArchiveError(f"{path}: {fault}")
    return manifest


def _fault(manifest: Manifest) -> str | None:
    if manifest.digest() != manifest.sha256:
        return "its own SHA-256 does not fit: the manifest was changed"
    names = [(part.topic, part.partition) for part in manifest.partitions]
    if len(set(names)) != len(names):
        return "a partition is named twice"
    places = {(topic.name, number) for topic in manifest.topics for number in range(topic.partitions)}
    if places != set(names):
        return f"its partitions are not those of its topics: {sorted(places ^ set(names))[:3]}"
    for part in manifest.partitions:
        where = f"{part.topic}[{part.partition}]"
        if part.topic not in BY_NAME or part.topic in NOT_ARCHIVED:
            return f"topic {part.topic!r} does not belong into an archive: install a newer bat-events if it is new"
        if BY_NAME[part.topic].plane == "heldout" and manifest.heldout != "included":
            return f"{where} is of the held-out plane, which the manifest says is not included"
        rounds = [entry.round for entry in part.files]
        if len(set(rounds)) != len(rounds):
            return f"{where}: a round is named twice"
        if manifest.only_round is None and sum(entry.records for entry in part.files) != part.records:
            return f"{where}: its files do not add up to {part.records} records"
        if part.leaves.bytes != 32 * part.leaves.records:
            return f"{where}: {part.leaves.records} leaves in {part.leaves.bytes} bytes"
        if part.offset_judged > part.offset_end:
            return f"{where}: offset_judged lies behind offset_end"
    if sum(part.records for part in manifest.partitions) != manifest.records:
        return f"its partitions do not add up to {manifest.records} records"
    found = rounds_in(manifest.partitions)
    if found != manifest.rounds:
        return f"its files are of rounds {found}, not {manifest.rounds}"
    return None


def rounds_in(parts: Iterable[PartitionEntry]) -> list[int]:
    """The rounds that records lie under; seals, which are in every archive, aside."""
    named = {entry.round for part in parts if part.topic not in SEAL_TOPICS for entry in part.files}
    return sorted(number for number in named if number is not None)


def file_entry(path: Path, records: int) -> FileEntry:
    """The entry of a finished file."""
    return FileEntry(records=records, bytes=path.stat().st_size, sha256=sha256_of(path))


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_file(path: Path, entry: FileEntry) -> None:
    """Raises ArchiveError where a file is not there or not the one that the manifest names."""
    try:
        found = sha256_of(path)
    except OSError:
        raise ArchiveError(f"{path} is missing: the archive is incomplete, copy it again") from None
    if found != entry.sha256:
        raise ArchiveError(f"{path}: its SHA-256 is {found}, the archive says {entry.sha256}: the file was changed")


def check_schema(path: Path, digest: str) -> None:
    """Raises ArchiveError where a schema is not there or not the one of its name."""
    check_file(path, FileEntry(records=0, bytes=0, sha256=digest))


_LIST_LINE = re.compile(r"([0-9a-f]{64}) ([0-9]{1,15})\n")


def check_digest_line(path: Path, line: str) -> tuple[str, int]:
    """A line of a list of artefacts. Raises ArchiveError."""
    found = _LIST_LINE.fullmatch(line)
    if found is None:
        raise ArchiveError(f"{path}: {line[:80]!r} is no digest and size")
    return found[1], int(found[2])


@dataclass(frozen=True, kw_only=True, slots=True)
class Other:
    """Where another campaign's record stood. `id` and `time` are its headers' texts."""

    offset: int
    id: str
    time: str


def container_header(schema: Any) -> bytes:
    """What an Avro container file begins with: magic, codec, schema, sync marker."""
    metadata = {"avro.codec": CODEC.encode(), "avro.schema": json.dumps(schema, separators=(",", ":")).encode()}
    parts = [b"Obj\x01", long_bytes(len(metadata))]
    for name, value in metadata.items():
        parts += (long_bytes(len(name)), name.encode(), long_bytes(len(value)), value)
    return b"".join((*parts, b"\x00", MARKER))


def container_block(rows: int, data: bytes) -> bytes:
    """One block of an Avro container file."""
    packed = zstd.compress(data, level=LEVEL)
    return b"".join((long_bytes(rows), long_bytes(len(packed)), packed, MARKER))
