"""The artefacts that a campaign's events name: into an archive, and checked in one.

An event names an artefact by its SHA-256 in a field called `body`, `evidence`, `weights` or `checkpoint`. A folder (weights) is
a manifest that names its files, which come along. Which artefacts there are follows from the log; the bytes are got and put by
who has the right to the store.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel

from bat_events.codec import Codec
from bat_events.errors import DecodeError
from bat_events.log.topics import BY_NAME
from bat_events.replay.archive_format import (
    ARTIFACTS,
    ArchiveError,
    EvidenceEntry,
    PartitionEntry,
    check_digest_line,
    sha256_of,
)
from bat_events.replay.archive_reader import rows_of
from bat_events.replay.archive_writer import write_whole

FIELDS = frozenset({"body", "evidence", "weights", "checkpoint"})
Fetch = Callable[[str], bytes | None]
"""The bytes of a digest, or None where the store has it not."""

_DIGEST = re.compile(r"[0-9a-f]{64}")  # a leakage check's `evidence` is words
_FOLDER = b'"kind":"folder"'


def named_in(event: BaseModel) -> Iterator[str]:
    """The digests of the artefacts that an event names, its nested records' too."""
    for name, value in event.__dict__.items():
        if name in FIELDS and isinstance(value, str) and _DIGEST.fullmatch(value):
            yield value
        elif isinstance(value, tuple):
            for part in value:
                if isinstance(part, BaseModel):
                    yield from named_in(part)
        elif isinstance(value, BaseModel):
            yield from named_in(value)


def artifact_path(folder: Path, plane: str, digest: str) -> Path:
    """Where an archive keeps an artefact."""
    return folder / ARTIFACTS[plane] / digest[:2] / digest


def write_evidence(
    folder: Path,
    entries: Sequence[PartitionEntry],
    schemas: Sequence[bytes],
    plane: str,
    fetch: Fetch,
    say: Callable[[str], None],
) -> EvidenceEntry:
    """Copy what the records of a plane's topics name; what lies there already is checked and kept. Raises ArchiveError."""
    codec = Codec()
    for text in schemas:
        codec.learn(text)
    waiting = sorted(_named(folder, entries, codec, plane), reverse=True)
    sizes: dict[str, int] = {}
    missing: list[str] = []
    seen = set(waiting)
    while waiting:
        digest = waiting.pop()
        content = _take(folder, plane, digest, fetch)
        if content is None:
            missing.append(digest)
            continue
        sizes[digest] = len(content)
        fresh = [part for part in folder_files(content) if part not in seen]
        seen.update(fresh)
        waiting += fresh
        if len(sizes) % 500 == 0:
            say(f"{plane} artefacts: {len(sizes):,} copied, {len(waiting):,} waiting")
    lines = "".join(f"{digest} {size}\n" for digest, size in sorted(sizes.items())).encode()
    write_whole(folder / f"{ARTIFACTS[plane]}.txt", lines)
    say(f"{plane} artefacts: {len(sizes):,} copied, {len(missing):,} not in the store")
    return EvidenceEntry.model_validate(
        {
            "plane": plane,
            "artifacts": len(sizes),
            "bytes": sum(sizes.values()),
            "list_sha256": hashlib.sha256(lines).hexdigest(),
            "missing": sorted(missing),
        }
    )


def _named(folder: Path, entries: Sequence[PartitionEntry], codec: Codec, plane: str) -> set[str]:
    found: set[str] = set()
    for part in entries:
        if (BY_NAME[part.topic].plane == "heldout") != (plane == "heldout"):
            continue
        for entry in part.files:
            for archived in rows_of(folder, part, entry):
                try:
                    found.update(named_in(codec.decode(archived.record).written))
                except DecodeError:  # what is no event names nothing
                    continue
    return found


def _take(folder: Path, plane: str, digest: str, fetch: Fetch) -> bytes | None:
    path = artifact_path(folder, plane, digest)
    if path.exists():
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() == digest:
            return content
    fetched = fetch(digest)
    if fetched is not None:
        if hashlib.sha256(fetched).hexdigest() != digest:
            raise ArchiveError(f"the store gave other bytes than {digest} names: the artefact was changed")
        write_whole(path, fetched)
    return fetched


def folder_files(content: bytes) -> list[str]:
    """The digests of a folder artefact's files; empty where the bytes are no folder's manifest."""
    if _FOLDER not in content or not content.startswith(b"{"):
        return []
    try:
        data = json.loads(content)
        return [str(entry["sha256"]) for entry in data["files"].values()]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


def listed(folder: Path, entry: EvidenceEntry) -> Iterator[tuple[str, int]]:
    """(digest, bytes) of every artefact of a plane. Raises ArchiveError where the list is not the manifest's."""
    path = folder / f"{ARTIFACTS[entry.plane]}.txt"
    try:
        found = sha256_of(path)
    except OSError:
        raise ArchiveError(f"{path} is missing: the archive is incomplete, copy it again") from None
    if found != entry.list_sha256:
        raise ArchiveError(f"{path}: its SHA-256 is {found}, the manifest says {entry.list_sha256}: it was changed")
    with path.open() as file:
        for line in file:
            yield check_digest_line(path, line)


def checked(folder: Path, plane: str, digest: str, size: int) -> bytes:
    """An artefact's bytes. Raises ArchiveError where they are missing or not those of the digest."""
    path = artifact_path(folder, plane, digest)
    try:
        content = path.read_bytes()
    except OSError:
        raise ArchiveError(f"{path} is missing: the archive is incomplete, copy it again") from None
    if len(content) != size or hashlib.sha256(content).hexdigest() != digest:
        raise ArchiveError(f"{path} has other bytes than its name says: the artefact was changed")
    return content
