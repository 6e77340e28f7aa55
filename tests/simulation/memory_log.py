"""A deterministic in-memory log for tests: readers, reactors' and workers' logs over a broker in memory. Test-only.

See tests/simulation/memory_broker.py for what is as on Kafka; tests/log_contract.py holds both logs to it.
"""

from collections.abc import Mapping, Sequence

from bat_events.errors import FencedError, LogError, Rebalanced
from bat_events.log.interface import CrashPoint, Outgoing, Partition, Record
from tests.simulation.memory_broker import Broker, Transaction

__all__ = ["Broker", "MemoryReactorLog", "MemoryReader", "MemoryWorkerLog", "MemoryWriter", "Transaction"]

_CHUNKS = (1, 2, 5, 40)
_PATIENCE_S = 30.0


class _Reader:
    """Polling shared by all readers. `unread` are the partitions whose end was not reached since they were assigned."""

    broker: Broker
    positions: dict[Partition, int]
    unread: set[Partition]
    news: set[Partition]

    def _open(self, broker: Broker, topics: Sequence[str], positions: dict[Partition, int]) -> None:
        self.broker, self.positions = broker, positions
        self.unread, self.news = set(positions), set(positions)
        broker.register(self, topics)

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:
        """See LogReader."""
        self.broker.expire()
        found: list[Record] = []
        while not found and self.news:  # what was drawn may hold markers only
            found = self._fetch(max_records)
        if not found and timeout_s > 0:
            self.broker.wait(timeout_s)
        return found

    def _fetch(self, max_records: int) -> list[Record]:
        rng, broker = self.broker.rng, self.broker
        places = sorted(self.news)
        if rng is not None and len(places) > 1:
            rng.shuffle(places)
            places = places[: rng.randint(1, 3)]
        if rng is not None:
            max_records = min(max_records, rng.choice(_CHUNKS))
        found: list[Record] = []
        for where in places:
            if len(found) >= max_records:
                break
            if where not in self.positions:  # it was taken away, or is not known yet from where to read
                self.news.discard(where)
                continue
            rows, self.positions[where] = broker.fetch(where, self.positions[where], max_records - len(found))
            found += rows
            if self.positions[where] == broker.part(where).stable:
                self.unread.discard(where)
                self.news.discard(where)
        broker.held_back += bool(found and self.news)
        return found

    def caught_up(self) -> bool:
        """See LogReader."""
        return not self.unread

    def settled(self) -> bool:
        """See ReactorLog."""
        return all(self.positions.get(where, 0) >= end for where, end in self.end_offsets().items())

    def end_offsets(self) -> dict[Partition, int]:
        """Where each partition ends now: one past the last committed record or marker."""
        self.broker.expire()
        return {where: self.broker.part(where).stable for where in self.positions}

    def close(self) -> None:
        """Nothing to free."""


class MemoryReader(_Reader):
    """See LogReader: all partitions of some topics."""

    def __init__(self, broker: Broker, topics: Sequence[str], start: Mapping[Partition, int] | None = None) -> None:
        self._open(broker, topics, {where: (start or {}).get(where, 0) for where in broker.all_partitions(topics)})


class _Writer(_Reader):
    """One transaction at a time: outputs, then offsets, then commit."""

    group: str
    _id: str
    _epoch: int

    def _write(
        self,
        outputs: Sequence[Outgoing],
        offsets: Mapping[Partition, int],
        crash: CrashPoint,
        notes: Mapping[Partition, str] | None = None,
    ) -> None:
        broker = self.broker
        broker.begin(self._id, self._epoch)
        try:
            crash("begun")
            for out in outputs:
                broker.produce(self._id, self._epoch, out)
            crash("produced")
            if offsets:
                places = {where: (offset, (notes or {}).get(where, "")) for where, offset in offsets.items()}
                broker.send_offsets(self._id, self._epoch, self.group, places, self._member())
            crash("offsets-sent")
            broker.commit(self._id, self._epoch)
        except FencedError:
            raise
        except LogError as error:
            broker.abort(self._id, self._epoch)
            kind = Rebalanced if isinstance(error, Rebalanced) else LogError
            raise kind(f"transaction aborted, nothing was kept: {error}") from error
        crash("committed")

    def _member(self) -> "MemoryWorkerLog | None":
        return None


