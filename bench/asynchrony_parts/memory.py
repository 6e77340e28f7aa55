"""A log in memory for simulated time: partitions, committed offsets, a consumer group. Nothing crashes here.

What it promises is the part of log/interface.py that the service machines need; the suite for logs is tests/log_contract.py.
"""

from collections.abc import Callable, Mapping, Sequence

from bat_events.log.interface import CrashPoint, Outgoing, Partition, Record
from bat_events.log.topics import partition_of


class MemoryBroker:
    """All records, and who has which partition of which topic.

    `hashed`: topics whose records go where the hash of their key says. Groups and their rollouts are placed by turns
    (bat_events.log.placement), so this is a what-if: it tells what placing by key costs.
    """

    def __init__(self, partitions: Mapping[str, int], now_ms: Callable[[], int], hashed: Sequence[str] = ()) -> None:
        self.partitions, self._now_ms = partitions, now_ms
        self._hashed = frozenset(hashed)
        self.records: dict[Partition, list[Record]] = {}
        self._members: dict[str, list[MemoryWorkerLog]] = {}
        self._readers: dict[Partition, list[_MemoryLog]] = {}

    def all_partitions(self, topics: Sequence[str]) -> list[Partition]:
        """Every partition of some topics."""
        return [(topic, number) for topic in topics for number in range(self.partitions[topic])]

    def append(self, outputs: Sequence[Outgoing]) -> None:
        """Commit records."""
        for out in outputs:
            hashed = out.topic in self._hashed
            partition = partition_of(out.key, self.partitions[out.topic]) if hashed else out.partition
            for reader in self._readers.get((out.topic, partition), ()):
                reader.fresh = True
            place = self.records.setdefault((out.topic, partition), [])
            place.append(
                Record(
                    topic=out.topic,
                    partition=partition,
                    offset=len(place),
                    key=out.key,
                    value=out.value,
                    headers=out.headers,
                    timestamp_ms=self._now_ms(),
                )
            )

    def join(self, member: "MemoryWorkerLog", group: str, topic: str) -> None:
        """Hand out the topic's partitions anew, neighbours to one member as Kafka does. All join before anything is read."""
        members = self._members.setdefault(group, [])
        members.append(member)
        for each in members:
            each.positions.clear()
        places = self.all_partitions([topic])
        for number, place in enumerate(places):
            owner = members[number * len(members) // len(places)]
            owner.positions[place] = 0
            self._readers[place] = [r for r in self._readers.get(place, ()) if r not in members] + [owner]

    def watch(self, reader: "_MemoryLog") -> None:
        """Tell a reader of all its partitions when something comes."""
        for place in reader.positions:
            self._readers.setdefault(place, []).append(reader)


class _MemoryLog:
    fresh: bool
    """Whether something may be there that was not read: who has nothing to read is not stepped."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker, self.fresh = broker, True
        self.positions: dict[Partition, int] = {}

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:  # noqa: ARG002
        """See LogReader."""
        found: list[Record] = []
        for place in self.positions:
            there = self._broker.records.get(place, ())
            fresh = there[self.positions[place] : self.positions[place] + max_records - len(found)]
            self.positions[place] += len(fresh)
            found += fresh
        self.fresh = len(found) == max_records
        return found

    def caught_up(self) -> bool:
        """See LogReader."""
        return all(at >= len(self._broker.records.get(place, ())) for place, at in self.positions.items())

    def settled(self) -> bool:
        """See ReactorLog."""
        return self.caught_up()

    def close(self) -> None:
        """Nothing to free."""


class MemoryReactorLog(_MemoryLog):
    """See ReactorLog."""

    def __init__(self, broker: MemoryBroker, topics: Sequence[str]) -> None:
        super().__init__(broker)
        self.positions = dict.fromkeys(broker.all_partitions(topics), 0)
        broker.watch(self)

    def committed(self) -> Mapping[Partition, int]:
        """See ReactorLog: a service that begins."""
        return dict.fromkeys(self.positions, 0)

    def commit(self, outputs: Sequence[Outgoing], offsets: Mapping[Partition, int], crash: CrashPoint) -> None:  # noqa: ARG002
        """See ReactorLog."""
        self._broker.append(outputs)


class MemoryWorkerLog(_MemoryLog):
    """See WorkerLog."""

    def __init__(self, broker: MemoryBroker, *, group: str, topic: str) -> None:
        super().__init__(broker)
        broker.join(self, group, topic)

    def assigned(self) -> frozenset[Partition]:
        """See WorkerLog."""
        return frozenset(self.positions)

    def keep_alive(self) -> None:
        """See WorkerLog."""

    def gained(self) -> frozenset[Partition]:
        """See WorkerLog."""
        return frozenset()

    def standing(self, where: Partition) -> tuple[int, str]:
        """See WorkerLog. Asked only where there are dead letters, and here are none."""
        raise NotImplementedError(where)

    def mark(self, where: Partition, offset: int, note: str) -> None:
        """See WorkerLog. As `standing`."""
        raise NotImplementedError((where, offset, note))

    def fetch(self, where: Partition, offset: int) -> Record:
        """See WorkerLog. As `standing`."""
        raise NotImplementedError((where, offset))

    def commit(
        self,
        outputs: Sequence[Outgoing],
        offsets: Mapping[Partition, int],  # noqa: ARG002
        crash: CrashPoint,  # noqa: ARG002
        notes: Mapping[Partition, str] | None = None,  # noqa: ARG002
    ) -> None:
        """See WorkerLog."""
        self._broker.append(outputs)
