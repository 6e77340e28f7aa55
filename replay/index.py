"""One campaign's facts, decoded once and laid out by partition.

Records of other campaigns in the namespace stay as positions and times: a cut counts them, and the newest of them may be
a decision's time. For every reader the first committed event of an id wins; later ones are counted as duplicates.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Protocol

from bat_events.codec import Codec, Fact
from bat_events.domain.lineage import is_fork
from bat_events.errors import BadEnvelope, DecodeError
from bat_events.events.boundary import EvaluationReported
from bat_events.events.campaign import CampaignForked, CampaignStarted
from bat_events.events.dead_letters import DeadLettered
from bat_events.events.envelope import from_headers, parse_time
from bat_events.events.promotion import LogicAdopted
from bat_events.events.rounds import CampaignFinished
from bat_events.log.interface import Partition, Record
from bat_events.log.topics import DEAD_LETTERS
from bat_events.replay.imported import Imported, went_on
from bat_events.replay.parked import Place, ignored
from bat_events.replay.source import OtherRecord, ReplayError, Source

LETTERS = DEAD_LETTERS["training"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One record. `fact` is None for an event of another campaign, and for a record that is no `event` at all; `judged`
    entries are compared."""

    offset: int
    id: str
    campaign: str
    time: datetime
    key: bytes
    fact: Fact | None
    judged: bool
    event: bool = True


class Known(Protocol):
    """What checks ask of a log: the facts that others name."""

    @property
    def campaign(self) -> str:
        """The campaign's id."""
        ...

    @property
    def started(self) -> Fact:
        """Its beginning."""
        ...

    def fact(self, id_: str) -> Fact | None:
        """The campaign's fact of that id."""
        ...

    @property
    def forks(self) -> Sequence[CampaignForked]:
        """The forks that it came by."""
        ...

    def reports(self) -> Iterator[EvaluationReported]:
        """Its evaluation reports, in order."""
        ...


@dataclass(kw_only=True)
class Index:
    """Everything that replay reads of a log, for one campaign."""

    source: str
    campaign: str
    partitions: Mapping[Partition, list[Entry]]
    by_id: Mapping[str, Entry]  # the campaign's events; the first of an id
    started: Fact
    duplicates: int
    letters: list[Fact] = field(default_factory=list)  # of every campaign, in the order of the dead-letter topic
    ends: dict[str, dict[str, int]] = field(default_factory=dict)

    def topic(self, name: str) -> Iterator[Entry]:
        """The campaign's first-of-id entries of a topic, by partition and offset."""
        for where in sorted(p for p in self.partitions if p[0] == name):
            for entry in self.partitions[where]:
                if entry.fact is not None and self.by_id[entry.id] is entry:
                    yield entry

    def facts(self) -> Iterator[Fact]:
        """The campaign's facts, each id once, in the order of topic, partition and offset."""
        for name in sorted({topic for topic, _ in self.partitions}):
            for entry in self.topic(name):
                assert entry.fact is not None
                yield entry.fact

    @cached_property
    def _ignored(self) -> set[Place]:
        return ignored(self.letters)

    def ignores(self, fact: Fact) -> bool:
        """Whether an event does not count: a dead letter says so."""
        return (fact.topic, fact.partition, fact.offset) in self._ignored

    @property
    def strays(self) -> int:
        """How many records are no events."""
        return sum(not entry.event for entries in self.partitions.values() for entry in entries)

    def fact(self, id_: str) -> Fact | None:
        """The campaign's fact of that id."""
        entry = self.by_id.get(id_)
        return None if entry is None else entry.fact

    def reports(self) -> Iterator[EvaluationReported]:
        """See Known."""
        for entry in self.topic("boundary.report"):
            if entry.fact is not None and isinstance(entry.fact.event, EvaluationReported):
                yield entry.fact.event

    @cached_property
    def forks(self) -> list[CampaignForked]:
        """The forks that the campaign came by, in order; none where it is no fork."""
        facts = [entry.fact for entry in self.topic("campaign")]
        return [fact.event for fact in facts if fact is not None and isinstance(fact.event, CampaignForked)]

    @cached_property
    def copied(self) -> frozenset[str]:
        """The ids of what was copied from another campaign."""
        if not is_fork(self.campaign):
            return frozenset()
        return frozenset(fact.id for fact in self.facts() if fact.envelope.origin is not None)

    @property
    def outcome(self) -> str | None:
        """How the campaign ended, or None while it has not."""
        for entry in self.topic("round"):
            if entry.fact is not None and isinstance(entry.fact.event, CampaignFinished):
                return entry.fact.event.outcome
        return None


def upgrades(index: Index) -> list[LogicAdopted]:
    """The versions that the campaign went over to."""
    facts = [entry.fact for entry in index.topic("curriculum")]
    return [fact.event for fact in facts if fact is not None and isinstance(fact.event, LogicAdopted)]


