"""A deterministic in-memory log for tests: partitions, groups, transactions, read-committed. Test-only.

Enough of the log's contract to run the service machines without a broker; tests/log_contract.py holds both logs to it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bat_events.errors import FencedError, LogError, Rebalanced
from bat_events.log.interface import CrashPoint, Outgoing, Partition, Record


@dataclass
class Broker:
    """Everything that is shared: committed records, committed offsets, producer epochs, group members."""

    partitions: Mapping[str, int]
    records: dict[Partition, list[Record]] = field(default_factory=dict)
    offsets: dict[tuple[str, Partition], int] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    members: dict[str, list["MemoryWorkerLog"]] = field(default_factory=dict)
    now_ms: Callable[[], int] = lambda: 0  # what the log stamps its records with
    notes: dict[tuple[str, Partition], str] = field(default_factory=dict)

    def all_partitions(self, topics: Sequence[str]) -> list[Partition]:
        """Every partition of the topics."""
        return [(topic, p) for topic in topics for p in range(self.partitions[topic])]

    def append(self, outputs: Sequence[Outgoing]) -> None:
        """Commit records."""
        for out in outputs:
            place = self.records.setdefault((out.topic, out.partition), [])
            place.append(
                Record(
                    topic=out.topic,
                    partition=out.partition,
                    offset=len(place),
                    key=out.key,
                    value=out.value,
                    headers=out.headers,
                    timestamp_ms=self.now_ms(),
                )
            )

    def rebalance(self, group: str, topic: str) -> None:
        """Hand out the topic's partitions anew, one by one."""
        members = self.members.get(group, [])
        held = [member.positions for member in members]
        for member in members:
            member.positions = {}
        for number, tp in enumerate(self.all_partitions([topic]) if members else []):
            owner = number % len(members)  # who keeps a partition keeps its position in it
            if tp not in held[owner]:
                for member in members:
                    member.unmark({tp})
                members[owner].fresh.add(tp)
            members[owner].positions[tp] = held[owner].get(tp, self.offsets.get((group, tp), 0))


class _Reader:
    broker: Broker
    positions: dict[Partition, int]

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:  # noqa: ARG002
        """See LogReader."""
        found: list[Record] = []
        for tp in sorted(self.positions):
            there = self.broker.records.get(tp, [])
            fresh = there[self.positions[tp] : self.positions[tp] + max_records - len(found)]
            self.positions[tp] += len(fresh)
            found += fresh
        return found

    def caught_up(self) -> bool:
        """See LogReader."""
        return all(self.positions[tp] >= len(self.broker.records.get(tp, [])) for tp in self.positions)


class MemoryReader(_Reader):
    """See LogReader: all partitions of some topics."""

    def __init__(self, broker: Broker, topics: Sequence[str]) -> None:
        self.broker = broker
        self.positions = dict.fromkeys(broker.all_partitions(topics), 0)

    def close(self) -> None:
        """Nothing to free."""


class _Writer(_Reader):
    group: str
    _id: str
    _epoch: int

    def _begin(self) -> None:
        self._epoch = self.broker.epochs.get(self._id, 0) + 1
        self.broker.epochs[self._id] = self._epoch

    def _write(
        self,
        outputs: Sequence[Outgoing],
        offsets: Mapping[Partition, int],
        crash: CrashPoint,
        notes: Mapping[Partition, str] | None = None,
    ) -> None:
        crash("begun")
        crash("produced")
        crash("offsets-sent")
        if self.broker.epochs[self._id] != self._epoch:
            raise FencedError("a newer instance took over")
        self.broker.append(outputs)
        for tp, offset in offsets.items():
            self.broker.offsets[(self.group, tp)] = offset
            self.broker.notes[(self.group, tp)] = (notes or {}).get(tp, "")
        crash("committed")


class MemoryReactorLog(_Writer):
    """See ReactorLog."""

    def __init__(self, broker: Broker, *, service: str, topics: Sequence[str]) -> None:
        self.broker, self.group, self._id = broker, service, service
        self._begin()
        self.positions = dict.fromkeys(broker.all_partitions(topics), 0)

    def settled(self) -> bool:
        """See ReactorLog."""
        return self.caught_up()

    def committed(self) -> Mapping[Partition, int]:
        """See ReactorLog."""
        return {tp: self.broker.offsets.get((self.group, tp), 0) for tp in self.positions}

    def commit(self, outputs: Sequence[Outgoing], offsets: Mapping[Partition, int], crash: CrashPoint) -> None:
        """See ReactorLog."""
        self._write(outputs, offsets, crash)

    def close(self) -> None:
        """Nothing to free."""


class MemoryWorkerLog(_Writer):
    """See WorkerLog."""

    def __init__(self, broker: Broker, *, service: str, topic: str, instance: str) -> None:
        self.broker, self.group, self._id, self._topic = broker, service, f"{service}.{instance}", topic
        self._begin()
        self.positions = {}
        self.fresh: set[Partition] = set()
        self._marks: dict[Partition, str] = {}
        broker.members.setdefault(service, []).append(self)
        broker.rebalance(service, topic)

    def assigned(self) -> frozenset[Partition]:
        """See WorkerLog."""
        return frozenset(self.positions)

    def keep_alive(self) -> None:
        """See WorkerLog."""

    def gained(self) -> frozenset[Partition]:
        """See WorkerLog."""
        found, self.fresh = frozenset(self.fresh & set(self.positions)), set()
        return found

    def standing(self, where: Partition) -> tuple[int, str]:
        """See WorkerLog."""
        place = (self.group, where)
        return self.broker.offsets.get(place, 0), self.broker.notes.get(place, "")

    def mark(self, where: Partition, offset: int, note: str) -> None:
        """See WorkerLog."""
        self._marks.setdefault(where, self.broker.notes.get((self.group, where), ""))
        self.broker.offsets[(self.group, where)] = offset
        self.broker.notes[(self.group, where)] = note

    def unmark(self, places: set[Partition]) -> None:
        """Take marks back."""
        for where in places & set(self._marks):
            self.broker.notes[(self.group, where)] = self._marks.pop(where)

    def fetch(self, where: Partition, offset: int) -> Record:
        """See WorkerLog."""
        for record in self.broker.records.get(where, []):
            if record.offset == offset:
                return record
        raise LogError(f"{where} has no record at {offset}")

    def commit(
        self,
        outputs: Sequence[Outgoing],
        offsets: Mapping[Partition, int],
        crash: CrashPoint,
        notes: Mapping[Partition, str] | None = None,
    ) -> None:
        """See WorkerLog."""
        if not set(offsets) <= set(self.positions):
            raise Rebalanced("partitions were taken away")
        self._write(outputs, offsets, crash, notes)
        for where in offsets:
            self._marks.pop(where, None)

    def close(self) -> None:
        """Leave the group in good order."""
        self.unmark(set(self._marks))
        self.broker.members[self.group].remove(self)
        self.broker.rebalance(self.group, self._topic)
