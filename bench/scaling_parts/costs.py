"""What a share group does not promise, shown on the broker: each experiment says in words what came of it."""

import time
import uuid
from collections.abc import Iterator

from confluent_kafka import AcknowledgeType, KafkaException, Message, Producer, ShareConsumer

from bat_events.log.cluster import client_settings
from bat_events.log.topics import broker_name

from .sharing import DONE, QUIET, TOPIC, Shared, Task

LOCK_MS = 15_000  # the shortest that a broker takes by default: group.share.min.record.lock.duration.ms
DELIVERIES = 5  # group.share.delivery.count.limit by default


def redelivered(shared: Shared) -> str:
    """A member writes its effect and stands still before it acknowledges: the lock expires, another does the work again."""
    shared.configure({"share.record.lock.duration.ms": str(LOCK_MS)})
    first, second = _joined(shared), _joined(shared)
    shared.publish([Task(number=0, key=uuid.uuid4().hex, work_s=0.0)])
    message = next(_polled(first, 30))
    taken = time.monotonic()
    producer = Producer({**client_settings(shared.address), "acks": "all", **QUIET})
    producer.produce(broker_name(shared.namespace, DONE), message.value(), message.key())
    producer.flush(10)
    again = next(_polled(second, 60))
    after = time.monotonic() - taken
    producer.produce(broker_name(shared.namespace, DONE), again.value(), again.key())
    producer.flush(10)
    second.acknowledge(again, AcknowledgeType.ACCEPT)
    second.commit_sync(10.0)
    first.acknowledge(message, AcknowledgeType.ACCEPT)
    late = _answer(first)
    first.close()
    second.close()
    same = (again.partition(), again.offset()) == (message.partition(), message.offset())
    return (
        f"{'the same' if same else 'another'} record came to another member {after:.1f} s after the first took it (lock "
        f"{LOCK_MS / 1000:g} s), delivery {again.delivery_count()}; its effect was written twice; the late acknowledgement was "
        f"{late}"
    )


def dropped(shared: Shared) -> str:
    """A record that is given back each time: after the limit it is gone, and nothing says so."""
    consumer = _joined(shared)
    shared.publish([Task(number=1, key=uuid.uuid4().hex, work_s=0.0)])
    counts = []
    for message in _polled(consumer, 12):
        counts.append(message.delivery_count())
        consumer.acknowledge(message, AcknowledgeType.RELEASE)
        consumer.commit_sync(10.0)
    consumer.close()
    return (
        f"given back each time it came {len(counts)} times (limit {DELIVERIES}), then never again, in 12 s of polling"
    )


def renewal() -> str:
    """Whether long work can keep its lock."""
    kinds = sorted(name for name in vars(AcknowledgeType) if name.isupper()) or [kind.name for kind in AcknowledgeType]
    return f"this client can {', '.join(kinds)}: {'it can renew' if 'RENEW' in kinds else 'no renewing of a lock'}"


def _joined(shared: Shared) -> ShareConsumer:
    consumer = shared.share_consumer()
    consumer.subscribe([broker_name(shared.namespace, TOPIC)])
    deadline = time.monotonic() + 8.0  # until it has partitions
    while time.monotonic() < deadline:
        consumer.poll(0.2)
    return consumer


def _polled(consumer: ShareConsumer, quiet_s: float) -> Iterator[Message]:
    """Records as they come, until none did for a while."""
    deadline = time.monotonic() + quiet_s
    while time.monotonic() < deadline:
        for message in consumer.poll(0.5):
            if message.error() is None:
                deadline = time.monotonic() + quiet_s
                yield message


def _answer(consumer: ShareConsumer) -> str:
    try:
        errors = [error for error in consumer.commit_sync(10.0).values() if error is not None]
    except KafkaException as error:
        errors = [error]
    return f"refused, {errors[0].args[0].name()}" if errors else "not refused"
