"""Where a fork's copy ends: the largest cut of an archive that holds nothing which followed a round's report.

Of every partition a prefix is copied. It ends before the first record
  - of a later round, or that decides on the round; a cancellation; of a topic that is of its log only (seals, dead letters)
  - whose cause is not copied, or a decision that had read something which is not
  - a decision made after one of the same decider that is not copied
So the copies are a log that could have ended there: every decision has its inputs, and what nobody had decided by then is
decided by the fork.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bat_events.codec import Codec
from bat_events.domain.lineage import ancestors
from bat_events.errors import DecodeError, LogError
from bat_events.events.base import Event
from bat_events.events.boundary import EvaluationReported
from bat_events.events.campaign import CampaignForked, CampaignStarted, StoodBeside
from bat_events.events.dead_letters import DeadLettered
from bat_events.events.envelope import Envelope, format_time
from bat_events.events.headers import envelope_of
from bat_events.events.ids import ROOT_CAUSE
from bat_events.log.interface import Partition
from bat_events.log.topics import DEAD_LETTERS
from bat_events.replay.archive_format import SEAL_TOPICS
from bat_events.replay.archive_reader import ArchiveReader
from bat_events.replay.registry import DECIDERS

NOT_COPIED = frozenset({*SEAL_TOPICS, *DEAD_LETTERS.values()})
_LATER = ("bat.CheckpointPromoted.", "bat.CheckpointHeld.")
_MAKING = ("bat.CampaignStarted.", "bat.CampaignForked.")
_FOLDING = frozenset({*(kind.name for kind in DECIDERS.values()), "trainer"})
"""Services whose dead letters change what they fold."""


@dataclass(frozen=True, slots=True)
class _Head:
    """What decides whether a record is copied."""

    offset: int
    id: str
    cause: str
    decider: str | None
    position: Mapping[Partition, int] | None
    stays: bool
    """A copy of a copy, and what makes a campaign: never left out as an operator's late word."""

    @property
    def read(self) -> int:
        """How much a decision had read: cuts of one decider only grow."""
        return sum((self.position or {}).values())


@dataclass(kw_only=True)
class ForkCut:
    """What is copied: how many records of each partition; and what a fork must know of the rest."""

    counts: dict[Partition, int]
    started: CampaignStarted
    forks: list[CampaignForked]
    report: str
    """The id of the round's EvaluationReported."""
    reopened: tuple[str, ...]
    beside: tuple[StoodBeside, ...] = field(default=())


