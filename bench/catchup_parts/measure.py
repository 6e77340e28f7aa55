"""Logs that end where a service died, and the service started anew on each: seconds to its first live result."""

import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from replay_parts.campaign import PARTITIONS, plan_of

from bat_events.audit.file import AuditFile
from bat_events.audit.materialiser import AUDITED, Materialiser
from bat_events.codec import Codec, Fact
from bat_events.consumers.auditor import AuditMachine
from bat_events.consumers.trainer import Trainer
from bat_events.deciders.interface import Draft
from bat_events.events.rollouts import RolloutCompleted
from bat_events.log.admin import apply_topics
from bat_events.log.cluster import Address, client_settings
from bat_events.log.interface import Outgoing, Partition
from bat_events.log.kafka import KafkaReactorLog, KafkaReader, KafkaWorkerLog
from bat_events.log.topics import broker_name
from bat_events.service.dead_letters import DeadLetterBox
from bat_events.service.reactor import ReactorMachine, Rules
from bat_events.service.runtime import InlineExecutor, Status, SystemClock
from bat_events.service.worker import WorkerMachine
from tests.replay.workers import StatingTrainer, judge

BATCH = 500


class Records:
    """What the generator commits, batch by batch, kept in memory."""

    def __init__(self) -> None:
        self.batches: list[Sequence[Outgoing]] = []
        self.ends_at: dict[Partition, int] = {(name, n): 0 for name, count in PARTITIONS.items() for n in range(count)}
        self.records = 0

    def commit(self, outputs: Sequence[Outgoing]) -> None:
        """See Spool.commit; without markers."""
        for out in outputs:
            self.ends_at[(out.topic, out.partition)] += 1
        self.records += len(outputs)
        self.batches.append(outputs)

    def before_last_of(self, service: str) -> list[Outgoing]:
        """The log up to the last thing that a service wrote, without it."""
        source = ("ce_source", f"bat/{service}".encode())
        last = max(n for n, outputs in enumerate(self.batches) if source in outputs[0].headers)
        return [out for outputs in self.batches[:last] for out in outputs]

    def all(self) -> list[Outgoing]:
        """The whole log."""
        return [out for outputs in self.batches for out in outputs]


@dataclass(frozen=True, kw_only=True)
class Caught:
    """One row. `assigned_s`: from the start until it has its partitions; `live_s`: from then to its first result.

    `thread_s`: processor seconds of the folding thread from the start to the first result: on a busy machine it says what
    `live_s` would be on an idle one.
    """

    service: str
    log: int
    read: int
    assigned_s: float
    live_s: float
    thread_s: float
    raw_s: float

    @property
    def ratio(self) -> float:
        """To the bare client's time for the same records."""
        return self.live_s / self.raw_s


class Trained(StatingTrainer):
    """The real trainer's inputs and state; its steps train nothing."""

    inputs = Trainer.inputs


class Judged:
    """A judge whose effect takes no time."""

    name, version, topic = "judge", 1, "rollout"
    outputs: tuple[str, ...] = ("reward",)

    def __init__(self) -> None:
        self._plan = plan_of(10)

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, RolloutCompleted)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """See Handler."""
        return judge(fact, self._plan)


class Site:
    """A namespace that holds these topics of a log: nobody in it reads the others."""

    def __init__(self, address: Address, log: Sequence[Outgoing], topics: Collection[str]) -> None:
        self.address, self.name = address, f"catchup-{uuid.uuid4().hex[:8]}"
        records = [out for out in log if out.topic in topics]
        self.count: dict[Partition, int] = {}
        for out in records:
            self.count[(out.topic, out.partition)] = self.count.get((out.topic, out.partition), 0) + 1
        apply_topics(address, self.name, partitions=max(PARTITIONS.values()))
        settings = {**client_settings(address), "transactional.id": self.name, "compression.type": "lz4"}
        producer = Producer({**settings, "linger.ms": 5, "message.max.bytes": 8 << 20})
        producer.init_transactions(60)
        for start in range(0, len(records), BATCH):
            producer.begin_transaction()
            for out in records[start : start + BATCH]:
                name = broker_name(self.name, out.topic)
                producer.produce(name, out.value, out.key, out.partition, headers=list(out.headers))
                producer.poll(0)
            producer.commit_transaction(60)

    def kafka(self, offsets: Mapping[Partition, int]) -> list[TopicPartition]:
        """Offsets as the client has them."""
        return [TopicPartition(broker_name(self.name, t), p, o) for (t, p), o in offsets.items()]

    def ends(self, topics: Sequence[str]) -> dict[Partition, int]:
        """Where the partitions end."""
        reader = KafkaReader(bootstrap=self.address, namespace=self.name, topics=topics)
        found = reader.end_offsets()
        reader.close()
        return found

    def commit(self, service: str, offsets: Mapping[Partition, int]) -> None:
        """What a service had committed before it ended."""
        group = {**client_settings(self.address), "group.id": f"{self.name}.{service}"}
        consumer = Consumer(group)
        consumer.commit(offsets=self.kafka(offsets), asynchronous=False)
        consumer.close()

    def raw_s(self, topics: Sequence[str], start: Mapping[Partition, int] | None = None) -> float:
        """Seconds in which the bare client reads committed records of these topics to their ends."""
        ends = self.ends(topics)
        settings = {"group.id": f"{self.name}.raw", "isolation.level": "read_committed", "enable.auto.commit": False}
        quick = {"enable.partition.eof": True, "fetch.queue.backoff.ms": 20}  # as everybody's here
        consumer = Consumer({**client_settings(self.address), **settings, **quick})
        begun = time.perf_counter()
        consumer.assign(self.kafka({where: (start or {}).get(where, 0) for where in ends}))
        left = {(broker_name(self.name, topic), number) for topic, number in ends}
        while left:
            for message in consumer.consume(BATCH, 0.2):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    left.discard((message.topic() or "", message.partition() or 0))
        seconds = time.perf_counter() - begun
        consumer.close()
        return seconds

    def box(self, service: str, codec: Codec) -> DeadLetterBox:
        """As a service has it."""
        reader = KafkaReader(bootstrap=self.address, namespace=self.name, topics=["dead-letter"], group="letters")
        return DeadLetterBox(service=service, topic="dead-letter", reader=reader, codec=codec)


