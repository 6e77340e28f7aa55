"""A broker that is killed ends the transactions that were open on it: some versions of Kafka leave them open for ever.

The window is short: a transaction's time-out must pass after the broker is back and before its registration is renewed,
which waits out the session of the killed one (5 s here). Kafka 4.3.0 to 4.4.0 then give up the markers of the
transaction's end (KAFKA-20734): no reader of committed records, and nobody who asks for the group's offsets, ever gets past it.
"""

import os
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from bat_events.log.cluster import client_settings
from bat_events.log.local_kafka import LocalKafka

pytestmark = pytest.mark.kafka

_TIMEOUT_S = 4.0
"""The transaction's. A restart takes about 4 s, the old session 5 s more: it passes between the two."""


def _ends(admin: AdminClient, level: IsolationLevel) -> int:
    place = TopicPartition("results", 0)
    offset: int = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=level)[place].result(30).offset
    return offset


def _stable_offset(consumer: Consumer) -> int | None:
    """The group's offset, None while a transaction holds it back."""
    try:
        (known,) = consumer.committed([TopicPartition("work", 0)], timeout=2)
    except KafkaException:
        return None
    return known.offset if known.error is None else None


@pytest.mark.timeout(300)
def test_a_transaction_that_times_out_while_a_killed_broker_comes_back_holds_nobody_back(tmp_path: Path) -> None:
    broker = LocalKafka(tmp_path, start_timeout_s=120)
    broker.up()
    try:
        settings = client_settings(broker.login())
        admin = AdminClient(dict(settings))
        for made in admin.create_topics([NewTopic("work", 1, 1), NewTopic("results", 1, 1)]).values():
            made.result(30)
        consumer = Consumer({**settings, "group.id": "workers", "enable.auto.commit": False})
        producer = Producer(
            {**settings, "transactional.id": "worker", "transaction.timeout.ms": int(_TIMEOUT_S * 1000)}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("results", b"never committed", partition=0)
        producer.send_offsets_to_transaction([TopicPartition("work", 0, 7)], consumer.consumer_group_metadata(), 30)
        producer.flush(30)
        pid = broker.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        while broker.status().running:
            time.sleep(0.05)
        del producer
        broker.up()
        assert _ends(admin, IsolationLevel.READ_UNCOMMITTED) >= 1, "what was written outlived the broker"
        deadline = time.monotonic() + 60
        while (stable := _stable_offset(consumer)) is None or _ends(admin, IsolationLevel.READ_COMMITTED) < _ends(
            admin, IsolationLevel.READ_UNCOMMITTED
        ):
            assert time.monotonic() < deadline, f"open for ever: results end unstable, offsets {stable}"
            time.sleep(0.2)
        assert stable < 0, "the transaction was aborted: the group has no offset"
        consumer.close()
    finally:
        broker.down()
