"""The same simulated work done by members of a consumer group and by members of a share group, in threads of one process."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bat_events.log.cluster import Address, client_settings
from bat_events.log.interface import Outgoing, Record
from bat_events.log.kafka import KafkaWorkerLog
from bat_events.log.placement import place_of_group
from bat_events.log.topics import broker_name

TOPIC, DONE = "group", "rollout"
QUIET = {"log_level": 0}  # clients outlive the broker, and would say so
_SLICE_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Task:
    """A piece of work: its number, its key, how long it takes."""

    number: int
    key: str
    work_s: float

    @property
    def value(self) -> bytes:
        """As it stands on the log."""
        return f"{self.number} {self.work_s:.6f}".encode()


def parse(value: bytes) -> tuple[int, float]:
    """Number and seconds of a task."""
    number, work_s = value.decode().split()
    return int(number), float(work_s)


@dataclass
class Trace:
    """Begin and end of each task, as (worker, number, begun, ended); seconds since the epoch."""

    spans: list[tuple[int, int, float, float]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, worker: int, number: int, begun: float, ended: float) -> None:
        """One more."""
        with self.lock:
            self.spans.append((worker, number, begun, ended))

    @property
    def done(self) -> set[int]:
        """The numbers of the tasks that are done."""
        with self.lock:
            return {number for _, number, _, _ in self.spans}


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of one way of sharing. Times in seconds; shares of all workers' time up to the last end."""

    name: str
    makespan_s: float
    ideal_s: float
    idle: float
    blocked: float
    """Idle while work was waiting: what a queue without partitions would not have."""
    wait_p50_s: float
    wait_p95_s: float
    tail_s: float
    """From the moment at which the first worker had nothing more to do up to the end."""
    disordered: int
    """Tasks that began before an earlier one of their key had ended."""
    repeated: int


