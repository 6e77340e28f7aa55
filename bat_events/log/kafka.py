"""The log on Apache Kafka for services: readers that commit what they consumed in the transaction that writes what came of it.

Reading alone is `log.kafka_reader`, writing alone `log.kafka_writer`.
"""

import contextlib
import itertools
import time
from collections import deque
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from bat_events.errors import LogError, Rebalanced
from bat_events.log.cluster import Address, check_access, kafka_error
from bat_events.log.interface import CrashPoint, Outgoing, Partition, Record
from bat_events.log.kafka_reader import (
    CALL_S,
    LOOK_S,
    KafkaReader,
    Reading,
    asked,
    fetch_record,
    open_consumer,
    partitions_of,
)
from bat_events.log.kafka_writer import KafkaWriter, Writing, no_crash
from bat_events.log.topics import broker_name, plain_name

__all__ = ["KafkaReactorLog", "KafkaReader", "KafkaWorkerLog", "KafkaWriter", "partitions_of"]

_KEPT = 16  # records at most that are taken while work runs


class KafkaReactorLog(Reading):
    """See ReactorLog: assigned all partitions, offsets kept in a group that only this service uses."""

    def __init__(self, *, bootstrap: Address, namespace: str, service: str, topics: Sequence[str]) -> None:
        group = f"{namespace}.{service}"
        # Not a member of a group that others wait for: an effect may take as long as it takes (a cold start, an update).
        consumer = open_consumer(bootstrap, **{"group.id": group, "max.poll.interval.ms": 86_400_000})
        super().__init__(consumer, bootstrap, namespace)
        self._partitions = partitions_of(consumer, bootstrap, namespace, topics)
        self._writer = Writing(bootstrap=bootstrap, namespace=namespace, transactional_id=service)
        self._writer.begin_service()
        kafka = [TopicPartition(broker_name(namespace, t), p) for t, p in self._partitions]
        known = asked(
            consumer, bootstrap, f"read the offsets of group {group}", lambda s: consumer.committed(kafka, timeout=s)
        )
        self._committed = {
            (plain_name(namespace, tp.topic), tp.partition): max(tp.offset, 0) for tp in known if tp.error is None
        }
        if len(self._committed) != len(self._partitions):
            raise LogError(f"group {group}: the committed offsets could not be read")
        self._assigned = set(self._partitions)
        self._unread = set(self._partitions)
        self._assigned = set(self._partitions)
        self._consumer.assign(self._to_kafka(dict.fromkeys(self._partitions, 0)))  # a lost beginning is out of range

    def committed(self) -> Mapping[Partition, int]:
        """See ReactorLog.committed."""
        return self._committed

    def commit(
        self, outputs: Sequence[Outgoing], offsets: Mapping[Partition, int], crash: CrashPoint = no_crash
    ) -> None:
        """See ReactorLog.commit."""
        self._writer.write(outputs, self._to_kafka(offsets), self._consumer.consumer_group_metadata(), crash)
        self._committed = {**self._committed, **offsets}


def _is_lost(message: Message) -> bool:
    """Whether the client says that there is no place to go on from in a partition."""
    error = message.error()
    return error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET


