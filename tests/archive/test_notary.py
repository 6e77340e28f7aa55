"""Seals are a function of the log: whatever the interleaving, restart or crash, the same ranges, roots and heads."""

import dataclasses
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_events.consumers.notary import SEALED
from bat_events.domain.merkle import EMPTY, LEAF, NODE, inclusion_path, root_from_path, root_of
from bat_events.domain.sealing import FIRST_PREVIOUS, Leaves, Range, content_bytes, head_of
from bat_events.errors import LogError
from bat_events.events.heldout import EvaluationCellScored
from bat_events.events.rounds import RoundCompleted
from bat_events.events.seals import HeldoutRoundSealed, RoundSealed
from bat_events.log.heads import leaves_path, read_heads
from bat_events.log.interface import Record
from bat_events.log.topics import SEAL_TOPIC
from bat_events.replay.verify import verify
from tests.archive.sealing import CODEC, START_MS, sealed, timed_records
from tests.replay.loop import CAMPAIGN, Loop
from tests.support.samples import as_record, sample, written


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """A completed campaign with two rounds, and the times at which its records were written."""
    loop = Loop(seed=7)
    loop.run()
    return timed_records(loop)


def events(written: list[Record]) -> list[RoundSealed]:
    """The seals in records."""
    return [CODEC.decode(record).event for record in written]  # type: ignore[misc]


def sealed_ranges(made: list[Record]) -> list[tuple[int | None, list[tuple[object, ...]]]]:
    """Round and ranges of each seal; of the seals' own records only how many: they carry the time of sealing."""
    return [
        (
            seal.round,
            [(p.topic, p.partition, p.first, p.count, p.root if p.topic != SEAL_TOPIC else "") for p in seal.ranges],
        )
        for seal in events(made)
    ]


def test_each_round_and_the_end_is_sealed_and_the_ranges_join(records: list[Record], tmp_path: Path) -> None:
    made = sealed(records, tmp_path / "heads")
    seals = events(made)
    assert [(seal.number, seal.round) for seal in seals] == [(0, 1), (1, 2), (2, None)]
    assert seals[0].previous == FIRST_PREVIOUS.hex()
    ends: dict[tuple[str, int], int] = {}
    previous = seals[0].previous
    for seal in seals:
        assert seal.previous == previous
        previous = seal.head
        for part in seal.ranges:
            assert part.first == ends.get((part.topic, part.partition), 0)
            ends[(part.topic, part.partition)] = part.first + part.count
    there: dict[tuple[str, int], int] = {}
    for record in [*records, *made[:-1]]:
        there[(record.topic, record.partition)] = there.get((record.topic, record.partition), 0) + 1
    assert ends == there, "all but the last seal's own record lies in a seal"


def test_a_root_is_over_the_leaves_of_its_range_and_the_head_over_all(records: list[Record], tmp_path: Path) -> None:
    seal = events(sealed(records, tmp_path / "heads"))[1]
    for part in seal.ranges:
        own = [r for r in records if (r.topic, r.partition) == (part.topic, part.partition)]
        if part.topic != SEAL_TOPIC:
            hashes = Leaves(part.topic, part.partition)
            leaves = [
                hashes.leaf(n, content_bytes(r.key, r.value, r.headers, r.timestamp_ms)) for n, r in enumerate(own)
            ]
            assert root_of(leaves[part.first : part.first + part.count]).hex() == part.root
    ranges = [Range(**part.model_dump()) for part in seal.ranges]
    head = head_of(campaign=CAMPAIGN, number=1, round=2, previous=seal.previous, salt="", ranges=ranges)
    assert head == seal.head


def test_every_interleaving_gives_the_same_seals(records: list[Record], tmp_path: Path) -> None:
    first = sealed_ranges(sealed(records, tmp_path / "first"))
    for seed in range(1, 12):
        assert sealed_ranges(sealed(records, tmp_path / f"{seed}", seed=seed)) == first