def summary(name: str, tasks: Sequence[Task], trace: Trace, published: float, workers: int) -> Result:
    """The figures of a run in which everything was published at one moment."""
    spans = sorted(trace.spans, key=lambda span: span[2])
    end = max(span[3] for span in spans)
    busy = sum(span[3] - span[2] for span in spans)
    total = workers * (end - published)
    waits = sorted(span[2] - published for span in spans)
    last_begin = max(span[2] for span in spans)
    before = sum(min(span[3], last_begin) - span[2] for span in spans)
    ends: dict[int, float] = defaultdict(float)
    for worker, _, _, ended in spans:
        ends[worker] = max(ends[worker], ended)
    return Result(
        name=name,
        makespan_s=end - published,
        ideal_s=max(sum(task.work_s for task in tasks) / workers, max(task.work_s for task in tasks)),
        idle=1 - busy / total,
        blocked=(workers * (last_begin - published) - before) / total,
        wait_p50_s=waits[len(waits) // 2],
        wait_p95_s=waits[int(len(waits) * 0.95)],
        tail_s=end - min(ends.values()),
        disordered=_disordered(tasks, trace),
        repeated=len(spans) - len({span[1] for span in spans}),
    )


def _disordered(tasks: Sequence[Task], trace: Trace) -> int:
    at = {number: (begun, ended) for _, number, begun, ended in trace.spans}
    found, last = 0, dict[str, float]()
    for task in tasks:
        begun, ended = at[task.number]
        found += begun < last.get(task.key, 0.0)
        last[task.key] = max(ended, last.get(task.key, 0.0))
    return found


class Shared:
    """One namespace's topics on a broker, and the two ways of sharing them."""

    def __init__(self, address: Address, namespace: str, partitions: int) -> None:
        self.address, self.namespace, self.partitions = address, namespace, partitions
        admin = AdminClient({**client_settings(address), **QUIET})
        names = [broker_name(namespace, topic) for topic in (TOPIC, DONE)]
        for future in admin.create_topics([NewTopic(n, partitions, 1) for n in names]).values():
            future.result(30)
        self.share_group = broker_name(namespace, "share")
        self._admin = admin
        self.configure({"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"})

    def configure(self, settings: dict[str, str]) -> None:
        """Settings of the share group, which stand on the broker and not in its members."""
        entries = [ConfigEntry(n, v, incremental_operation=AlterConfigOpType.SET) for n, v in settings.items()]
        resource = ConfigResource(ResourceType.GROUP, self.share_group, incremental_configs=entries)
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(30)

    def publish(self, tasks: Sequence[Task]) -> float:
        """Put tasks on the log, a batch each, as far as the client lets us; gives when all were there."""
        producer = Producer(
            {**client_settings(self.address), **QUIET, "acks": "all", "batch.num.messages": 1, "linger.ms": 0}
        )
        for task in tasks:
            where = place_of_group(task.number // 32, task.number // 4 % 8, self.partitions)
            producer.produce(broker_name(self.namespace, TOPIC), task.value, task.key.encode(), partition=where)
        producer.flush(30)
        return time.time()

    def consumer_group(self, tasks: Sequence[Task], workers: int, *, within_s: float) -> Result:
        """By a group's members as the service loop uses them: one record at a time, effect and offset in one transaction."""
        trace, stop = Trace(), threading.Event()
        logs = [
            KafkaWorkerLog(bootstrap=self.address, namespace=self.namespace, service="w", topic=TOPIC, instance=f"i{n}")
            for n in range(workers)
        ]

        def run(worker: int) -> None:
            log = logs[worker]
            while not stop.is_set():
                for record in log.poll(1, 0.1):
                    self._by_transaction(log, record, worker, trace)

        def shared() -> bool:
            return sorted(len(log.assigned()) for log in logs) == _fair(self.partitions, workers)

        return self._race(
            f"consumer group, {_partitions(self.partitions)}",
            tasks,
            workers,
            run,
            shared,
            trace,
            stop,
            [x.close for x in logs],
            within_s,
        )

    def _by_transaction(self, log: KafkaWorkerLog, record: Record, worker: int, trace: Trace) -> None:
        number, work_s = parse(record.value)
        begun = time.time()
        while (left := begun + work_s - time.time()) > 0:
            time.sleep(min(left, _SLICE_S))
            if left > _SLICE_S:
                log.keep_alive()
        ended = time.time()
        answer = Outgoing(topic=DONE, partition=record.partition, key=record.key, value=record.value, headers=())
        log.commit([answer], {record.place: record.offset + 1})
        trace.add(worker, number, begun, ended)

    def share_consumer(self, **settings: object) -> ShareConsumer:
        """A member of the share group that takes one record at a time."""
        return ShareConsumer(
            {
                **client_settings(self.address),
                **QUIET,
                "group.id": self.share_group,
                "share.acknowledgement.mode": "explicit",
                "max.poll.records": 1,
                **settings,
            }
        )

    def sharing(self, tasks: Sequence[Task], workers: int, *, within_s: float) -> Result:
        """By a share group's members: effect first, then the acknowledgement, which no transaction can hold."""
        trace, stop = Trace(), threading.Event()
        consumers = [self.share_consumer() for _ in range(workers)]
        ready = [False] * workers
        for consumer in consumers:
            consumer.subscribe([broker_name(self.namespace, TOPIC)])

        def run(worker: int) -> None:
            consumer = consumers[worker]
            producer = Producer({**client_settings(self.address), **QUIET, "acks": "all", "enable.idempotence": True})
            while not stop.is_set():
                messages = consumer.poll(0.1)
                ready[worker] = True
                for message in messages:
                    if message.error() is None:
                        self._by_acknowledging(consumer, producer, message, worker, trace)
            consumer.close()

        return self._race(
            f"share group, {_partitions(self.partitions)}",
            tasks,
            workers,
            run,
            lambda: all(ready),
            trace,
            stop,
            [],
            within_s,
        )

    def _by_acknowledging(
        self, consumer: ShareConsumer, producer: Producer, message: Message, worker: int, trace: Trace
    ) -> None:
        value = message.value()
        assert isinstance(value, bytes)
        number, work_s = parse(value)
        begun = time.time()
        time.sleep(work_s)
        ended = time.time()
        producer.produce(broker_name(self.namespace, DONE), value, message.key())
        producer.flush(10)
        consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        consumer.commit_sync(10.0)
        trace.add(worker, number, begun, ended)

    def _race(
        self,
        name: str,
        tasks: Sequence[Task],
        workers: int,
        run: Callable[[int], None],
        ready: Callable[[], bool],
        trace: Trace,
        stop: threading.Event,
        closers: Sequence[Callable[[], None]],
        within_s: float,
    ) -> Result:
        threads = [threading.Thread(target=run, args=(n,)) for n in range(workers)]
        for thread in threads:
            thread.start()
        try:
            _until(ready, f"{name}: the members have joined", 60)
            time.sleep(
                6.0 if name.startswith("share") else 1.0
            )  # a share group's members are given partitions a while later
            published = self.publish(tasks)
            wanted = {task.number for task in tasks}
            _until(lambda: trace.done >= wanted, f"{name}: all tasks are done", within_s)
        finally:
            stop.set()
            for thread in threads:
                thread.join(30)
            for closer in closers:
                closer()
        return summary(name, tasks, trace, published, workers)


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def _fair(partitions: int, workers: int) -> list[int]:
    return sorted(partitions // workers + (n < partitions % workers) for n in range(workers))


def _until(condition: Callable[[], bool], what: str, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within_s:g} s: {what}")
        time.sleep(0.05)
