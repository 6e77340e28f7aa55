"""The service loop, answering every rollout with a reward; without transactions; and the bare client's loop of the same kind.

Each runs in a process of its own (`start`) until it is told to stop. All of them read committed records, write one transaction
of answers and consumed offsets for what one poll gave (`unsafe`: a flush and a commit of offsets), and decode what they read.
"""

import io
import multiprocessing
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event as Flag
from typing import Any, ClassVar

import fastavro
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bat_events.codec import Codec, Fact, schema_for
from bat_events.deciders.interface import Draft
from bat_events.events.rollouts import RolloutCompleted
from bat_events.log.cluster import Address, client_settings
from bat_events.log.interface import CrashPoint, Outgoing, Partition
from bat_events.log.kafka import KafkaReactorLog, KafkaReader, KafkaWorkerLog
from bat_events.log.kafka_writer import writer_settings
from bat_events.log.topics import broker_name, partition_of
from bat_events.service.dead_letters import DeadLetterBox
from bat_events.service.reactor import ReactorMachine
from bat_events.service.runtime import InlineExecutor, Status, SystemClock, ThreadExecutor, collect_seldom
from bat_events.service.worker import WorkerMachine
from log_parts.events import PARTITIONS, placed, reward

BATCH = 500
KINDS = ("raw", "raw unsafe", "reactor", "reactor unsafe", "worker")
_CALL_S = 60.0


def start(kind: str, address: Address, namespace: str) -> tuple[BaseProcess, Flag]:
    """The loop in a process of its own, and what stops it."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    process = context.Process(target=_run, args=(kind, address, namespace, stop), daemon=True)
    process.start()
    return process, stop


def _run(kind: str, address: Address, namespace: str, stop: Flag) -> None:
    collect_seldom()  # as services do, and the bare client too
    if kind.startswith("raw"):
        _raw(address, namespace, stop, safe=kind == "raw")
        return
    machine = _machine(kind, address, namespace)
    while not stop.is_set():
        machine.step(0.2)


class Answering:
    """Rules of a reactor, and a handler of a worker."""

    is_decision: ClassVar[bool] = False
    name, version, topic = "judge", 1, "rollout"
    inputs: tuple[str, ...] = ("rollout",)
    outputs: tuple[str, ...] = ("reward",)

    def __init__(self) -> None:
        self._due: list[Draft] = []

    def version_of(self, _: str) -> int:
        """See Rules."""
        return self.version

    def apply(self, fact: Fact) -> None:
        """See Rules."""
        self._due += self.handle(fact)

    def existing(self, fact: Fact) -> None:
        """See Rules."""

    def emitted(self, drafts: Sequence[Draft]) -> None:
        """See Rules."""

    def refused(self) -> Sequence[tuple[Fact, str]]:
        """See Rules."""
        return []

    held = refused

    def next_work(self, _: Callable[[str], bool]) -> Callable[[], Sequence[Draft]] | None:
        """See Rules."""
        due, self._due = self._due, []
        return (lambda: due) if due else None

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, RolloutCompleted)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """See Handler."""
        event: Any = fact.event
        answer = placed(_REWARD, 32 * event.step + 4 * event.slot + event.index)
        key = event.rollout
        return [Draft(event=answer, campaign=fact.envelope.campaign, cause=fact.id, ordinal=0, key=key, round=1)]


_REWARD = reward(0)


class _Unsafe(KafkaReactorLog):
    """At least once, and perhaps twice: the same writer without transactions."""

    def __init__(self, address: Address, namespace: str) -> None:
        super().__init__(bootstrap=address, namespace=namespace, service="judge", topics=["rollout", "reward"])
        self._producer = Producer(writer_settings(address, transactional_id=None))

    def commit(self, outputs: Sequence[Outgoing], offsets: Mapping[Partition, int], _: CrashPoint = print) -> None:
        """Answers first, then offsets."""
        for out in outputs:
            name = broker_name(self._namespace, out.topic)
            self._producer.produce(name, out.value, out.key, partition=out.partition, headers=list(out.headers))
        self._producer.flush(_CALL_S)
        self._consumer.commit(offsets=self._to_kafka(offsets), asynchronous=False)


def _machine(kind: str, address: Address, namespace: str) -> ReactorMachine | WorkerMachine:
    codec = Codec()
    letters = KafkaReader(bootstrap=address, namespace=namespace, topics=["dead-letter"], group="letters")
    given: dict[str, Any] = {
        "codec": codec,
        "clock": SystemClock(),
        "status": Status(service="judge"),
        "partitions": PARTITIONS,
        "box": DeadLetterBox(service="judge", topic="dead-letter", reader=letters, codec=codec),
    }
    where: dict[str, Any] = {"bootstrap": address, "namespace": namespace, "service": "judge"}
    if kind == "worker":
        log = KafkaWorkerLog(**where, topic="rollout", instance=uuid.uuid4().hex)
        return WorkerMachine(handler=Answering(), log=log, executor=ThreadExecutor(), **given)
    whole = _Unsafe(address, namespace) if "unsafe" in kind else KafkaReactorLog(**where, topics=["rollout", "reward"])
    return ReactorMachine(rules=Answering(), log=whole, executor=InlineExecutor(), **given)


def _raw(address: Address, namespace: str, stop: Flag, *, safe: bool) -> None:
    consumer = Consumer(
        {
            **client_settings(address),
            "group.id": f"{namespace}.raw",
            "group.protocol": "consumer",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 20,
        }
    )
    consumer.subscribe([broker_name(namespace, "rollout")])
    producer = Producer(writer_settings(address, transactional_id=f"{namespace}.raw" if safe else None))
    if safe:
        producer.init_transactions(_CALL_S)
    schema, body, target = (
        schema_for(RolloutCompleted).parsed,
        Codec.encode_body(_REWARD),
        broker_name(namespace, "reward"),
    )
    while not stop.is_set():
        first = consumer.poll(0.2)
        if first is None:
            continue
        ends: dict[tuple[str, int], int] = {}
        if safe:
            producer.begin_transaction()
        for message in (first, *consumer.consume(BATCH - 1, 0.0)):
            if (error := message.error()) is not None:
                raise KafkaException(error)
            data: Any = fastavro.schemaless_reader(io.BytesIO(message.value() or b""), schema, None)
            ends[(message.topic() or "", message.partition() or 0)] = (message.offset() or 0) + 1
            key = data["rollout"].hex().encode()
            headers = message.headers()
            producer.produce(target, body, key, partition=partition_of(key, PARTITIONS["reward"]), headers=headers)
        offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in ends.items()]
        if safe:
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), _CALL_S)
            producer.commit_transaction(_CALL_S)
        else:
            producer.flush(_CALL_S)
            consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


class Answers:
    """What a loop has answered: committed records of the reward topic, as they come."""

    def __init__(self, address: Address, namespace: str) -> None:
        self._reader = KafkaReader(bootstrap=address, namespace=namespace, topics=["reward"])
        self._ahead = 0  # read already, of those that are waited for next

    def wait(self, count: int, *, alive: Callable[[], bool]) -> float:
        """The moment at which so many more were there. Raises RuntimeError where they do not come."""
        deadline = time.monotonic() + _CALL_S
        count -= self._ahead
        while count > 0:
            count -= len(self._reader.poll(BATCH, 0.2))
            if time.monotonic() > deadline or not alive():
                raise RuntimeError(f"{count} answers are missing: the loop has ended or hangs")
        self._ahead = -count
        return time.perf_counter()

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()
