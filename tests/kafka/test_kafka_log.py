"""The real Kafka keeps the log's contract; two namespaces live on one broker; topics and schemas are applied once."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from bat_events.codec import Codec
from bat_events.errors import LogError
from bat_events.log.admin import apply_topics, delete_namespace, list_topics, namespaces, publish_schemas
from bat_events.log.cluster import client_settings
from bat_events.log.interface import Outgoing, Partition
from bat_events.log.kafka import KafkaReactorLog, KafkaReader, KafkaWorkerLog, KafkaWriter
from bat_events.log.local_kafka import LocalKafka
from bat_events.log.topics import broker_name
from tests.log_contract import REACTOR_TOPICS, WORKER_TOPIC, LogContract, out

pytestmark = pytest.mark.kafka


class TestKafkaLog(LogContract):
    """See LogContract."""

    @pytest.fixture(autouse=True)
    def _topics(self, kafka: LocalKafka, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Any:
        self.monkeypatch = monkeypatch
        self.bootstrap, self.namespace = kafka.login(), namespace
        apply_topics(kafka.login(), namespace, partitions=4)
        self.left: list[Any] = []
        yield
        for log in self.left:
            log.close()

    def reactor(self, service: str = "s") -> Any:
        return KafkaReactorLog(
            bootstrap=self.bootstrap, namespace=self.namespace, service=service, topics=REACTOR_TOPICS
        )

    def worker(self, service: str = "w", instance: str = "a") -> Any:
        return KafkaWorkerLog(
            bootstrap=self.bootstrap, namespace=self.namespace, service=service, topic=WORKER_TOPIC, instance=instance
        )

    def write(self, outputs: Sequence[Outgoing]) -> None:
        KafkaWriter(bootstrap=self.bootstrap, namespace=self.namespace, name="test").publish(outputs)

    def kill(self, log: Any) -> None:
        """Leave it as it is, its transaction open: the next instance must fence it, or time must pass."""
        log._writer._producer.flush(10)  # what it produced has arrived
        self.left.append(log)

    transaction_s = 5.0

    def shorten_transactions(self) -> None:
        self.monkeypatch.setattr(
            "bat_events.log.kafka_writer._TRANSACTION_TIMEOUT_MS", round(1000 * self.transaction_s)
        )

    def cut(self, where: Partition, offset: int) -> None:
        place = TopicPartition(broker_name(self.namespace, where[0]), where[1], offset)
        admin = AdminClient(client_settings(self.bootstrap))
        for future in admin.delete_records([place]).values():
            future.result(30)


def test_what_is_newly_given_comes_before_what_waits_already(kafka: LocalKafka, namespace: str) -> None:
    """The work of a member that died shall not wait for all that the client has fetched for this one."""
    apply_topics(kafka.login(), namespace, partitions=4)
    named: dict[str, Any] = {"bootstrap": kafka.login(), "namespace": namespace, "service": "w", "topic": WORKER_TOPIC}
    log, other = KafkaWorkerLog(**named, instance="a"), KafkaWorkerLog(**named, instance="b")

    def alive(until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not until():
            assert time.monotonic() < deadline
            log.keep_alive()

    alive(lambda: other.poll(1, 0.0) == [] and len(log.assigned()) == len(other.assigned()) == 2)
    waiting, new = log.assigned(), other.assigned()
    writer = KafkaWriter(bootstrap=kafka.login(), namespace=namespace, name="test")
    writer.publish([out(WORKER_TOPIC, n, partition=p) for n in range(20) for _, p in (*waiting, *new)])
    assert LogContract.read_one(log).place in waiting
    log.keep_alive()
    other.close()
    alive(lambda: len(log.assigned()) == 4)
    for _ in range(10):
        log.keep_alive()
    assert LogContract.read_one(log).place in new
    found = [LogContract.read_one(log) for _ in range(78)]
    for _, partition in (*waiting, *new):
        offsets = [record.offset for record in found if record.partition == partition]
        assert offsets == sorted(set(offsets))
    log.close()


def test_two_namespaces_do_not_see_each_other(kafka: LocalKafka, namespace: str) -> None:
    names = [f"{namespace}-a", f"{namespace}-b"]
    for number, name in enumerate(names):
        apply_topics(kafka.login(), name, partitions=2)
        KafkaWriter(bootstrap=kafka.login(), namespace=name, name="test").publish([out("round", number)])
    for number, name in enumerate(names):
        log = KafkaReactorLog(bootstrap=kafka.login(), namespace=name, service="s", topics=["round"])
        assert [r.value for r in LogContract.read(log, 1)] == [b"v%d" % number]
        log.commit([], {("round", 0): 1}, lambda _: None)
        log.close()
    assert set(names) <= set(namespaces(kafka.login()))
    assert delete_namespace(kafka.login(), names[0]) > 10
    assert all(state.partitions for state in list_topics(kafka.login(), names[1]))


def test_topics_are_applied_once_and_schemas_stand_on_the_log(kafka: LocalKafka, namespace: str) -> None:
    first = apply_topics(kafka.login(), namespace, partitions=3)
    assert {state.partitions for state in first} == {1, 3}
    assert apply_topics(kafka.login(), namespace, partitions=5) == first
    assert publish_schemas(kafka.login(), namespace) == 0
    reader = KafkaReader(bootstrap=kafka.login(), namespace=namespace, topics=["schema"])
    found = {r.key.decode() for r in LogContract.read(reader, len(Codec().schemas()))}
    assert found == {schema.digest for schema in Codec().schemas()}
    reader.close()


def test_a_missing_topic_says_what_to_do(kafka: LocalKafka, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bat_events.log.kafka_reader.CALL_S", 1.0)
    with pytest.raises(LogError, match="bat-events topics apply"):
        KafkaReader(bootstrap=kafka.login(), namespace=namespace, topics=["round"])


def test_an_offset_that_is_gone_is_a_loud_error(kafka: LocalKafka, namespace: str) -> None:
    apply_topics(kafka.login(), namespace, partitions=1)
    reader = KafkaReader(bootstrap=kafka.login(), namespace=namespace, topics=["round"], start={("round", 0): 999})

    def read_on() -> None:
        for _ in range(100):
            reader.poll(10, 0.1)

    with pytest.raises(LogError, match=r"out of range.*infinite retention.*log import"):
        read_on()
    reader.close()


def test_a_failed_write_leaves_nothing(kafka: LocalKafka, namespace: str) -> None:
    apply_topics(kafka.login(), namespace, partitions=1)
    writer = KafkaWriter(bootstrap=kafka.login(), namespace=namespace, name="test")
    big = Outgoing(topic="round", partition=0, key=b"k", value=bytes(9 << 20), headers=())
    with pytest.raises(LogError, match="nothing was kept"):
        writer.publish([out("round", 1), big])
    writer.publish([out("round", 2)])
    reader = KafkaReader(bootstrap=kafka.login(), namespace=namespace, topics=["round"])
    assert [r.value for r in LogContract.read(reader, 1)] == [b"v2"]
    reader.close()
