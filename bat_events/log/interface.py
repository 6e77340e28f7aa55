"""What the service loop needs of a log: the same contract for the real Kafka and for the simulated one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Partition = tuple[str, int]
"""(topic without namespace, partition number)."""

MAXIMUM_BYTES = 8 << 20
"""Key, value and headers of one record together, before compression: topics are made with this limit."""

CrashPoint = Callable[[str], None]
"""Called with the name of a moment at which a process may die; does nothing outside tests."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """A record as it was read. `topic` carries no namespace."""

    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int

    @property
    def place(self) -> Partition:
        """Where it stands."""
        return (self.topic, self.partition)

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        return len(self.key) + len(self.value) + sum(len(name) + len(value) for name, value in self.headers)


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """A record to be written."""

    topic: str
    partition: int
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int | None = None
    """None: the moment at which it is written."""


class LogReader(Protocol):
    """Reads committed records only, every partition in order, from the start unless told otherwise."""

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:
        """The next records, at most `max_records`; empty after `timeout_s` without one.

        Raises LogError when an offset is out of range: the log lost what this reader had not read.
        """
        ...

    def caught_up(self) -> bool:
        """Whether every assigned partition has been read to its end at least once since it was assigned."""
        ...

    def close(self) -> None: ...


class ReactorLog(LogReader, Protocol):
    """All partitions of some topics for one service instance, fenced by its transactional id."""

    def settled(self) -> bool:
        """Whether everything that was committed when this was called has been handed out. Asks the broker."""
        ...

    def committed(self) -> Mapping[Partition, int]:
        """The next offsets that the last committed transaction of this service stands for (0 where none)."""
        ...

    def commit(self, outputs: Sequence[Outgoing], offsets: Mapping[Partition, int], crash: CrashPoint) -> None:
        """Write outputs and consumed offsets in one transaction.

        Raises FencedError when a newer instance has taken over; on any other error the transaction is aborted and
        LogError raised: nothing was kept.
        """
        ...


class WorkerLog(LogReader, Protocol):
    """A share of one topic's partitions, given and taken by the consumer group."""

    @property
    def positions(self) -> Mapping[Partition, int]:
        """The next offset of each assigned partition that was read from: all before it was handed out since it was assigned.

        At a partition's end it is past what stands there beside records (transaction markers).
        """
        ...

    def assigned(self) -> frozenset[Partition]: ...

    def keep_alive(self) -> None:
        """Stay a member of the group while long work runs: no record is taken."""
        ...

    def gained(self) -> frozenset[Partition]:
        """The partitions that were assigned since this was last asked."""
        ...

    def standing(self, where: Partition) -> tuple[int, str]:
        """The committed next offset of a partition (0 where none is) and the note that was committed with it."""
        ...

    def mark(self, where: Partition, offset: int, note: str) -> None:
        """Commit a note beside an offset that stays where it is. Leaving in good order, or losing the partition to another
        member, takes it back; a death does not."""
        ...

    def fetch(self, where: Partition, offset: int) -> Record:
        """The record at one place. Raises LogError where none stands there."""
        ...

    def commit(
        self,
        outputs: Sequence[Outgoing],
        offsets: Mapping[Partition, int],
        crash: CrashPoint,
        notes: Mapping[Partition, str] | None = None,
    ) -> None:
        """As ReactorLog.commit; also raises Rebalanced when a partition of `offsets` was taken away meanwhile.

        `notes` are committed with their offsets; a partition without one loses the note that it had.
        """
        ...
