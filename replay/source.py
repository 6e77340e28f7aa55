"""Where replay's records come from: a Kafka namespace, read to a fixed end, or an archive folder.

A source only reads. It leaves out the held-out plane, for which replay has no right and no need.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from bat_events.errors import LogError
from bat_events.log.cluster import Address
from bat_events.log.interface import Partition, Record
from bat_events.log.kafka_reader import KafkaReader
from bat_events.log.topics import IMPORT_TOPIC, SCHEMA_TOPIC, TOPICS

_BATCH = 2000
_QUIET_S = 30.0


class ReplayError(LogError):
    """Replay cannot begin or go on: the log, the archive or the campaign is not what was named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherRecord:
    """Where a record of another campaign stood: an archive of one campaign keeps no more of it."""

    topic: str
    partition: int
    offset: int
    id: str
    time: datetime


class Source(Protocol):
    """A log to replay: every record of a namespace's open topics, each partition in order."""

    @property
    def name(self) -> str:
        """What is read, for people."""
        ...

    @property
    def judged(self) -> Mapping[Partition, int] | None:
        """Only records before these offsets are compared; later ones are inputs at most. None: all are compared."""
        ...

    def schemas(self) -> Sequence[bytes]:
        """The writer schemas that travel with the log, as JSON texts."""
        ...

    def imports(self) -> Sequence[Record]:
        """What imports say about the records that they wrote."""
        ...

    def records(self) -> Iterator[Record | OtherRecord]:
        """Every record of the open topics; partitions may be interleaved. Raises LogError."""
        ...


def open_topics() -> tuple[str, ...]:
    """The topics that replay reads, without namespace."""
    return tuple(
        spec.name for spec in TOPICS if spec.plane != "heldout" and not spec.compacted and spec.name != IMPORT_TOPIC
    )


class KafkaSource:
    """A namespace on a broker, as of now; campaigns may be running in it meanwhile.

    The ends are taken twice: what stood there at first is compared, what came until the second time is read too. So
    every decision that is compared has all its inputs among what was read, although no broker gives the ends of several
    partitions at one moment.
    """

    def __init__(self, bootstrap: Address, namespace: str) -> None:
        self.name = f"namespace {namespace}"
        self._reader = KafkaReader(
            bootstrap=bootstrap,
            namespace=namespace,
            topics=[*open_topics(), SCHEMA_TOPIC, IMPORT_TOPIC],
            group="replay",
        )
        self.judged: Mapping[Partition, int] | None = self._reader.end_offsets()
        self._ends = self._reader.end_offsets()
        self._records: list[Record] | None = None

    def schemas(self) -> Sequence[bytes]:
        """See Source.schemas."""
        return [record.value for record in self.all_records() if record.topic == SCHEMA_TOPIC]

    def imports(self) -> Sequence[Record]:
        """See Source.imports."""
        return [record for record in self.all_records() if record.topic == IMPORT_TOPIC]

    def records(self) -> Iterator[Record]:
        """See Source.records."""
        return (record for record in self.all_records() if record.topic not in (SCHEMA_TOPIC, IMPORT_TOPIC))

    def all_records(self) -> list[Record]:
        """The schema topic's records too, in the order of topic, partition and offset. Raises LogError."""
        if self._records is None:
            self._records = sorted(self._read(), key=lambda r: (r.topic, r.partition, r.offset))
        return self._records

    def close(self) -> None:
        """Free the sockets."""
        self._reader.close()

    def _read(self) -> list[Record]:
        found: list[Record] = []
        quiet_s = 0.0
        while not self._reader.caught_up():
            batch = self._reader.poll(_BATCH, 1.0)
            found += [r for r in batch if r.offset < self._ends[(r.topic, r.partition)]]
            quiet_s = 0.0 if batch else quiet_s + 1.0
            if quiet_s > _QUIET_S:
                raise LogError(f"{self.name}: Kafka gave nothing for {_QUIET_S:g} s and the end is not reached")
        return found
