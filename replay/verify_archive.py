"""An archive against its manifest and its seals: files, places of rows, artefacts; then `verify`."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bat_events.codec import Codec
from bat_events.domain.sealing import long_bytes
from bat_events.log.belonging import round_of
from bat_events.log.heads import Head
from bat_events.log.interface import Partition, Record
from bat_events.replay.archive_evidence import artifact_path, checked, listed
from bat_events.replay.archive_format import (
    ARTIFACTS,
    LEAVES,
    MANIFEST,
    OTHERS,
    SCHEMAS,
    ArchiveError,
    PartitionEntry,
    check_file,
    check_schema,
)
from bat_events.replay.archive_raw import Raw, raw_rows
from bat_events.replay.archive_reader import ArchiveReader, merged
from bat_events.replay.findings_of_seals import Finding
from bat_events.replay.self_check import decode_content
from bat_events.replay.verify import Say, Verification, verify

_ROUND_HEADER = long_bytes(len("bat_round")) + b"bat_round"
_SCHEMA_HEADER = long_bytes(len("ce_dataschema")) + b"ce_dataschema" + long_bytes(71) + b"sha256:"
_CHUNK = 1 << 17


class ArchiveLog:
    """An archive as a SealedLog. `misplaced` collects rows that lie where they do not belong, `schemas_named` what rows name."""

    def __init__(self, archive: ArchiveReader) -> None:
        self._archive = archive
        self.name = f"archive {archive.folder.name}"
        self.campaign = archive.manifest.campaign
        self.partial = archive.manifest.only_round is not None
        self.misplaced: dict[Partition, Finding] = {}
        self.schemas_named: set[bytes] = set()

    def partitions(self) -> Sequence[Partition]:
        """See SealedLog."""
        return self._archive.partitions

    def schemas(self) -> Mapping[str, bytes]:
        """See SealedLog. One that is changed is no schema: that is a finding of its own, and seals are looked at all the same."""
        with contextlib.suppress(ArchiveError):
            return dict(zip(self._archive.manifest.schemas, self._archive.schemas(), strict=True))
        return {}

    def seals(self, topic: str) -> Iterable[Record]:
        """See SealedLog."""
        return (archived.record for archived in self._archive.records(topic, 0))

    def rows(self, where: Partition) -> Iterable[Raw]:
        """See SealedLog. Raises ArchiveError where a file cannot be read."""
        entry = self._archive.entry(*where)
        sources = [self._of_round(entry, part.name, part.records, part.round) for part in entry.files]
        return merged(sources, lambda row: row[0], f"{where[0]}[{where[1]}]")

    def leaves(self, where: Partition) -> Iterator[bytes] | None:
        """See SealedLog."""
        path = self._archive.entry(*where).folder(self._archive.folder) / LEAVES
        return _chunks(path) if path.exists() else None

    def kept(self, where: Partition) -> bytes | None:
        """See SealedLog."""
        listed = self.leaves(where)
        return None if listed is None else b"".join(listed)

    def _of_round(self, entry: PartitionEntry, name: str, records: int, number: int | None) -> Iterator[Raw]:
        """A file's rows; each is asked which round it names, by looking for the header's bytes."""
        where = (entry.topic, entry.partition)
        wanted = b""
        if number is not None:
            digits = str(number).encode()
            wanted = _ROUND_HEADER + long_bytes(len(digits)) + digits
        for row in raw_rows(entry.folder(self._archive.folder) / name, records):
            _, content, headers = row
            schema = content.find(_SCHEMA_HEADER, headers)
            if schema >= 0:
                start = schema + len(_SCHEMA_HEADER)
                self.schemas_named.add(content[start : start + 64])
            found = content.find(_ROUND_HEADER, headers)
            fits = found < 0 if number is None else found >= 0 and content.startswith(wanted, found)
            if not fits and where not in self.misplaced:
                self._look(where, row, number, name)
            yield row

    def _look(self, where: Partition, row: Raw, number: int | None, name: str) -> None:
        ordinal, content, _ = row
        try:
            record = decode_content(content, *where)
            if round_of(record.headers) == number:
                return
            what = f"it is of round {round_of(record.headers)} and lies in {name}"
        except ValueError as error:
            what = str(error)
        self.misplaced[where] = Finding(kind="changed", topic=where[0], partition=where[1], ordinal=ordinal, what=what)


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def verify_archive(folder: Path, heads: Sequence[Head] | None, say: Say, *, codec: Codec | None = None) -> Verification:
    """Check an archive: its files against the manifest, its records against the seals, its artefacts against their digests.

    A file that is not the manifest's is a finding, and the records are looked at all the same: what differs in them is
    named where it can be. Raises ArchiveError for an archive of another format.
    """
    try:
        archive = ArchiveReader(folder, check=False)
    except ArchiveError as error:
        finding = Finding(kind="file", what=str(error))
        return Verification(name=f"archive {folder.name}", campaign="", planes=(), findings=(finding,), notes=())
    files = list(_files(archive, say))
    log = ArchiveLog(archive)
    try:
        found = verify(log, heads, say, codec=codec)
    except ArchiveError as error:
        finding = Finding(kind="file", what=str(error))
        found = Verification(
            name=log.name, campaign=log.campaign, planes=(), findings=(finding,), notes=("the check ended there",)
        )
    manifest = archive.manifest
    lacking = {name.decode("ascii", "replace") for name in log.schemas_named} - {
        *manifest.schemas,
        *manifest.schemas_missing,
    }
    files += [
        Finding(kind="file", what=f"schema {digest} is named by records and not here") for digest in sorted(lacking)
    ]
    misplaced = [log.misplaced[where] for where in sorted(log.misplaced)]
    return dataclasses.replace(found, findings=(*found.findings, *misplaced, *files))


def _files(archive: ArchiveReader, say: Say) -> Iterator[Finding]:
    """Files that are not the manifest's, are missing, or are not named by it."""
    folder, manifest = archive.folder, archive.manifest
    expected = {folder / MANIFEST}
    for part in manifest.partitions:
        place = part.folder(folder)
        entries = [(place / entry.name, entry) for entry in part.files]
        entries += [(place / LEAVES, part.leaves)]  # type: ignore[list-item]
        entries += [] if part.others is None else [(place / OTHERS, part.others)]  # type: ignore[list-item]
        for path, entry in entries:
            expected.add(path)
            yield from _caught(lambda path=path, entry=entry: check_file(path, entry))  # type: ignore[misc]
    for digest in manifest.schemas:
        path = folder / SCHEMAS / f"{digest}.avsc"
        expected.add(path)
        yield from _caught(lambda path=path, digest=digest: check_schema(path, digest))  # type: ignore[misc]
    for evidence in manifest.evidence:
        expected.add(folder / f"{ARTIFACTS[evidence.plane]}.txt")
        count = size = 0
        try:
            for digest, length in listed(folder, evidence):
                count, size = count + 1, size + length
                expected.add(artifact_path(folder, evidence.plane, digest))
                yield from _caught(
                    lambda plane=evidence.plane, digest=digest, length=length: checked(folder, plane, digest, length)  # type: ignore[misc]
                )
        except ArchiveError as error:
            yield Finding(kind="file", what=str(error))
            continue
        if (count, size) != (evidence.artifacts, evidence.bytes):
            yield Finding(kind="file", what=f"{evidence.plane} artefacts: the list and the manifest differ")
        say(f"{evidence.plane} artefacts: {count:,} checked")
    for path in sorted(folder.rglob("*")):
        if path not in expected and (path.is_symlink() or not path.is_dir()):
            yield Finding(kind="file", what=f"{path} is not named by the manifest: it was added")


def _caught(check: Callable[[], object]) -> Iterator[Finding]:
    try:
        check()
    except ArchiveError as error:
        yield Finding(kind="file", what=str(error))
