"""A campaign's log on Kafka as an export and a check of seals read it: one partition at a time, in flat memory."""

from collections.abc import Iterator, Mapping

from bat_events.codec import Codec
from bat_events.errors import LogError
from bat_events.log.belonging import belongs
from bat_events.log.cluster import Address
from bat_events.log.interface import Partition, Record
from bat_events.log.kafka_reader import KafkaReader
from bat_events.log.topics import BY_NAME, IMPORT_TOPIC, SCHEMA_TOPIC
from bat_events.replay.archive_format import ArchiveError, Other
from bat_events.replay.export import archived_topics
from bat_events.replay.imported import Imported, went_on

_BATCH = 2000
_QUIET_S = 30.0
_WAIT_MS = 5
_ALL = 1 << 62


class KafkaExportLog:
    """See ExportLog. `heldout` is the cluster as the held-out plane's reader reaches it; None: open topics only.

    Raises AccessDenied where a principal may not read what is asked for.
    """

    def __init__(self, address: Address, namespace: str, campaign: str, *, heldout: Address | None = None) -> None:
        self._campaign, self._namespace = campaign, namespace
        small = KafkaReader(bootstrap=address, namespace=namespace, topics=[SCHEMA_TOPIC, IMPORT_TOPIC], group="export")
        self._schemas: dict[str, bytes] = {}
        codec = Codec()
        imports: list[Record] = []
        try:
            for record in small.rest():
                if record.topic == SCHEMA_TOPIC:
                    self._schemas.setdefault(codec.learn(record.value), record.value)
                else:
                    imports.append(record)
        finally:
            small.close()
        self._imported = Imported(codec.decode(record) for record in imports)
        names = archived_topics(heldout=False)
        self._readers = [
            KafkaReader(bootstrap=address, namespace=namespace, topics=names, group="export", wait_ms=_WAIT_MS)
        ]
        if heldout is not None:
            hidden = [name for name in archived_topics(heldout=True) if BY_NAME[name].plane == "heldout"]
            self._readers.append(
                KafkaReader(bootstrap=heldout, namespace=namespace, topics=hidden, group="export", wait_ms=_WAIT_MS)
            )

    def ends(self) -> Mapping[Partition, tuple[int, int]]:
        """See ExportLog: taken twice, so that what is compared has all its inputs among what is read."""
        first = [reader.end_offsets() for reader in self._readers]
        imported = self._imported.holds(self._campaign)  # whole when it was exported: all of it is compared
        return {
            where: (_ALL if imported else judged, end)
            for reader, ends in zip(self._readers, first, strict=True)
            for (where, judged), end in zip(ends.items(), reader.end_offsets().values(), strict=True)
        }

    def read(self, where: Partition, end: int) -> Iterator[Record | Other]:
        """See ExportLog."""
        records = self._until(where, end)
        return self._as_before(records, where) if self._imported.holds(self._campaign) else records

    def schemas(self) -> Mapping[str, bytes]:
        """See ExportLog."""
        return self._schemas

    def close(self) -> None:
        """Free the sockets."""
        for reader in self._readers:
            reader.close()

    def _until(self, where: Partition, end: int) -> Iterator[Record]:
        if end == 0:
            return
        reader = next(reader for reader in self._readers if where in reader.partitions)
        reader.turn_to(where)
        quiet_s = 0.0
        while reader.positions.get(where, 0) < end:
            batch = reader.poll(_BATCH, 1.0)
            for record in batch:
                if record.offset < end:
                    yield record
            quiet_s = 0.0 if batch else quiet_s + 1.0
            if quiet_s > _QUIET_S:
                raise LogError(
                    f"{where[0]}[{where[1]}]: Kafka gave nothing for {_QUIET_S:g} s and the end is not reached"
                )

    def _as_before(self, records: Iterator[Record], where: Partition) -> Iterator[Record | Other]:
        """The records with the offsets that they had before they were imported, others' places among them."""
        campaign = self._campaign.encode()
        offsets = self._imported.offsets(self._campaign, where)
        others = iter(self._imported.others(self._campaign, where))
        other = next(others, None)
        for record in records:
            if not belongs(record.headers, campaign):
                continue
            offset = next(offsets, None)
            if offset is None:
                raise ArchiveError(went_on(self._campaign, where))
            while other is not None and other.offset < offset:
                yield other
                other = next(others, None)
            yield Record(
                topic=record.topic,
                partition=record.partition,
                offset=offset,
                key=record.key,
                value=record.value,
                headers=record.headers,
                timestamp_ms=record.timestamp_ms,
            )
        while other is not None:
            yield other
            other = next(others, None)
