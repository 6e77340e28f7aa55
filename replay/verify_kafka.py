"""A campaign on Kafka as a SealedLog: its records are hashed as they come, in flat memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bat_events.domain.sealing import content_bytes
from bat_events.log.belonging import belongs
from bat_events.log.heads import leaves_path
from bat_events.log.interface import Partition, Record
from bat_events.log.topics import BY_NAME
from bat_events.replay.archive_raw import Raw
from bat_events.replay.kafka_log import KafkaExportLog


class KafkaSealedLog:
    """See the module. `heads` are the heads files of this home's notaries, by plane: beside them lie the leaves that say which
    event was changed. Without them it is named only where it does not fit itself.
    """

    partial = False

    def __init__(
        self, log: KafkaExportLog, namespace: str, campaign: str, *, heads: Mapping[str, Path] | None = None
    ) -> None:
        self._heads = heads or {}
        self._log = log
        self.name, self.campaign = f"namespace {namespace}", campaign
        self._ends = {where: end for where, (_, end) in log.ends().items()}

    def partitions(self) -> Sequence[Partition]:
        """See SealedLog."""
        return sorted(self._ends)

    def schemas(self) -> Mapping[str, bytes]:
        """See SealedLog."""
        return self._log.schemas()

    def seals(self, topic: str) -> Iterable[Record]:
        """See SealedLog."""
        return self._own((topic, 0))

    def rows(self, where: Partition) -> Iterable[Raw]:
        """See SealedLog."""
        for ordinal, record in enumerate(self._own(where)):
            yield ordinal, content_bytes(record.key, record.value, record.headers, record.timestamp_ms), 0

    def leaves(self, where: Partition) -> Iterator[bytes] | None:  # noqa: ARG002
        """See SealedLog."""
        return None

    def kept(self, where: Partition) -> bytes | None:
        """See SealedLog."""
        heads = self._heads.get("heldout" if BY_NAME[where[0]].plane == "heldout" else "training")
        path = None if heads is None else leaves_path(heads, self.campaign, *where)
        return path.read_bytes() if path is not None and path.exists() else None

    def _own(self, where: Partition) -> Iterator[Record]:
        campaign = self.campaign.encode()
        for record in self._log.read(where, self._ends[where]):
            if isinstance(record, Record) and belongs(record.headers, campaign):
                yield record
