"""Writes a fork's copies into its namespace: what is there is compared, what is missing is written, and CampaignForked last.

A copy that was broken off goes on; until its last transaction no service decides anything on it (service.forks). The topic
`campaign` comes last, in one transaction with CampaignForked.
"""

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice

from bat_events import __version__
from bat_events.codec import Codec
from bat_events.deciders.interface import Draft
from bat_events.errors import LogError
from bat_events.events.campaign import CampaignForked, CopiedRecords, SettingChanged
from bat_events.log.admin import list_topics
from bat_events.log.belonging import campaign_of
from bat_events.log.copies import content, copy_of
from bat_events.log.interface import CrashPoint, Outgoing, Partition, Record
from bat_events.log.kafka import KafkaReader, KafkaWriter
from bat_events.log.topics import BY_NAME, SCHEMA_TOPIC
from bat_events.producers.campaigns import LOGIC_NAME, SOURCE
from bat_events.producers.fork_cut import ForkCut
from bat_events.producers.import_log import Say, Target
from bat_events.replay.archive_reader import ArchiveReader
from bat_events.service.emit import outgoing

WRITER = "admin.fork"
"""Transactional id below the admin's name: a fork that is started twice fences the first."""

LAST: Partition = ("campaign", 0)
_BATCH_RECORDS, _BATCH_BYTES = 1000, 4 << 20


class ForkLog:
    """The namespace that a fork goes into."""

    def __init__(self, campaign: str, target: Target) -> None:
        self.campaign, self._target = campaign, target
        self._partitions = {s.spec.name: s.partitions for s in list_topics(target.address, target.namespace)}
        self._codec = Codec()
        self._known: set[str] = set()
        topics = [name for name, count in self._partitions.items() if count]
        self._reader = KafkaReader(
            bootstrap=target.address, namespace=target.namespace, topics=topics, group="fork", wait_ms=5
        )
        self._ends = self._reader.end_offsets()
        for record in self._there((SCHEMA_TOPIC, 0)):
            self._known.add(self._codec.learn(record.value))
        self._writer: KafkaWriter | None = None

    def __enter__(self) -> "ForkLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def forked(self) -> CampaignForked | None:
        """How the fork was made, where its copy is whole."""
        for record in self._there(LAST):
            fact = self._codec.decode(record)
            own = fact.envelope.campaign == self.campaign and fact.envelope.origin is None
            if own and isinstance(fact.event, CampaignForked):
                return fact.event
        return None

    def refuse_others(self) -> None:
        """Raises LogError where the namespace holds anything of another campaign: copies keep their ids, which are one log's."""
        for where in self._ends:
            if where[0] == SCHEMA_TOPIC:
                continue
            for record in self._there(where):
                named = (campaign_of(record.headers) or b"").decode("utf-8", "replace")
                if named != self.campaign:
                    raise LogError(
                        f"namespace {self._target.namespace} holds campaign {named or '?'} ({where[0]}[{where[1]}]): a fork "
                        "needs a namespace of its own. Name another one with --namespace"
                    )

    def compare(self, archive: ArchiveReader, cut: ForkCut) -> dict[Partition, int]:
        """How many copies each partition holds. Raises LogError at the first record that is not the copy which goes there."""
        found = {}
        for where, limit in sorted(cut.counts.items()):
            wanted, count = copies(archive, where, limit, self.campaign), 0
            for record in self._there(where):
                copy = next(wanted, None)
                if copy is None or content(record) != content(copy):
                    raise LogError(
                        f"{self._target.namespace}.{where[0]}[{where[1]}]@{record.offset}: no copy of "
                        f"{archive.manifest.campaign} at this cut: nothing was written. Use another namespace"
                    )
                count += 1
            found[where] = count
        return found

    def publish_schemas(self, archive: ArchiveReader, crash: CrashPoint) -> None:
        """Put the archive's schemas on the log where they are not."""
        fresh = []
        for digest, text in zip(archive.manifest.schemas, archive.schemas(), strict=True):
            if self._codec.learn(text) not in self._known:
                fresh.append(Outgoing(topic=SCHEMA_TOPIC, partition=0, key=digest.encode(), value=text, headers=()))
        if fresh:
            self._publish(fresh, crash)

    def write(
        self, archive: ArchiveReader, cut: ForkCut, there: Mapping[Partition, int], say: Say, crash: CrashPoint
    ) -> int:
        """Write the copies that are missing, but for those of the topic `campaign`; returns how many."""
        written = 0
        for number, (where, limit) in enumerate(sorted(cut.counts.items()), 1):
            if where == LAST:
                continue
            batch: list[Record] = []
            size = 0
            for record in islice(copies(archive, where, limit, self.campaign), there[where], None):
                batch.append(record)
                size += len(record.value)
                if len(batch) >= _BATCH_RECORDS or size >= _BATCH_BYTES:
                    written += self._flush(batch, crash)
                    batch, size = [], 0
            written += self._flush(batch, crash)
            say(f"{number}/{len(cut.counts)} {where[0]}[{where[1]}]: {limit:,} records")
        return written

    def finish(
        self,
        archive: ArchiveReader,
        cut: ForkCut,
        number: int,
        settings: tuple[SettingChanged, ...],
        there: int,
        crash: CrashPoint,
    ) -> None:
        """The last transaction: the rest of the topic `campaign`, and CampaignForked."""
        draft = forked(archive, cut, self.campaign, number, settings)
        said = outgoing(draft, source=SOURCE, logic=LOGIC_NAME, time=datetime.now(UTC), partitions=self._partitions)
        rest = islice(copies(archive, LAST, cut.counts[LAST], self.campaign), there, None)
        self._publish([*map(_outgoing, rest), said], crash)

    def _there(self, where: Partition) -> Iterator[Record]:
        if self._ends.get(where):
            self._reader.turn_to(where)
            yield from self._reader.rest()

    def _flush(self, batch: list[Record], crash: CrashPoint) -> int:
        if batch:
            self._publish([_outgoing(record) for record in batch], crash)
        return len(batch)

    def _publish(self, records: list[Outgoing], crash: CrashPoint) -> None:
        if self._writer is None:
            self._writer = KafkaWriter(bootstrap=self._target.address, namespace=self._target.namespace, name=WRITER)
        self._writer.write(records, [], None, crash)


