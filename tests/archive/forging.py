"""Somebody who changes an archive and mends every digest that can be mended: for tests that must find it."""

import dataclasses
import hashlib
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bat_events.domain.sealing import long_bytes
from bat_events.log.belonging import round_of
from bat_events.log.interface import Partition, Record
from bat_events.replay.archive_format import (
    LEAVES,
    MANIFEST,
    RECORD_SCHEMA,
    Manifest,
    PartitionEntry,
    RoundEntry,
    file_entry,
    rounds_in,
)
from bat_events.replay.archive_reader import Archived, ArchiveReader
from bat_events.replay.archive_writer import PartitionWriter, _Rows


class Forger:
    """Changes an archive in place, mends the manifest, and puts everything back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reader = ArchiveReader(folder)
        self.parts = {where: list(self.reader.records(*where)) for where in self.reader.partitions}
        self.full = [where for where, part in self.parts.items() if part]
        self._saved: dict[Path, bytes | None] = {}
        self._there = {path for path in folder.rglob("*") if path.is_file()}

    def keep(self, *paths: Path) -> None:
        """Remember files that are going to change."""
        for path in paths:
            self._saved.setdefault(path, path.read_bytes() if path.exists() else None)

    def restore(self) -> None:
        """Everything as it was: a file that was not there is taken away again."""
        for folder in {path.parent for path in self._saved if path.name != MANIFEST}:
            for path in folder.iterdir():
                if path.is_file() and path not in self._there:
                    path.unlink()
        for path, content in self._saved.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        self._saved.clear()

    def manifest(self, change: Callable[[dict[str, Any]], Any], *, mended: bool = True) -> None:
        """Edit the manifest, its own digest mended or not."""
        path = self.folder / MANIFEST
        self.keep(path)
        data = json.loads(path.read_text())
        change(data)
        if mended:
            data["sha256"] = Manifest.model_validate_json(json.dumps(data)).digest()
        path.write_text(json.dumps(data))

    def rewrite(
        self, where: Partition, records: list[Record], *, mend_leaves: bool, offsets: Sequence[int] | None = None
    ) -> None:
        """Other records in a partition: files, leaves (or the old ones), counts and digests made to fit.

        `offsets`: those of the log; None: the records are numbered anew.
        """
        folder = self.folder / where[0] / str(where[1])
        self.keep(*folder.iterdir())
        leaves = (folder / LEAVES).read_bytes()
        salt = b"\x07" * 32 if where[0].startswith("heldout.") else b""
        writer = PartitionWriter(self.folder, where[0], where[1], self.reader.manifest.campaign, salt=salt)
        for offset, record in zip(offsets or range(len(records)), records, strict=True):
            writer.add(dataclasses.replace(record, offset=offset))
        entry = writer.finish(judged=1 << 60).model_dump(mode="json")
        if not mend_leaves:
            (folder / LEAVES).write_bytes(leaves)
            entry["leaves"] = file_entry(folder / LEAVES, len(leaves) // 32).model_dump(mode="json")
        self._replace(where, entry)

    def _replace(self, where: Partition, entry: dict[str, Any]) -> None:
        def change(data: dict[str, Any]) -> None:
            for at, part in enumerate(data["partitions"]):
                if (part["topic"], part["partition"]) == where:
                    data["records"] += entry["records"] - part["records"]
                    data["partitions"][at] = entry
            data["rounds"] = rounds_in([PartitionEntry.model_validate(part) for part in data["partitions"]])

        self.manifest(change)

    def move_between_rounds(self, where: Partition, at: int) -> bool:
        """Put a record's row into the file of another round; the order by ordinal stays as it was."""
        part = self.reader.entry(*where)
        rows = {entry.round: [a for a in self.parts[where] if _round(a) == entry.round] for entry in part.files}
        moved = self.parts[where][at]
        targets = [number for number in rows if number != _round(moved)]
        if not targets:
            return False
        rows[_round(moved)].remove(moved)
        rows[targets[0]] = sorted([*rows[targets[0]], moved], key=lambda a: a.ordinal)
        folder = self.folder / where[0] / str(where[1])
        self.keep(*folder.iterdir())
        entry = part.model_dump(mode="json")
        entry["files"] = []
        for number, archived in rows.items():
            name = RoundEntry(round=number, records=0, bytes=0, sha256="0" * 64).name
            (folder / name).unlink()
            if archived:
                file = _Rows(folder / name, RECORD_SCHEMA)
                for a in archived:
                    file.add(long_bytes(a.ordinal) + long_bytes(a.record.offset) + a.content())
                entry["files"].append({"round": number, **file.close().model_dump(mode="json")})
        self._replace(where, entry)
        return True