class _Wrote(Exception):
    """The first live result is committed."""


def _stop_at(moment: str) -> Callable[[str], None]:
    def crash(where: str) -> None:
        if where == moment:
            raise _Wrote

    return crash


def _until_it_writes(step: Callable[[float], bool]) -> float:
    try:
        while True:
            step(0.2)
    except _Wrote:
        return time.perf_counter()


def reactor(address: Address, records: Records, rules: Rules, codec: Codec) -> Caught:
    """A reactor that died just before one of its decisions."""
    log_ = records.before_last_of(rules.name)
    topics = list(dict.fromkeys((*rules.inputs, *rules.outputs)))
    site = Site(address, log_, topics)
    site.commit(rules.name, site.ends(rules.inputs))
    raw_s = site.raw_s(topics)
    start, cpu = time.perf_counter(), time.thread_time()
    log = KafkaReactorLog(bootstrap=address, namespace=site.name, service=rules.name, topics=topics)
    box = site.box(rules.name, codec)
    assigned = time.perf_counter()
    machine = ReactorMachine(
        rules=rules,
        log=log,
        codec=codec,
        clock=SystemClock(),
        executor=InlineExecutor(),
        status=Status(service=rules.name),
        partitions=PARTITIONS,
        crash=_stop_at("committed"),
        box=box,
    )
    live = _until_it_writes(machine.step)
    thread_s = time.thread_time() - cpu
    log.close()
    box.close()
    read = sum(n for (topic, _), n in site.count.items() if topic in topics)
    return Caught(
        service=rules.name,
        log=len(log_),
        read=read,
        assigned_s=assigned - start,
        live_s=live - assigned,
        thread_s=thread_s,
        raw_s=raw_s,
    )


class _Timed(KafkaWorkerLog):
    """Notes when it was given partitions first."""

    at: float | None = None

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions and self.at is None:
            self.at = time.perf_counter()
        super()._on_assign(consumer, partitions)


def worker(address: Address, records: Records, codec: Codec) -> Caught:
    """A worker that died before the last group's rollouts."""
    log_, handler = records.all(), Judged()
    site = Site(address, log_, [handler.topic])
    last = next(out for out in reversed(log_) if out.topic == handler.topic)
    offsets = site.ends([handler.topic])
    offsets[(last.topic, last.partition)] -= 2  # the record and its transaction's marker
    site.commit(handler.name, offsets)
    raw_s = site.raw_s([handler.topic], offsets)
    start, cpu = time.perf_counter(), time.thread_time()
    log = _Timed(
        bootstrap=address, namespace=site.name, service=handler.name, topic=handler.topic, instance=uuid.uuid4().hex
    )
    box = site.box(handler.name, codec)
    machine = WorkerMachine(
        handler=handler,
        log=log,
        codec=codec,
        clock=SystemClock(),
        executor=InlineExecutor(),
        status=Status(service=handler.name),
        partitions=PARTITIONS,
        crash=_stop_at("committed"),
        box=box,
    )
    live = _until_it_writes(machine.step)
    thread_s = time.thread_time() - cpu
    log.close()
    box.close()
    assert log.at is not None
    return Caught(
        service=handler.name,
        log=len(log_),
        read=1,
        assigned_s=log.at - start,
        live_s=live - log.at,
        thread_s=thread_s,
        raw_s=raw_s,
    )


def auditor(address: Address, records: Records, codec: Codec, folder: Path, *, behind: int) -> Caught:
    """An auditor that died `behind` events before the end."""
    log_ = records.all()
    site = Site(address, log_, AUDITED)
    path, materialiser = folder / "audit.duckdb", Materialiser(codec=codec, now=SystemClock().now)
    file = AuditFile(path, site.name)
    reader = KafkaReader(bootstrap=address, namespace=site.name, topics=AUDITED)
    taken = 0
    while taken < len(log_) - behind - BATCH:
        got = reader.poll(BATCH, 0.5)
        taken += materialiser.take(file.writer, got)
    reader.close()
    file.close()
    file = AuditFile(path, site.name)
    stored = file.offsets()
    file.close()
    raw_s = site.raw_s(AUDITED, stored)
    start, cpu = time.perf_counter(), time.thread_time()
    file = AuditFile(path, site.name)
    reader = KafkaReader(bootstrap=address, namespace=site.name, topics=AUDITED, start=file.offsets())
    assigned = time.perf_counter()
    machine = AuditMachine(file=file, materialiser=materialiser, reader=reader, status=Status(service="auditor"))
    while not reader.caught_up():
        machine.step(0.2)
    live, thread_s = time.perf_counter(), time.thread_time() - cpu
    with file.cursor() as cursor:
        found = cursor.execute("SELECT count(*) FROM events").fetchone()
    assert found == (sum(n for (topic, _), n in site.count.items() if topic in AUDITED),), found
    reader.close()
    file.close()
    return Caught(
        service="auditor",
        log=len(log_),
        read=len(log_) - taken,
        assigned_s=assigned - start,
        live_s=live - assigned,
        thread_s=thread_s,
        raw_s=raw_s,
    )