def copies(archive: ArchiveReader, where: Partition, count: int, fork: str) -> Iterator[Record]:
    """The first records of a partition as the fork holds them; their offsets are not the fork's."""
    for archived in islice(archive.records(*where), count):
        yield copy_of(archived.record, archive.manifest.campaign, fork)


def forked(archive: ArchiveReader, cut: ForkCut, fork: str, number: int, settings: tuple[SettingChanged, ...]) -> Draft:
    """CampaignForked: what was copied, and what holds from here on."""
    event = CampaignForked(
        origin=archive.manifest.campaign,
        round=number,
        settings=settings,
        copied=tuple(_sums(archive, cut)),
        reopened=cut.reopened,
        beside=cut.beside,
        package_version=__version__,
    )
    return Draft(event=event, campaign=fork, cause=cut.report, ordinal=0, key=fork)


def _sums(archive: ArchiveReader, cut: ForkCut) -> Iterator[CopiedRecords]:
    for (topic, partition), count in sorted(cut.counts.items()):
        digest = None
        if BY_NAME[topic].plane != "heldout":
            whole = hashlib.sha256()
            for archived in islice(archive.records(topic, partition), count):
                whole.update(hashlib.sha256(archived.content()).digest())
            digest = whole.hexdigest()
        yield CopiedRecords(topic=topic, partition=partition, count=count, digest=digest)


def _outgoing(record: Record) -> Outgoing:
    return Outgoing(
        topic=record.topic,
        partition=record.partition,
        key=record.key,
        value=record.value,
        headers=record.headers,
        timestamp_ms=record.timestamp_ms,
    )