class MemoryWriter(_Writer):
    """A writer without inputs, for producers: one transaction per call."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.group, self._id = name, name
        self._epoch = broker.begin_service(name)
        self._open(broker, [], {})

    def publish(self, outputs: Sequence[Outgoing]) -> None:
        """Write all or nothing. Raises LogError or FencedError."""
        self._write(outputs, {}, lambda _: None)


class MemoryReactorLog(_Writer):
    """See ReactorLog."""

    def __init__(self, broker: Broker, *, service: str, topics: Sequence[str]) -> None:
        self.group, self._id = service, service
        self._epoch = broker.begin_service(service)
        self._open(broker, topics, dict.fromkeys(broker.all_partitions(topics), 0))
        self._committed = {where: broker.offsets.get((service, where), 0) for where in self.positions}

    def committed(self) -> Mapping[Partition, int]:
        """See ReactorLog."""
        return self._committed

    def commit(self, outputs: Sequence[Outgoing], offsets: Mapping[Partition, int], crash: CrashPoint) -> None:
        """See ReactorLog."""
        self._write(outputs, offsets, crash)
        self._committed = {**self._committed, **offsets}


class MemoryWorkerLog(_Writer):
    """See WorkerLog. What it believes to have (`positions`) may lag behind what the broker has `granted`."""

    def __init__(self, broker: Broker, *, service: str, topic: str, instance: str) -> None:
        self.group, self._id, self.topic = service, f"{service}.{instance}", topic
        self._epoch = broker.begin_service(self._id)
        self.granted: set[Partition] = set()
        self.target: set[Partition] = set()
        self.silent_since_ms: int | None = None
        self.poked = True
        self._open(broker, [topic], {})
        self._assigned: set[Partition] = set()  # positions follow once the committed offset is known
        self._gained: set[Partition] = set()
        self._marks: dict[Partition, str] = {}
        broker.join(self)

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:
        """See LogReader."""
        self.keep_alive()
        if len(self.positions) < len(self._assigned):
            for where in sorted(self._assigned - self.positions.keys()):
                if not self.broker.pending(self.group, where):
                    self.positions[where] = self._start(where)
                    self.news.add(where)
        return super().poll(max_records, timeout_s)

    def _start(self, where: Partition) -> int:
        """Where to go on: the committed offset, or 0 where there is none."""
        return self.broker.offsets.get((self.group, where), 0)

    def assigned(self) -> frozenset[Partition]:
        """See WorkerLog."""
        return frozenset(self._assigned)

    def keep_alive(self) -> None:
        """See WorkerLog."""
        self.broker.expire()
        if self not in self.broker.members.get(self.group, []):  # expelled: all is lost, and it joins anew
            self.revoke(set(self._assigned))
            self.broker.join(self)
        if self.poked:
            self.broker.sync(self)

    def revoke(self, places: set[Partition]) -> None:
        """The broker takes partitions."""
        self.unmark(places)
        self._assigned -= places
        self._gained -= places
        self.unread -= places
        self.news -= places
        for where in places:
            self.positions.pop(where, None)

    def assign(self, places: set[Partition]) -> None:
        """The broker gives partitions."""
        self._assigned |= places
        self._gained |= places
        self.unread |= places

    def gained(self) -> frozenset[Partition]:
        """See WorkerLog."""
        found, self._gained = frozenset(self._gained & self._assigned), set()
        return found

    def standing(self, where: Partition) -> tuple[int, str]:
        """See WorkerLog. Waits for an open transaction that holds this partition's offset."""
        waited = 0.0
        while self.broker.pending(self.group, where):
            if waited > _PATIENCE_S:
                raise LogError(f"the committed offset of {where[0]}[{where[1]}] cannot be read: it is not stable")
            self.broker.wait(0.1)
            waited += 0.1
        place = (self.group, where)
        return self.broker.offsets.get(place, 0), self.broker.notes.get(place, "")

    def mark(self, where: Partition, offset: int, note: str) -> None:
        """See WorkerLog."""
        before = self._marks.get(where, self.standing(where)[1])
        if self not in self.broker.members.get(self.group, []):
            return  # refused, and left out: it counts tries, no more
        self._marks[where] = before
        self.broker.mark(self.group, where, offset, note)

    def unmark(self, places: set[Partition]) -> None:
        """Take marks back, as far as they are still this member's to take."""
        for where in places & set(self._marks):
            before = self._marks.pop(where)
            if self in self.broker.members.get(self.group, []):
                self.broker.notes[(self.group, where)] = before

    def fetch(self, where: Partition, offset: int) -> Record:
        """See WorkerLog."""
        for record in self.broker.records.get(where, []):
            if record.offset == offset:
                return record
        raise LogError(f"{where[0]}[{where[1]}]@{offset}: no record stands there")

    def commit(
        self,
        outputs: Sequence[Outgoing],
        offsets: Mapping[Partition, int],
        crash: CrashPoint,
        notes: Mapping[Partition, str] | None = None,
    ) -> None:
        """See WorkerLog. Who was expelled learns it here, joins anew, and what it lost is refused."""
        while True:
            if lost := sorted(set(offsets) - self._assigned):
                raise Rebalanced(f"partitions {lost} were given to another member meanwhile: ours is dropped")
            try:
                self._write(outputs, offsets, crash, notes)
                break
            except Rebalanced:
                known = set(self._gained)
                self.keep_alive()  # and so learn what is lost
                if anew := sorted(set(offsets) & (self._gained - known)):
                    raise Rebalanced(f"partitions {anew} went and came back meanwhile: ours is dropped") from None
        for where in offsets:
            self._marks.pop(where, None)

    def _member(self) -> "MemoryWorkerLog":
        return self

    def close(self) -> None:
        """Leave the group in good order."""
        self.unmark(set(self._marks))
        if self in self.broker.members.get(self.group, []):
            self.broker.leave(self)
