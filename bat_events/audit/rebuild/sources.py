"""Where a rebuild's records come from: the log on Kafka, or an archive. Nothing here can write."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from bat_events.audit.columnar.archive import ColumnBatch, column_batches
from bat_events.audit.columnar.columns import BOUNDARY
from bat_events.audit.errors import AuditError
from bat_events.audit.materialiser import PORTION_BYTES
from bat_events.log.cluster import Address
from bat_events.log.interface import Partition, Record
from bat_events.log.kafka_reader import KafkaReader
from bat_events.replay.archive import version_of
from bat_events.replay.archive_format import VERSION
from bat_events.replay.archive_reader import ArchiveReader

_POLL = 500
"""Records that are taken from the client at once."""


class RecordSource(Protocol):
    """Committed records from the beginning, each partition in order."""

    @property
    def name(self) -> str:
        """What it is, for people."""
        ...

    @property
    def total(self) -> int:
        """About how many records there are."""
        ...

    @property
    def ends(self) -> Mapping[Partition, int]:
        """One past the last record of each partition when the source was opened."""
        ...

    def ends_now(self) -> Mapping[Partition, int]:
        """The same now."""
        ...

    def batches(self, most: int) -> Iterator[ColumnBatch | Sequence[Record]]:
        """All records up to the ends or further, at most about so many at once. Raises LogError or ArchiveError."""
        ...

    def close(self) -> None: ...


class KafkaRecords:
    """See RecordSource. Reads on to wherever the log ends when it gets there."""

    def __init__(self, address: Address, namespace: str, topics: Sequence[str]) -> None:
        self.name = f"log of namespace {namespace}"
        self._reader = KafkaReader(bootstrap=address, namespace=namespace, topics=topics, group="auditor")
        self.ends: Mapping[Partition, int] = self._reader.end_offsets()
        self.total = sum(self.ends.values())

    def ends_now(self) -> Mapping[Partition, int]:
        """See RecordSource.ends_now."""
        return self._reader.end_offsets()

    def batches(self, most: int) -> Iterator[Sequence[Record]]:
        """See RecordSource.batches: what the client has fetched already goes together."""
        batch: list[Record] = []
        size = 0
        while not self._reader.caught_up():
            found = self._reader.poll(min(_POLL, most - len(batch)), 0.2)
            batch += found
            size += sum(len(record.value) for record in found)
            if size >= PORTION_BYTES or len(batch) >= most or (batch and not found):
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def close(self) -> None:
        """Free the sockets."""
        self._reader.close()


class ArchiveRecords:
    """See RecordSource: an archive of the second format, checked against its manifest. Raises ArchiveError, AuditError.

    `whole` says whether there was one campaign only where it was exported.
    """

    def __init__(self, folder: Path, topics: Sequence[str], *, check: bool = True) -> None:
        if version_of(folder) != VERSION:
            raise AuditError(f"{folder} is an archive of the first format, which keeps no campaign apart: export again")
        self.reader = ArchiveReader(folder, check=check)
        manifest = self.reader.manifest
        if manifest.only_round is not None:
            raise AuditError(f"{folder} holds round {manifest.only_round} only: export the whole campaign")
        self.name = f"archive {folder.name} of namespace {manifest.namespace}"
        self.parts = [part for part in manifest.partitions if part.topic in topics]
        self.total = sum(part.records for part in self.parts)
        self.ends = {(part.topic, part.partition): part.offset_end for part in self.parts}
        self.whole = not any(part.others is not None and part.others.records for part in self.parts)

    def ends_now(self) -> Mapping[Partition, int]:
        """See RecordSource.ends_now: an archive does not grow."""
        return self.ends

    def batches(self, most: int) -> Iterator[ColumnBatch | Sequence[Record]]:
        """See RecordSource.batches: one partition after another."""
        for part in self.parts:
            if part.topic not in BOUNDARY:
                yield from column_batches(self.reader, part)
                continue
            batch: list[Record] = []
            for archived in self.reader.records(part.topic, part.partition):
                batch.append(archived.record)
                if len(batch) >= most:
                    yield batch
                    batch = []
            if batch:
                yield batch

    def close(self) -> None:
        """Nothing is open between batches."""