def test_what_was_written_after_a_rounds_end_is_of_the_next_seal(records: list[Record], tmp_path: Path) -> None:
    first, second, _ = events(sealed(records, tmp_path / "heads"))
    over = next(r for r in records if isinstance(CODEC.decode(r).event, RoundCompleted))
    end_of = {(part.topic, part.partition): part.first + part.count for part in first.ranges}
    for where in {(r.topic, r.partition) for r in records}:
        times = [r.timestamp_ms for r in records if (r.topic, r.partition) == where]
        assert [time <= over.timestamp_ms for time in times] == [n < end_of.get(where, 0) for n in range(len(times))]
    assert second.ranges


class Killed(Exception):
    """A crash."""


@pytest.mark.parametrize("moment", ["begun", "committed", "noted"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_crash_at_any_moment_leaves_the_same_seals_and_heads(
    records: list[Record], tmp_path: Path, moment: str, nth: int
) -> None:
    whole = sealed(records, tmp_path / "whole")
    left = nth

    def crash(name: str) -> None:
        nonlocal left
        left -= name == moment
        if left == 0:
            raise Killed

    with pytest.raises(Killed) as killed:
        sealed(records, tmp_path / "heads", crash=crash)
    kept: list[Record] = killed.value.written  # type: ignore[attr-defined]
    again = sealed([*records, *kept], tmp_path / "heads", seed=5)
    assert sealed_ranges([*kept, *again]) == sealed_ranges(whole)
    heads = read_heads(tmp_path / "heads")
    assert [(h.head, h.number) for h in heads] == [(s.head, s.number) for s in events([*kept, *again])]
    assert sum(head.noted == "later" for head in heads) == (moment == "committed")


def test_heads_are_kept_outside_for_the_owner_only(records: list[Record], tmp_path: Path) -> None:
    path = tmp_path / "seals" / "bat.jsonl"
    made = sealed(records, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [(h.head, h.round) for h in read_heads(path)] == [(s.head, s.round) for s in events(made)]
    with path.open("ab") as file:
        file.write(b'{"campaign":')  # a crash in mid-line
    assert len(read_heads(path)) == 3
    assert sealed([*records, *made], path) == []


def test_a_notary_halts_where_the_log_is_not_the_one_of_its_heads(records: list[Record], tmp_path: Path) -> None:
    made = sealed(records, tmp_path / "heads")
    with pytest.raises(LogError, match="the log was changed, cut or replaced"):
        sealed([*records, *made[:-1]], tmp_path / "heads")
    changed = [dataclasses.replace(records[0], value=b"x"), *records[1:]]
    with pytest.raises(LogError, match="no such seal"):
        sealed(changed, tmp_path / "heads")


class LogOfRecords:
    """A SealedLog over records in memory, with the leaves that a notary kept."""

    partial = False
    name, campaign = "memory", CAMPAIGN

    def __init__(self, records: list[Record], heads: Path) -> None:
        self._records, self._heads = records, heads

    def partitions(self) -> list[tuple[str, int]]:
        return sorted({(r.topic, r.partition) for r in self._records})

    def schemas(self) -> dict[str, bytes]:
        return {}

    def seals(self, topic: str) -> list[Record]:
        return [r for r in self._records if r.topic == topic]

    def rows(self, where: tuple[str, int]) -> list[tuple[int, bytes, int]]:
        own = [r for r in self._records if (r.topic, r.partition) == where]
        return [(n, content_bytes(r.key, r.value, r.headers, r.timestamp_ms), 0) for n, r in enumerate(own)]

    def leaves(self, where: tuple[str, int]) -> None:  # noqa: ARG002
        return None

    def kept(self, where: tuple[str, int]) -> bytes:
        return leaves_path(self._heads, CAMPAIGN, *where).read_bytes()


def test_leaves_kept_beside_the_heads_name_the_event_that_was_changed_on_a_log(
    records: list[Record], tmp_path: Path
) -> None:
    heads = tmp_path / "seals" / "bat.jsonl"
    made = sealed(records, heads)
    assert verify(LogOfRecords([*records, *made], heads), read_heads(heads), lambda _: None).ok
    at = next(n for n, r in enumerate(records) if r.topic == "training") + 2
    later = dataclasses.replace(records[at], timestamp_ms=records[at].timestamp_ms + 1)
    falsified = [*records[:at], later, *records[at + 1 :], *made]
    (finding,) = verify(LogOfRecords(falsified, heads), read_heads(heads), lambda _: None).findings
    assert (finding.kind, finding.topic, finding.ordinal, finding.what) == (
        "changed",
        "training",
        2,
        "its headers or its timestamp differ",
    )
    assert finding.id == CODEC.decode(records[at]).id
    gone = [*records[:at], *records[at + 1 :], *made]
    (finding,) = verify(LogOfRecords(gone, heads), read_heads(heads), lambda _: None).findings
    assert (finding.kind, finding.topic, finding.ordinal) == ("missing", "training", 2)


def test_records_without_a_campaign_are_sealed_too(records: list[Record], tmp_path: Path) -> None:
    junk = dataclasses.replace(records[0], headers=(), value=b"no event", offset=10_000, timestamp_ms=START_MS)
    plain, more = events(sealed(records, tmp_path / "a")), events(sealed([*records, junk], tmp_path / "b"))
    assert sum(p.count for s in more for p in s.ranges) == 1 + sum(p.count for s in plain for p in s.ranges)


def test_the_heldout_notary_seals_its_plane_with_a_salt_and_the_open_seal_shows_nothing_of_it(
    records: list[Record], tmp_path: Path
) -> None:
    cells = [
        dataclasses.replace(
            as_record(written(sample(EvaluationCellScored, n), campaign=CAMPAIGN, key=CAMPAIGN, ordinal=n), 2 * n),
            timestamp_ms=START_MS,
        )
        for n in range(5)
    ]
    made = sealed([*records, *cells], tmp_path / "heads", heldout=True)
    seals = [CODEC.decode(record).event for record in made]
    assert all(isinstance(seal, HeldoutRoundSealed) for seal in seals)
    first: HeldoutRoundSealed = seals[0]  # type: ignore[assignment]
    assert [(part.topic, part.first, part.count) for part in first.ranges] == [("heldout.cell", 0, 5)]
    other = sealed([*records, *cells], tmp_path / "other", heldout=True, salt=lambda: b"\x08" * 32)
    assert CODEC.decode(other[0]).event.ranges[0].root != first.ranges[0].root  # type: ignore[attr-defined]
    both = sealed_ranges(sealed([*records, *cells], tmp_path / "open"))
    assert both == sealed_ranges(sealed(records, tmp_path / "without"))
    assert not any(topic.startswith("heldout.") for topic in SEALED)


def test_leaves_and_nodes_are_told_apart() -> None:
    assert LEAF != NODE
    leaves = [bytes([n]) * 32 for n in range(4)]
    assert root_of(leaves) == root_of([root_of(leaves[:2]), root_of(leaves[2:])])  # of hashes alone a tree cannot tell
    assert Leaves("round", 0).leaf(0, root_of(leaves[:2]) + root_of(leaves[2:])) != root_of(leaves)
    assert root_of([]) == EMPTY


@given(size=st.integers(1, 70), data=st.data())
def test_a_path_leads_to_the_root_and_no_other_leaf_place_or_path_does(size: int, data: st.DataObject) -> None:
    leaves = [n.to_bytes(32, "big") for n in range(size)]
    index = data.draw(st.integers(0, size - 1))
    path, root = inclusion_path(leaves, index), root_of(leaves)
    assert root_from_path(leaves[index], index, size, path) == root
    assert root_from_path(b"\xff" * 32, index, size, path) != root
    for other in {index - 1, index + 1, size} - {index}:
        assert root_from_path(leaves[index], other, size, path) != root
    assert root_from_path(leaves[index], index, size, [*path, b"\0" * 32]) != root
    assert not path or root_from_path(leaves[index], index, size, path[:-1]) != root