def _round(archived: Archived) -> int | None:
    return round_of(archived.record.headers)


def flipped(content: bytes, rng: random.Random) -> bytes:
    """One bit changed, one byte added or one taken away."""
    if not content or rng.random() < 0.2:
        return content + bytes([rng.randrange(256)])
    at = rng.randrange(len(content))
    if rng.random() < 0.2:
        return content[:at] + content[at + 1 :]
    return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]


def changed(record: Record, field: str, rng: random.Random) -> Record:
    """The record with one field changed."""
    headers = list(record.headers)
    at = rng.randrange(len(headers))
    name, value = headers[at]
    if field == "key":
        return dataclasses.replace(record, key=flipped(record.key, rng))
    if field == "value":
        return dataclasses.replace(record, value=flipped(record.value, rng))
    if field == "value and its digest":
        new = flipped(record.value, rng)
        fits = [(n, hashlib.sha256(new).hexdigest().encode() if n == "bat_digest" else v) for n, v in headers]
        return dataclasses.replace(record, value=new, headers=tuple(fits))
    if field == "timestamp":
        return dataclasses.replace(record, timestamp_ms=record.timestamp_ms + rng.choice((-1, 1, 1000)))
    if field == "header value":
        while name in ("bat_campaign", "bat_round"):  # those two say where a record lies: see the kinds that move it
            name, value = headers[at := (at + 1) % len(headers)]
        headers[at] = (name, flipped(value, rng))
    elif field == "header name":
        headers[at] = (name + "x", value)
    elif field == "header gone":
        del headers[at]
    elif field == "header added":
        headers.insert(at, ("x-added", b"1"))
    elif field == "headers swapped":
        headers[at], headers[at - 1] = headers[at - 1], headers[at]
    elif field == "round":
        headers = [(n, b"7" if n == "bat_round" else v) for n, v in headers if n != "bat_round" or rng.random() < 0.5]
        headers = headers if tuple(headers) != record.headers else [*headers, ("bat_round", b"9")]
    elif field == "campaign":
        headers = [(n, b"another" if n == "bat_campaign" else v) for n, v in headers]
    return dataclasses.replace(record, headers=tuple(headers))


FIELDS = (
    "key",
    "value",
    "value and its digest",
    "timestamp",
    "header value",
    "header name",
    "header gone",
    "header added",
    "headers swapped",
    "round",
    "campaign",
)
OTHERS = (
    "swapped",
    "moved far",
    "deleted",
    "doubled",
    "inserted",
    "other partition",
    "other round's file",
    "file cut",
    "file byte",
    "manifest",
    "artefact",
    "leaves",
)


@dataclasses.dataclass
class Done:
    """What was falsified: the event that a check must name and how, where the leaves were left as they were."""

    where: Partition
    ordinal: int
    kind: str
    mended: bool