def load(source: Source, campaign: str | None) -> Index:
    """Read the source. With campaign None the log must hold exactly one.

    Raises ReplayError where the campaign is not there, and the codec's DecodeError on a record that is no event and
    that no service has parked.
    """
    codec = Codec()
    for text in source.schemas():
        codec.learn(text)
    partitions: dict[Partition, list[Entry]] = {}
    letters: list[Fact] = []
    strays: list[DecodeError] = []
    for record in source.records():
        entries = partitions.setdefault((record.topic, record.partition), [])
        try:
            entry = _entry(record, codec, campaign, source.judged)
            if record.topic == LETTERS and isinstance(record, Record):
                letters.append(codec.decode(record))
        except DecodeError as error:
            assert isinstance(record, Record)  # the place of another campaign's record is not decoded
            strays.append(error)
            entry = _no_event(record)
        if entries and entries[-1].offset >= entry.offset:
            raise ReplayError(
                f"{record.topic}[{record.partition}]: offset {entry.offset} follows {entries[-1].offset}: not a log's order"
            )
        entries.append(entry)
    _check_strays(strays, letters)
    chosen, started = _started(partitions, campaign, source.name)
    imported = Imported(codec.decode(record) for record in source.imports())
    if imported.holds(chosen):
        partitions = _as_before_the_import(partitions, imported, chosen)
    by_id: dict[str, Entry] = {}
    duplicates = 0
    for where in sorted(partitions):
        for number, entry in enumerate(partitions[where]):
            if entry.fact is None:
                continue
            if entry.campaign != chosen:
                partitions[where][number] = _without_fact(entry)
            elif by_id.setdefault(entry.id, entry) is not entry:
                duplicates += 1
    index = Index(
        source=source.name,
        campaign=chosen,
        partitions=partitions,
        by_id=by_id,
        started=started,
        duplicates=duplicates,
        letters=letters,
    )
    for (topic, number), entries in sorted(partitions.items()):
        index.ends.setdefault(topic, {})[str(number)] = entries[-1].offset + 1
    return index


def _as_before_the_import(
    partitions: dict[Partition, list[Entry]], imported: Imported, campaign: str
) -> dict[Partition, list[Entry]]:
    """The campaign's entries with the offsets that its cuts name, among the places of what stood beside them there."""
    found: dict[Partition, list[Entry]] = {}
    for where, entries in partitions.items():
        before = imported.offsets(campaign, where)
        own = [entry for entry in entries if entry.campaign == campaign]
        renumbered = [_others_entry(other.offset, other.id, other.time) for other in imported.others(campaign, where)]
        for entry in own:
            offset = next(before, None)
            if offset is None:
                raise ReplayError(went_on(campaign, where))
            fact = None if entry.fact is None else replace(entry.fact, offset=offset)
            renumbered.append(replace(entry, offset=offset, fact=fact))
        found[where] = sorted(renumbered, key=lambda entry: entry.offset)
    return {where: entries for where, entries in found.items() if entries}


def _others_entry(offset: int, id_: str, time: str | datetime) -> Entry:
    moment = parse_time(time) if isinstance(time, str) else time
    return Entry(offset=offset, id=id_, campaign="", time=moment, key=b"", fact=None, judged=False)


def _entry(
    record: Record | OtherRecord, codec: Codec, campaign: str | None, judged: Mapping[Partition, int] | None
) -> Entry:
    if isinstance(record, OtherRecord):
        return _others_entry(record.offset, record.id, record.time)
    compared = judged is None or record.offset < judged[(record.topic, record.partition)]
    other = campaign is not None and dict(record.headers).get("bat_campaign") not in (None, campaign.encode())
    if other:
        try:
            envelope = from_headers(record.headers)
        except ValueError as error:
            where = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
            raise BadEnvelope(str(error), **where) from None  # type: ignore[arg-type]
        fact = None
    else:
        fact = codec.decode(record)
        envelope = fact.envelope
    return Entry(
        offset=record.offset,
        id=envelope.id,
        campaign=envelope.campaign,
        time=envelope.time,
        key=record.key,
        fact=fact,
        judged=compared and envelope.origin is None,  # copies are compared as what they were: replay.forked
    )


def _no_event(record: Record | OtherRecord) -> Entry:
    never = datetime.min.replace(tzinfo=UTC)
    key = record.key if isinstance(record, Record) else b""
    return Entry(offset=record.offset, id="", campaign="", time=never, key=key, fact=None, judged=False, event=False)


def _check_strays(strays: Sequence[DecodeError], letters: Sequence[Fact]) -> None:
    """Raises the first error about a record that no service has parked; services skip those of the dead-letter topic."""
    known = {
        (letter.event.topic, letter.event.partition, letter.event.offset)
        for letter in letters
        if isinstance(letter.event, DeadLettered)
    }
    for error in strays:
        if error.topic != LETTERS and (error.topic, error.partition, error.offset) not in known:
            raise error


def _without_fact(entry: Entry) -> Entry:
    return Entry(
        offset=entry.offset,
        id=entry.id,
        campaign=entry.campaign,
        time=entry.time,
        key=entry.key,
        fact=None,
        judged=False,
        event=entry.event,
    )


def _started(partitions: Mapping[Partition, list[Entry]], campaign: str | None, source: str) -> tuple[str, Fact]:
    entries = [entry for (topic, _), part in sorted(partitions.items()) if topic == "campaign" for entry in part]
    begun = [e.fact for e in entries if e.fact is not None and isinstance(e.fact.event, CampaignStarted)]
    return started_among(begun, {entry.campaign for entry in entries}, campaign, source)


def started_among(begun: Iterable[Fact], names: Iterable[str], campaign: str | None, source: str) -> tuple[str, Fact]:
    """The campaign to replay and its CampaignStarted, out of those of a log. Raises ReplayError."""
    found: dict[str, Fact] = {}
    for fact in begun:
        if campaign in (None, fact.envelope.campaign):
            found.setdefault(fact.envelope.campaign, fact)
    names = {name for name in names if name}
    known = ", ".join(sorted(names)) or "none"
    if campaign is None:
        if len(found) != 1:
            raise ReplayError(f"{source} holds {len(found)} campaigns ({known}): name the one to replay")
        return next(iter(found.items()))
    if campaign not in found:
        raise ReplayError(f"campaign {campaign} has no CampaignStarted in {source}; campaigns there: {known}")
    return campaign, found[campaign]
