"""A fork's copies, replayed as what they are: the origin's log up to the cut, under the origin's settings.

Turned back into the origin's records, copies are a log like any other: its decisions are made again, its facts checked. A fork
of a fork goes through one log after the other. CampaignForked counts the copies and holds their digests, so nothing can be
changed, left out or added among them; whether they are the origin's, its archive says (`with_origin`).
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

from bat_events.codec import Fact
from bat_events.domain.lineage import ancestors
from bat_events.events.campaign import CampaignForked
from bat_events.events.envelope import parse_time
from bat_events.log.copies import content, is_copy, original_of
from bat_events.log.interface import Partition, Record
from bat_events.replay.archive_reader import ArchiveReader
from bat_events.replay.facts import facts_of
from bat_events.replay.findings import Findings, Side
from bat_events.replay.index import Index
from bat_events.replay.result import ReplayResult
from bat_events.replay.source import OtherRecord, ReplayError, Source

COPIES = "copies against what the fork says of them"
ORIGINS = "copies against the origin's archive"


class Replay(Protocol):
    """replay_campaign."""

    def __call__(self, source: Source, *, campaign: str, round: int | None) -> ReplayResult: ...


@dataclass(frozen=True, kw_only=True)
class Fork:
    """A fork's own CampaignForked."""

    fact: Fact
    event: CampaignForked


def fork_of(index: Index) -> Fork:
    """How the campaign of a log was forked. Raises ReplayError where the copy is not whole."""
    for entry in index.topic("campaign"):
        fact = entry.fact
        if fact is not None and fact.envelope.origin is None and isinstance(fact.event, CampaignForked):
            return Fork(fact=fact, event=fact.event)
    raise ReplayError(
        f"{index.campaign} is a fork whose copy is not whole: it has no CampaignForked; run `bat-events fork` again"
    )


class CopiesSource:
    """The copies of a fork as the log that they were copied from; see the module."""

    judged: Mapping[Partition, int] | None = None

    def __init__(self, source: Source, campaign: str, fork: CampaignForked) -> None:
        self.name = f"copies in {source.name}"
        self._source, self._campaign, self._fork = source, campaign.encode(), fork

    def schemas(self) -> Sequence[bytes]:
        """See Source."""
        return self._source.schemas()

    def imports(self) -> Sequence[Record]:
        """See Source: copies name the offsets that they had."""
        return ()

    def records(self) -> Iterator[Record | OtherRecord]:
        """See Source. Raises ReplayError for a copy whose origin cannot be read."""
        found: dict[Partition, list[Record | OtherRecord]] = {}
        for where, record in self.copies():
            found.setdefault(where, []).append(record)
        for other in self._fork.beside:
            where = (other.topic, other.partition)
            found.setdefault(where, []).append(
                OtherRecord(
                    topic=where[0],
                    partition=where[1],
                    offset=other.offset,
                    id=other.id,
                    time=parse_time(other.time),
                )
            )
        for where in sorted(found):
            yield from sorted(found[where], key=lambda record: record.offset)

    def copies(self) -> Iterator[tuple[Partition, Record]]:
        """Every copy as its origin has it, each partition in the fork's order."""
        for record in self._source.records():
            if not isinstance(record, Record) or ("bat_campaign", self._campaign) not in record.headers:
                continue
            if is_copy(record):
                try:
                    yield record.place, original_of(record)
                except ValueError as error:
                    raise ReplayError(
                        f"{record.topic}[{record.partition}]@{record.offset}: bat_origin: {error}"
                    ) from None


def with_copies(result: ReplayResult, source: Source, index: Index, round_: int | None, replay: Replay) -> ReplayResult:
    """The replay of a fork's own events, and beside it that of its copies."""
    fork = fork_of(index)
    copies = CopiesSource(source, index.campaign, fork.event)
    findings = Findings(round=None)
    findings.check(COPIES, fork.fact, list(_sides(index, fork, copies)))
    origin = None
    if round_ is None or round_ <= fork.event.round:
        origin = replay(copies, campaign=fork.event.origin, round=round_)
    return replace(
        result,
        checks=(*result.checks, *findings.results()),
        differences=(*findings.differences, *result.differences),
        origin=origin,
    )


def _sides(index: Index, fork: Fork, copies: CopiesSource) -> Iterator[Side]:
    event = fork.event
    yield ("origin", event.origin, ancestors(index.campaign)[-1])
    there = summed(copies.copies())
    for part in event.copied:
        where = (part.topic, part.partition)
        if where not in there and index.partitions.get(where) is None and part.digest is None:
            continue  # the held-out plane's are not read here
        count, digest = there.pop(where, (0, ""))
        yield (f"copied.{where[0]}[{where[1]}].count", part.count, count)
        yield (f"copied.{where[0]}[{where[1]}].digest", part.digest, digest)
    for where, (count, _) in sorted(there.items()):
        yield (f"copied.{where[0]}[{where[1]}].count", 0, count)
    report = index.fact(fork.fact.envelope.cause)
    yield ("bat_cause", None if report is None else report.envelope.round, event.round)


def summed(records: Iterator[tuple[Partition, Record]]) -> dict[Partition, tuple[int, str]]:
    """How many records each partition has, and the digest over them, in their order."""
    counts: dict[Partition, int] = {}
    hashes: dict[Partition, Any] = {}
    for where, record in records:
        counts[where] = counts.get(where, 0) + 1
        hashes.setdefault(where, hashlib.sha256()).update(hashlib.sha256(content(record)).digest())
    return {where: (counts[where], hashes[where].hexdigest()) for where in counts}


def with_origin(result: ReplayResult, source: Source, archive: ArchiveReader) -> ReplayResult:
    """The replay of a fork, its copies held against an archive of the campaign that it was forked from too.

    Raises ReplayError for a campaign that is no fork, and for an archive of another campaign than its origin.
    """
    facts = facts_of(source, result.campaign, ("CampaignStarted", "CampaignForked"), ("campaign",))
    parent = (ancestors(result.campaign) or [""])[-1]
    fact = next((f for f in facts if isinstance(f.event, CampaignForked) and f.event.origin == parent), None)
    if fact is None:
        raise ReplayError(f"campaign {result.campaign} was not forked: --origin is for forks")
    if archive.manifest.campaign != parent:
        raise ReplayError(f"{archive.folder} holds campaign {archive.manifest.campaign}; the origin is {parent}")
    assert isinstance(fact.event, CampaignForked)
    findings = Findings(round=None)
    findings.check(ORIGINS, fact, list(_origin_sides(fact.event, archive)))
    return replace(
        result,
        checks=(*result.checks, *findings.results()),
        differences=(*findings.differences, *result.differences),
    )


def _origin_sides(event: CampaignForked, archive: ArchiveReader) -> Iterator[Side]:
    for part in event.copied:
        where = (part.topic, part.partition)
        if where not in archive.partitions:
            if part.digest is not None:
                yield (f"copied.{part.topic}[{part.partition}]", part.count, "not in the origin's archive")
            continue
        records = (archived.record for archived in islice(archive.records(*where), part.count))
        count, digest = summed((where, record) for record in records).get(where, (0, ""))
        yield (f"copied.{part.topic}[{part.partition}].count", part.count, count)
        if part.digest is not None:
            yield (f"copied.{part.topic}[{part.partition}].digest", part.digest, digest)
