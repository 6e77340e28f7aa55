"""The namespace that an import writes to: what is there, and the transactions that add what is missing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from bat_events.codec import Codec
from bat_events.deciders.interface import Draft
from bat_events.domain.sealing import content_bytes
from bat_events.errors import LogError
from bat_events.events.campaign import CampaignStarted
from bat_events.events.envelope import from_headers
from bat_events.events.seals import OffsetRun, RecordsImported, StoodThere
from bat_events.log.admin import list_topics
from bat_events.log.belonging import campaign_of
from bat_events.log.cluster import Address
from bat_events.log.interface import CrashPoint, Outgoing, Partition, Record
from bat_events.log.kafka import KafkaReader, KafkaWriter
from bat_events.log.topics import IMPORT_TOPIC, SCHEMA_TOPIC
from bat_events.replay.archive_format import Other
from bat_events.replay.archive_reader import Archived, ArchiveReader
from bat_events.replay.imported import Imported
from bat_events.service.emit import outgoing
from bat_events.service.runtime import no_crash

WRITER = "admin.import"
"""Transactional id below the admin's name: an import that is started twice fences the first."""

_BATCH_RECORDS, _BATCH_BYTES = 1000, 4 << 20
_PROGRESS_RECORDS = 20_000
Say = Callable[[str], None]
Put = Callable[[bytes], str]
"""Stores an artefact and returns its digest."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where an import goes: a namespace whose topics exist, as a user that may write all of them."""

    address: Address
    namespace: str
    stores: Mapping[str, Put] = field(default_factory=dict)
    """Plane -> its artefact store; needed where the archive holds that plane's artefacts."""