def falsify(forger: Forger, kind: str, rng: random.Random) -> Done | None:
    """Falsify the archive; None where it was a file and no single event."""
    where = rng.choice([w for w in forger.full if kind not in ("swapped", "moved far") or len(forger.parts[w]) > 2])
    part = [archived.record for archived in forger.parts[where]]
    at = rng.randrange(len(part) - (kind in ("swapped", "moved far")))
    mend = rng.random() < 0.5
    if kind in FIELDS:
        part[at] = changed(part[at], kind, rng)
        forger.rewrite(where, part, mend_leaves=mend)
        return Done(where, at, "missing" if kind == "campaign" else "changed", mend)
    if kind in ("swapped", "moved far"):
        to = at + 1 if kind == "swapped" else rng.randrange(at + 1, len(part))
        part.insert(to, part.pop(at))
        forger.rewrite(where, part, mend_leaves=mend)
        return Done(where, at, "reordered", mend)
    if kind == "deleted":
        del part[at]
        forger.rewrite(where, part, mend_leaves=mend)
        return Done(where, at, "missing", mend)
    if kind in ("doubled", "inserted"):
        new = part[at] if kind == "doubled" else changed(part[at], "value and its digest", rng)
        part.insert(at, new)
        forger.rewrite(where, part, mend_leaves=mend)
        return Done(where, at + (kind == "doubled"), "added", mend)
    if kind == "other partition":
        other = rng.choice([w for w in forger.full if w != where])
        moved = part.pop(at)
        forger.rewrite(where, part, mend_leaves=mend)
        theirs = [archived.record for archived in forger.parts[other]]
        theirs.insert(rng.randrange(len(theirs) + 1), dataclasses.replace(moved, topic=other[0], partition=other[1]))
        forger.rewrite(other, theirs, mend_leaves=mend)
        return Done(where, at, "missing", mend or "seal" in where[0] or "seal" in other[0])
    if kind == "other round's file":
        places = [(w, n) for w in forger.full for n in range(len(forger.parts[w]))]
        rng.shuffle(places)
        where, at = next(place for place in places if forger.move_between_rounds(*place))
        return Done(where, at, "changed", mended=False)
    files = [p for p in sorted(forger.folder.rglob("*")) if p.is_file() and p.stat().st_size and p.name != MANIFEST]
    if kind == "artefact":
        files = [p for p in files if "artifacts" in p.as_posix()]
    if kind == "leaves":
        files = [p for p in files if p.name == LEAVES]
    if kind == "manifest":
        _edit_manifest(forger, rng)
        return None
    path = rng.choice(files)
    forger.keep(path)
    content = path.read_bytes()
    if kind == "file cut":
        content = content[: rng.randrange(len(content))]
        if not content or (kind == "artefact" and rng.random() < 0.3):
            path.unlink()
            return None
    else:
        content = flipped(content, rng)
    path.write_bytes(content)
    return None


def _edit_manifest(forger: Forger, rng: random.Random) -> None:
    """Any value of the manifest changed without its digest; some, mended, that what lies in the folder contradicts."""
    places: list[tuple[Any, Any]] = []

    def collect(node: Any) -> None:
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            places.append((node, key))
            if isinstance(value, dict | list):
                collect(value)

    def change(data: dict[str, Any]) -> None:
        collect(data)
        node, key = rng.choice(places)
        value = node[key]
        if isinstance(value, str):
            node[key] = value[:-1] + ("0" if value[-1:] != "0" else "1")
        elif isinstance(value, int):
            node[key] = value + 1
        elif isinstance(value, list) and value:
            value.pop(rng.randrange(len(value)))
        else:
            node[key] = 0 if value is None else None

    def contradicted(data: dict[str, Any]) -> None:
        part = rng.choice([p for p in data["partitions"] if p["files"]])
        which = rng.randrange(4)
        if which == 0:
            part["files"][0]["sha256"] = "0" * 64
        elif which == 1:
            part["leaves"]["sha256"] = "0" * 64
        elif which == 2:
            data["campaign"] = "another"
        else:
            data["schemas"].pop()

    if rng.random() < 0.6:
        forger.manifest(change, mended=False)
    else:
        forger.manifest(contradicted)
