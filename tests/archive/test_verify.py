"""A thousand random falsifications of an archive, in every field, by somebody who mends every digest: all are found."""

import dataclasses
import hashlib
import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bat_events.domain.canonical import canonical_json
from bat_events.domain.sealing import long_bytes
from bat_events.events.heldout import EvaluationCellScored
from bat_events.events.rollouts import RolloutCompleted
from bat_events.log.belonging import round_of
from bat_events.log.heads import Head, read_heads
from bat_events.log.interface import Partition, Record
from bat_events.replay.archive_format import (
    LEAVES,
    MANIFEST,
    RECORD_SCHEMA,
    ArchiveError,
    Manifest,
    PartitionEntry,
    RoundEntry,
    file_entry,
    rounds_in,
)
from bat_events.replay.archive_reader import Archived, ArchiveReader
from bat_events.replay.archive_writer import PartitionWriter, _Rows
from bat_events.replay.proofs import check_proof, parse_proof, prove
from bat_events.replay.verify import Verification
from bat_events.replay.verify_archive import verify_archive
from tests.archive.logs import export, quiet
from tests.archive.sealing import CODEC, START_MS, sealed, timed_records
from tests.replay.loop import CAMPAIGN, PLAN, Loop
from tests.support.samples import as_record, sample, written