class KafkaWorkerLog(Reading):
    """See WorkerLog: a member of a KIP-848 group; the broker hands out partitions one by one."""

    def __init__(self, *, bootstrap: Address, namespace: str, service: str, topic: str, instance: str) -> None:
        group = f"{namespace}.{service}"
        consumer = open_consumer(bootstrap, **{"group.id": group, "group.protocol": "consumer"})
        super().__init__(consumer, bootstrap, namespace)
        partitions_of(consumer, bootstrap, namespace, [topic])
        self._writer = Writing(bootstrap=bootstrap, namespace=namespace, transactional_id=f"{service}.{instance}")
        self._writer.begin_service()
        self._topic = topic
        self._service = service
        self._gained: set[Partition] = set()
        self._silent: set[Partition] = set()  # those of which nothing came since they were given
        self._begun: set[Partition] = set()  # those of which nothing was committed, and so are read from 0
        self._marks: dict[Partition, TopicPartition] = {}  # what takes a mark back
        self._kept: deque[Message] = deque()  # came while work ran
        self._busy = False  # work ran since nothing was there the last time
        self._turn = itertools.count(1)
        self._turns: dict[Partition, int] = {}  # when a record of it was handed out last
        self._paused: list[TopicPartition] = []
        self.rebalances = 0
        self._consumer.subscribe([broker_name(namespace, topic)], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def assigned(self) -> frozenset[Partition]:
        """See WorkerLog.assigned."""
        return frozenset(self._assigned)

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:
        """See LogReader.poll: first what came while work ran, of the partition first that had its turn longest ago."""
        records: list[Record] = []
        while self._kept and len(records) < max_records:
            record = self._take(self._next_kept())
            if record is not None:
                records.append(record)
        if not self._kept:
            self._resume()
        if not records:
            records = super().poll(max_records, timeout_s)
            self._busy = bool(records)
        return records

    def _next_kept(self) -> Message:
        """Within a partition the first; what was just given, perhaps of a member that died, has had no turn yet."""
        turns = [-1 if m.topic() is None else self._turns.get(self._where(m), 0) for m in self._kept]
        at = turns.index(min(turns))
        message = self._kept[at]
        del self._kept[at]
        return message

    def _take(self, message: Message) -> Record | None:
        """As every reader; but the client has no place to go on from where nothing was committed, and is told to begin at 0.

        Not `auto.offset.reset=earliest`: that also goes on at what is left where records were deleted unread. And not when a
        partition is assigned: asking for its offset there would wait for open transactions, and hold up all others.
        """
        self._hear(message)
        if not self._still_ours(message):  # a position of what went would count as done once it is back
            return None
        if message.error() is None:
            self._turns[self._where(message)] = next(self._turn)
        if not _is_lost(message):
            return super()._take(message)
        where = self._where(message)
        if where in self._begun or self.standing(where)[0] > 0:
            return super()._take(message)
        self._begun.add(where)
        self._silent.add(where)
        (beginning,) = self._to_kafka({where: 0})
        self._consumer.incremental_unassign([beginning])  # a seek is refused: it is not being read
        self._consumer.incremental_assign([beginning])
        return None

    def keep_alive(self) -> None:
        """See WorkerLog.keep_alive: a poll serves heartbeats and rebalances. What comes with it is kept for the next `poll`.

        Nothing is paused before some was kept: the client takes up to a second to fetch again from what was resumed.
        """
        self._busy = True
        came = self._consumer.consume(1, 0.05)
        for message in came:
            self._hear(message)
            if _is_lost(message):
                self._take(message)  # at once, so that there is something when work has ended
            else:  # what is kept is looked up after consume(), which may take away partitions and what is kept of them
                self._kept.append(message)
        if len(self._kept) >= _KEPT:
            self._pause()

    def _pause(self) -> None:
        """Anew each time: what was assigned meanwhile is not paused. Nor is it now, before anything came of it.

        The client forgets what it has not handed out of a paused partition, also its word that there is no place to go on from.
        """
        self._paused = self._to_kafka(dict.fromkeys(self._assigned - self._silent, 0))
        self._consumer.pause(self._paused)

    def _hear(self, message: Message) -> None:
        if message.topic() is not None:
            self._silent.discard(self._where(message))

    def _resume(self) -> None:
        still = [tp for tp in self._paused if (plain_name(self._namespace, tp.topic), tp.partition) in self._assigned]
        self._paused = []
        if still:
            self._consumer.resume(still)

    def gained(self) -> frozenset[Partition]:
        """See WorkerLog.gained."""
        found, self._gained = frozenset(self._gained & self._assigned), set()
        return found

    def standing(self, where: Partition) -> tuple[int, str]:
        """See WorkerLog.standing."""
        (wanted,) = self._to_kafka({where: 0})
        deadline = time.monotonic() + CALL_S
        while True:
            try:
                (known,) = self._consumer.committed([wanted], timeout=LOOK_S)
                if known.error is None:
                    return max(known.offset, 0), known.metadata or ""
                error = known.error
            except KafkaException as raised:
                error = kafka_error(raised)
            check_access(self._address, error, f"read the offsets of {where[0]}")
            if where not in self._assigned or time.monotonic() > deadline:
                raise LogError(f"the committed offset of {where[0]}[{where[1]}] cannot be read: {error.str()}")
            time.sleep(0.1)

    def mark(self, where: Partition, offset: int, note: str) -> None:
        """See WorkerLog.mark. Where the group is being handed out anew the mark is left out: it counts tries, no more."""
        before = self._marks.get(where) or self._at(where, offset, self.standing(where)[1])
        try:
            self._consumer.commit(offsets=[self._at(where, offset, note)], asynchronous=False)
        except KafkaException as error:
            check_access(self._address, kafka_error(error), "commit offsets")
            return
        self._marks[where] = before

    def fetch(self, where: Partition, offset: int) -> Record:
        """See WorkerLog.fetch."""
        return fetch_record(self._address, self._namespace, where, offset, group=f"{self._service}.fetch")

    def close(self) -> None:
        """Take back marks, leave the group and free the sockets."""
        self._unmark(set(self._marks))
        super().close()

    def commit(
        self,
        outputs: Sequence[Outgoing],
        offsets: Mapping[Partition, int],
        crash: CrashPoint = no_crash,
        notes: Mapping[Partition, str] | None = None,
    ) -> None:
        """See WorkerLog.commit. Refused while the partitions are ours all the same (the epoch moved on), it is tried again."""
        places = [self._at(where, offset, (notes or {}).get(where, "")) for where, offset in sorted(offsets.items())]
        deadline = time.monotonic() + CALL_S
        while True:
            if lost := sorted(set(offsets) - self._assigned):
                raise Rebalanced(f"partitions {lost} were given to another member meanwhile: ours is dropped")
            try:
                self._writer.write(outputs, places, self._consumer.consumer_group_metadata(), crash)
                break
            except Rebalanced:
                if time.monotonic() > deadline:
                    raise
                known = set(self._gained)
                self.keep_alive()
                if anew := sorted(set(offsets) & (self._gained - known)):
                    raise Rebalanced(f"partitions {anew} went and came back meanwhile: ours is dropped") from None
        for where in offsets:
            self._marks.pop(where, None)

    def _at(self, where: Partition, offset: int, note: str) -> TopicPartition:
        name = broker_name(self._namespace, where[0])
        return TopicPartition(name, where[1], offset, metadata=note) if note else TopicPartition(name, where[1], offset)

    def _unmark(self, places: set[Partition]) -> None:
        """Whoever gets these partitions next shall not take a good end for a death."""
        before = [self._marks.pop(where) for where in sorted(places) if where in self._marks]
        if before:
            with contextlib.suppress(KafkaException):  # not ours any more: a try too many is counted
                self._consumer.commit(offsets=before, asynchronous=False)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1
        if self._busy:  # what the client has fetched of others, for a minute of work perhaps, shall not come first
            self._pause()
        consumer.incremental_assign(partitions)
        added = {(plain_name(self._namespace, tp.topic), tp.partition) for tp in partitions}
        self._assigned |= added
        self._unread |= added
        self._silent |= added
        self._gained |= added

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1
        gone = {(plain_name(self._namespace, tp.topic), tp.partition) for tp in partitions}
        self._unmark(gone)
        self._assigned -= gone
        self._unread -= gone
        self._gained -= gone
        self._silent -= gone
        self._begun -= gone
        self._kept = deque(message for message in self._kept if self._still_ours(message))
        for where in gone:  # who gets it again begins at the committed offset
            self.positions.pop(where, None)
            self._turns.pop(where, None)
        consumer.incremental_unassign(partitions)

    def _still_ours(self, message: Message) -> bool:
        return message.topic() is None or self._where(message) in self._assigned