class ImportLog:
    """The namespace that is imported into."""

    def __init__(self, archive: ArchiveReader, target: Target) -> None:
        self._archive, self._target = archive, target
        self._campaign = archive.manifest.campaign
        self._others: dict[str, Partition] = {}
        topics = [topic.name for topic in archive.manifest.topics]
        self._codec = Codec()
        self._known: set[str] = set()
        imports = []
        reader = self._reader([SCHEMA_TOPIC, IMPORT_TOPIC])
        for record in reader.rest():
            if record.topic == SCHEMA_TOPIC:
                self._known.add(self._codec.learn(record.value))
            else:
                imports.append(record)
        reader.close()
        self._imported = Imported(self._codec.decode(record) for record in imports)
        self._log = self._reader(topics)
        self._ends = self._log.end_offsets()
        self._partitions = {
            state.spec.name: state.partitions for state in list_topics(target.address, target.namespace)
        }
        self._writer: KafkaWriter | None = None

    def __enter__(self) -> "ImportLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()

    def _reader(self, topics: Sequence[str]) -> KafkaReader:
        return KafkaReader(
            bootstrap=self._target.address, namespace=self._target.namespace, topics=topics, group="import", wait_ms=5
        )

    def compare(self, where: Partition) -> int:
        """How many of the campaign's records the partition holds. Raises LogError at the first that differs."""
        wanted, count = self._archive.raw(*where), 0
        for record in self._there(where):
            named = campaign_of(record.headers)
            if named is not None and named != self._campaign.encode():
                self._others.setdefault(named.decode("utf-8", "replace"), where)
                continue
            row = next(wanted, None)
            content = content_bytes(record.key, record.value, record.headers, record.timestamp_ms)
            if row is not None and row[1] != content:
                raise LogError(
                    f"{self._target.namespace}.{where[0]}[{where[1]}]@{record.offset}: record {count} of campaign "
                    f"{self._campaign} is another one than the archive's: nothing was written. Use another namespace"
                )
            count += 1
        return count

    def _there(self, where: Partition) -> Iterator[Record]:
        if self._ends[where]:
            self._log.turn_to(where)
            yield from self._log.rest()

    def refuse_others(self) -> None:
        """Raises LogError where another campaign is in the namespace."""
        for name, (topic, partition) in sorted(self._others.items()):
            raise LogError(
                f"namespace {self._target.namespace} holds campaign {name} ({topic}[{partition}]): an import does not mix "
                "campaigns. Use another namespace"
            )

    def refuse_foreign_origin(self, there: Mapping[Partition, int]) -> None:
        """Raises LogError where some of the campaign was written by its services and the archive would go on from that."""
        for where, count in sorted(there.items()):
            missing = self._archive.entry(*where).records - count
            if missing > 0 and self._imported.records(self._campaign, where) != count:
                raise LogError(
                    f"{self._target.namespace}.{where[0]}[{where[1]}] holds {count} records of campaign {self._campaign} that "
                    "no import wrote, and the archive goes on beyond them: use another namespace"
                )

    def publish_schemas(self) -> int:
        """Put the archive's schemas on the log where they are not; returns how many were new. Raises LogError."""
        fresh = []
        for digest, text in zip(self._archive.manifest.schemas, self._archive.schemas(), strict=True):
            if self._codec.learn(text) != digest:
                raise LogError(f"{self._archive.folder}/schemas/{digest}.avsc is not the schema of its name")
            if digest not in self._known:
                fresh.append(Outgoing(topic=SCHEMA_TOPIC, partition=0, key=digest.encode(), value=text, headers=()))
        if fresh:
            self._publish(fresh, no_crash)
        return len(fresh)

    def write(self, where: Partition, there: int, say: Say, crash: CrashPoint) -> int:
        """Write what is missing of a partition, in transactions; returns how many records."""
        entry = self._archive.entry(*where)
        others = iter(self._archive.others(*where))
        other = next(others, None)
        written, size = 0, 0
        batch: list[Archived] = []
        beside: list[Other] = []
        for archived in self._archive.records(*where):
            if len(batch) >= _BATCH_RECORDS or size >= _BATCH_BYTES:
                self._transaction(where, batch, beside, crash)
                written += len(batch)
                if written // _PROGRESS_RECORDS > (written - len(batch)) // _PROGRESS_RECORDS:
                    say(f"{there + written:,} of {entry.records:,} records")
                batch, beside, size = [], [], 0
            while other is not None and other.offset < archived.record.offset:
                if archived.ordinal >= there:
                    beside.append(other)
                other = next(others, None)
            if archived.ordinal >= there:
                batch.append(archived)
                size += len(archived.record.value)
        if not batch and (entry.records or self._imported.others(self._campaign, where)):
            return written  # all of it was there
        beside += [] if other is None else [other, *others]
        if batch or beside:
            self._transaction(where, batch, beside, crash)
        return written + len(batch)

    def _transaction(
        self, where: Partition, batch: Sequence[Archived], beside: Sequence[Other], crash: CrashPoint
    ) -> None:
        records = [_outgoing(archived.record) for archived in batch]
        first = batch[0].ordinal if batch else self._archive.entry(*where).records
        event = RecordsImported(
            archive=self._archive.manifest.sha256,
            topic=where[0],
            partition=where[1],
            first=first,
            runs=tuple(_runs(batch)),
            others=tuple(StoodThere(offset=o.offset, id=o.id, time=o.time) for o in beside),
        )
        before = sum(self._archive.entry(*w).records + 1 for w in self._archive.partitions if w < where)
        draft = Draft(
            event=event,
            campaign=self._campaign,
            cause=self._started,
            ordinal=before + first,
            key=self._campaign,
        )
        told = outgoing(
            draft, source="bat/admin", logic="import/1", time=datetime.now(UTC), partitions=self._partitions
        )
        self._publish([*records, told], crash)

    @cached_property
    def _started(self) -> str:
        """The id of the campaign's first event."""
        for archived in self._archive.records("campaign", 0):
            envelope = from_headers(archived.record.headers)
            if envelope.type.startswith(f"bat.{CampaignStarted.type_name()}."):
                return envelope.id
        raise LogError(f"{self._archive.folder} has no CampaignStarted")

    def _publish(self, records: Sequence[Outgoing], crash: CrashPoint) -> None:
        if self._writer is None:
            self._writer = KafkaWriter(bootstrap=self._target.address, namespace=self._target.namespace, name=WRITER)
        self._writer.write(records, [], None, crash)


def _outgoing(record: Record) -> Outgoing:
    if record.timestamp_ms <= 0:
        raise LogError(f"{record.topic}[{record.partition}]@{record.offset} has no timestamp: Kafka would give it one")
    return Outgoing(
        topic=record.topic,
        partition=record.partition,
        key=record.key,
        value=record.value,
        headers=record.headers,
        timestamp_ms=record.timestamp_ms,
    )


def _runs(batch: Sequence[Archived]) -> Iterator[OffsetRun]:
    start = count = 0
    for archived in batch:
        offset = archived.record.offset
        if count and offset == start + count:
            count += 1
            continue
        if count:
            yield OffsetRun(offset=start, count=count)
        start, count = offset, 1
    if count:
        yield OffsetRun(offset=start, count=count)