SMALL = PLAN.model_copy(update={"rounds": 1, "steps_per_round": 1, "group_size": 2})


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A sealed campaign with its held-out plane and its artefacts, as `log`, and the heads of both planes."""
    memory = Path("/dev/shm")  # a thousand rewrites: not onto a disk where there is another place
    folder = Path(tempfile.mkdtemp(dir=memory)) if memory.is_dir() else tmp_path_factory.mktemp("sealed")
    loop = Loop(seed=2, plan=SMALL)
    loop.run()
    cells = [
        dataclasses.replace(
            as_record(written(sample(EvaluationCellScored, n), campaign=CAMPAIGN, key=CAMPAIGN, ordinal=n), 2 * n),
            timestamp_ms=START_MS + n,
        )
        for n in range(6)
    ]
    records = [*in_one_partition(timed_records(loop)), *cells]
    records += sealed(records, folder / "open.jsonl")
    records += sealed(records, folder / "heldout.jsonl", heldout=True)
    made = {}  # the synthetic campaign's artefacts are the texts that its digests hash
    for record in records:
        event = CODEC.decode(record).event
        if isinstance(event, RolloutCompleted):
            for text in (canonical_json(["evidence", event.rollout]), canonical_json(["body", event.state])):
                made[hashlib.sha256(text).hexdigest()] = text
    export(
        records,
        folder / "log",
        CAMPAIGN,
        heldout=True,
        evidence={"training": made.get, "heldout": made.get},
        parallel=1,
    )
    yield folder
    shutil.rmtree(folder)


def in_one_partition(records: list[Record]) -> list[Record]:
    """The records with all topics in one partition each: fewer files to go through a thousand times."""
    found: list[Record] = []
    offsets: Counter[str] = Counter()
    for record in sorted(records, key=lambda r: (r.topic, r.timestamp_ms)):
        found.append(dataclasses.replace(record, partition=0, offset=offsets[record.topic]))
        offsets[record.topic] += 1
    return found


@pytest.fixture
def heads(base: Path) -> list[Head]:
    """What was kept elsewhere."""
    return [*read_heads(base / "open.jsonl"), *read_heads(base / "heldout.jsonl")]


def check(folder: Path, heads: list[Head] | None) -> Verification:
    return verify_archive(folder, heads, quiet, codec=CODEC)


def test_a_faithful_archive_is_found_faithful_and_what_is_unsealed_is_said(base: Path, heads: list[Head]) -> None:
    found = check(base / "log", heads)
    assert found.findings == ()
    assert [(p.plane, p.seals, p.unsealed, p.heads_checked) for p in found.planes] == [
        ("training", 2, 1, True),
        ("heldout", 2, 1, True),
    ]
    assert sum(p.sealed + p.unsealed for p in found.planes) == ArchiveReader(base / "log").manifest.records
    assert any("unsealed, after the last seal: seal[0] 1" in note for note in found.notes)
    assert any("no heads file was given" in note for note in check(base / "log", None).notes)


# -- falsifying: one record or file, all digests mended


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

    def rewrite(self, where: Partition, records: list[Record], *, mend_leaves: bool) -> None:
        """Other records in a partition: files, leaves (or the old ones), counts and digests made to fit."""
        folder = self.folder / where[0] / str(where[1])
        self.keep(*folder.iterdir())
        leaves = (folder / LEAVES).read_bytes()
        salt = b"\x07" * 32 if where[0].startswith("heldout.") else b""
        writer = PartitionWriter(self.folder, where[0], where[1], CAMPAIGN, salt=salt)
        for offset, record in enumerate(records):
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


def test_a_thousand_falsifications_are_all_found_and_their_events_named(base: Path, heads: list[Head]) -> None:
    rng = random.Random(20261129)
    forger = Forger(base / "log")
    last_seals = {(topic, 0): len(forger.parts[(topic, 0)]) - 1 for topic in ("seal", "heldout.seal")}
    tried: Counter[str] = Counter()
    for kind in (FIELDS + OTHERS) * 45:
        done = falsify(forger, kind, rng)
        # Without heads from elsewhere; only the last seal's own record needs them.
        last = done is not None and done.ordinal >= last_seals.get(done.where, done.ordinal + 1)
        found = check(base / "log", heads if last else None)
        lines = [finding.line() for finding in found.findings]
        if done is not None and done.kind == "added" and not lines:
            # What is added behind the last seal is not held by it: it is said to be unsealed.
            assert sum(plane.unsealed for plane in found.planes) == 3, f"{kind} {done}"
        else:
            assert lines, f"{kind} {done} was not found"
            if done is not None and "seal" not in done.where[0]:
                assert any(f.topic == done.where[0] for f in found.findings) or kind == "other partition", lines
            if done is not None and not done.mended and "seal" not in done.where[0]:
                named = [(f.kind, f.topic, f.partition, f.ordinal) for f in found.findings]
                assert (done.kind, *done.where, done.ordinal) in named, f"{kind} {done}: {lines}"
        tried[kind] += 1
        forger.restore()
        if sum(tried.values()) % 100 == 0:
            assert check(base / "log", heads).ok, "a falsification was left behind"
    assert sum(tried.values()) >= 1000
    assert set(tried) == {*FIELDS, *OTHERS}
    assert check(base / "log", heads).ok


def test_a_log_that_was_sealed_anew_is_found_by_heads_that_were_kept_elsewhere(
    base: Path, heads: list[Head], tmp_path: Path
) -> None:
    records = [
        a.record
        for where in ArchiveReader(base / "log").partitions
        for a in ArchiveReader(base / "log").records(*where)
    ]
    plain = [r for r in records if r.topic != "seal" and not r.topic.startswith("heldout.")]
    at = next(n for n, r in enumerate(plain) if r.topic == "promotion")
    plain[at] = changed(plain[at], "value and its digest", random.Random(1))
    export([*plain, *sealed(plain, tmp_path / "anew")], tmp_path / "log", CAMPAIGN, parallel=1)
    assert check(tmp_path / "log", None).ok, "within itself it is sound"
    kept = [head for head in heads if head.plane == "training"]
    (finding,) = check(tmp_path / "log", kept).findings
    assert (finding.kind, finding.topic, finding.ordinal) == ("changed", "seal", 0)
    assert "the heads file says" in finding.what
    cut = [r for r in records if not r.topic.startswith("heldout.")][:-1]
    export(cut, tmp_path / "cut", CAMPAIGN, parallel=1)
    assert [f.kind for f in check(tmp_path / "cut", kept).findings] != []


def test_one_round_alone_verifies_by_the_leaves_of_what_was_left_out(
    base: Path, heads: list[Head], tmp_path: Path
) -> None:
    reader = ArchiveReader(base / "log")
    records = [a.record for where in reader.partitions for a in reader.records(*where)]
    open_ones = [r for r in records if not r.topic.startswith("heldout.")]
    manifest = export(open_ones, tmp_path / "one", CAMPAIGN, only_round=0, parallel=1)
    found = check(tmp_path / "one", heads)
    assert found.findings == ()
    assert found.planes[0].sealed + found.planes[0].unsealed == manifest.records
    leaves = tmp_path / "one" / "rollout" / "0" / "leaves"
    leaves.write_bytes(b"\0" * len(leaves.read_bytes()))
    assert {f.topic for f in check(tmp_path / "one", heads).findings} == {"", "rollout"}


def test_heads_of_another_log_say_nothing_against_this_one(base: Path, heads: list[Head]) -> None:
    other = [head.model_copy(update={"campaign": "another"}) for head in heads]
    found = check(base / "log", other)
    assert found.ok
    assert any("holds no head of this campaign" in note for note in found.notes)


def test_a_proof_is_checked_offline_and_a_falsified_one_fails(base: Path, heads: list[Head]) -> None:
    reader = ArchiveReader(base / "log")
    rng = random.Random(5)
    for topic in ("promotion", "rollout", "heldout.cell", "seal"):
        archived = next(reader.records(topic, 0))
        proof = prove(base / "log", CODEC.decode(archived.record).id)
        assert (proof.topic, proof.ordinal) == (topic, 0)
        assert check_proof(proof, heads) is None
        text = proof.model_dump_json().encode()
        assert parse_proof(text) == proof
        refused = 0
        for _ in range(40):
            at = rng.randrange(len(text))
            other = text[:at] + bytes([text[at] ^ (1 << rng.randrange(7))]) + text[at + 1 :]
            try:
                same = parse_proof(other)
            except ArchiveError:
                refused += 1
                continue
            assert same == proof or check_proof(same, heads) is not None
        assert refused < 40
        assert "does not hold head" in (check_proof(proof, []) or "")
    with pytest.raises(ArchiveError, match="held by no seal"):
        prove(base / "log", next(head.event for head in heads if head.round is None))
    with pytest.raises(ArchiveError, match="is not in"):
        prove(base / "log", "0" * 32)