class Cutting:
    """Finds the cut of a round in an archive. Raises LogError where a fork cannot begin there."""

    def __init__(self, archive: ArchiveReader, number: int) -> None:
        self._archive, self._number = archive, number
        self._campaign = archive.manifest.campaign
        self._codec = Codec()
        for text in archive.schemas():
            self._codec.learn(text)
        self._heads: dict[Partition, list[_Head]] = {}
        self._after: dict[Partition, int] = {}  # offset of the first record that is not copied
        self._places: dict[str, tuple[Partition, int]] = {}
        self._deciders: dict[str, list[tuple[Partition, int, _Head]]] = {}

    def cut(self) -> ForkCut:
        """See the module."""
        for where in self._archive.partitions:
            if where[0] not in NOT_COPIED:
                self._read(where)
        while self._shrink():
            pass
        self._spare_controls()
        counts = {where: len(heads) for where, heads in self._heads.items() if heads}
        self._refuse_dead_letters(counts)
        started, forks, report = self._told(counts)
        return ForkCut(
            counts=counts,
            started=started,
            forks=forks,
            report=report,
            reopened=tuple(self._reopened(counts)),
            beside=tuple(self._beside()),
        )

    def _read(self, where: Partition) -> None:
        heads: list[_Head] = []
        self._heads[where] = heads
        for archived in self._archive.records(*where):
            record = archived.record
            try:
                envelope = envelope_of(record.headers)
                if hashlib.sha256(record.value).hexdigest() != envelope.body_digest:
                    raise ValueError("the body is not that of its envelope")
            except ValueError as error:
                raise LogError(
                    f"{where[0]}[{where[1]}]@{record.offset} is no event ({error}): a fork copies events only"
                ) from None
            if self._is_later(where[0], envelope):
                self._after[where] = record.offset
                return
            position = None
            if envelope.cut is not None:
                position = {(t, p): offset for t, parts in envelope.cut.items() for p, offset in parts.items()}
            head = _Head(
                record.offset,
                envelope.id,
                envelope.cause,
                envelope.logic.partition("/")[0] if position is not None and envelope.origin is None else None,
                position if envelope.origin is None else None,  # a copy's cut is of another log, and whole
                envelope.origin is not None or envelope.type.startswith(_MAKING),
            )
            self._places.setdefault(head.id, (where, len(heads)))
            if head.decider is not None:
                self._deciders.setdefault(head.decider, []).append((where, len(heads), head))
            heads.append(head)

    def _is_later(self, topic: str, envelope: Envelope) -> bool:
        if envelope.round is not None and envelope.round > self._number:
            return True
        if envelope.type.startswith("bat.CampaignCancelled."):
            return True
        return topic == "promotion" and envelope.round == self._number and envelope.type.startswith(_LATER)

    def _shrink(self) -> bool:
        """Cut off what does not stand without something that is not copied; whether there was any."""
        least = {name: self._first_left_out(made) for name, made in self._deciders.items()}
        changed = False
        for where, heads in self._heads.items():
            for number, head in enumerate(heads):
                if self._stands(head, least):
                    continue
                self._after[where] = head.offset
                del heads[number:]
                changed = True
                break
        return changed

    def _first_left_out(self, made: list[tuple[Partition, int, _Head]]) -> int | None:
        return min((head.read for where, number, head in made if number >= len(self._heads[where])), default=None)

    def _stands(self, head: _Head, least: Mapping[str, int | None]) -> bool:
        if head.cause != ROOT_CAUSE:
            cause = self._places.get(head.cause)
            if cause is None or cause[1] >= len(self._heads[cause[0]]):
                return False
        if head.decider is None or head.position is None:
            return True
        limit = least[head.decider]
        if limit is not None and head.read >= limit:
            return False
        return all(offset <= self._after.get(where, offset) for where, offset in head.position.items())

    def _spare_controls(self) -> None:
        """Leave out what an operator said after everything that is copied."""
        where = ("campaign", 0)
        heads = self._heads.get(where, [])
        named = {head.cause for part in self._heads.values() for head in part}
        read = [
            head.position.get(where, 0) for part in self._heads.values() for head in part if head.position is not None
        ]
        needed = [
            number + 1
            for number, head in enumerate(heads)
            if head.stays or head.id in named or head.offset < max(read, default=0)
        ]
        del heads[max(needed, default=0) :]

    def _refuse_dead_letters(self, counts: Mapping[Partition, int]) -> None:
        for where in self._archive.partitions:
            if where[0] not in DEAD_LETTERS.values():
                continue
            for archived in self._archive.records(*where):
                try:
                    event = self._codec.decode(archived.record).event
                except DecodeError:
                    continue
                if not isinstance(event, DeadLettered) or event.service not in _FOLDING:
                    continue
                place = (event.topic, event.partition)
                if event.offset < self._after.get(place, event.offset + 1) and place in counts:
                    raise LogError(
                        f"{event.service} left out {event.topic}[{event.partition}]@{event.offset} ({event.cause}) before the "
                        "cut: what it folded cannot be copied. Fork at an earlier round"
                    )

    def _events(self, topic: str, counts: Mapping[Partition, int]) -> Iterator[tuple[str, Event, bytes]]:
        for where, count in sorted(counts.items()):
            if where[0] == topic:
                for archived in self._archive.records(*where):
                    if archived.ordinal >= count:
                        break
                    fact = self._codec.decode(archived.record)
                    yield fact.id, fact.event, archived.record.key

    def _told(self, counts: Mapping[Partition, int]) -> tuple[CampaignStarted, list[CampaignForked], str]:
        controls = [event for _, event, _ in self._events("campaign", counts)]
        started = next((event for event in controls if isinstance(event, CampaignStarted)), None)
        forks = [event for event in controls if isinstance(event, CampaignForked)]
        reports = {
            event.round: id_
            for id_, event, _ in self._events("boundary.report", counts)
            if isinstance(event, EvaluationReported)
        }
        if started is None or self._number not in reports:
            there = ", ".join(map(str, sorted(reports))) or "none"
            raise LogError(
                f"campaign {self._campaign} has no report of round {self._number} that a fork can go on from; rounds with one: "
                f"{there}"
            )
        if len(forks) < len(ancestors(self._campaign)):
            raise LogError(
                f"{self._campaign} goes its own way from a later round on: to fork at round {self._number}, fork "
                f"{ancestors(self._campaign)[-1]}"
            )
        return started, forks, reports[self._number]

    def _reopened(self, counts: Mapping[Partition, int]) -> Iterator[str]:
        """Requests of states that were neither judged nor given up."""
        done = {key for _, _, key in self._events("bank.verdict", counts)}
        done |= {key for _, event, key in self._events("bank.state", counts) if event.type_name() == "SynthesisFailed"}
        for id_, _, key in self._events("bank.request", counts):
            if key not in done:
                yield id_

    def _beside(self) -> Iterator[StoodBeside]:
        """Other campaigns' records that a copied cut ends at, or that are newer than the campaign's start."""
        cuts = [head.position for heads in self._heads.values() for head in heads if head.position is not None]
        ends = {(where, offset - 1) for position in cuts for where, offset in position.items()}
        last = {where: max((p.get(where, 0) for p in cuts), default=0) for where, _ in ends}
        begun = next(envelope_of(a.record.headers).time for a in self._archive.records("campaign", 0))
        for where, end in sorted(last.items()):
            if where not in self._archive.partitions:
                continue
            for other in self._archive.others(*where):
                if other.offset < end and ((where, other.offset) in ends or other.time > format_time(begun)):
                    yield StoodBeside(
                        topic=where[0], partition=where[1], offset=other.offset, id=other.id, time=other.time
                    )
