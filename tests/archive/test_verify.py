"""A thousand random falsifications of an archive, in every field, by somebody who mends every digest: all are found."""

import dataclasses
import hashlib
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bat_events.domain.canonical import canonical_json
from bat_events.events.heldout import EvaluationCellScored
from bat_events.events.rollouts import RolloutCompleted
from bat_events.log.heads import Head, read_heads
from bat_events.log.interface import Record
from bat_events.replay.archive_format import (
    ArchiveError,
)
from bat_events.replay.archive_reader import ArchiveReader
from bat_events.replay.proofs import check_proof, parse_proof, prove
from bat_events.replay.verify import Verification
from bat_events.replay.verify_archive import verify_archive
from tests.archive.forging import FIELDS, OTHERS, Forger, changed, falsify
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
