"""The same records written and read by the bare client and by this project: one batch a transaction, committed records only."""

import uuid
from collections.abc import Sequence

from confluent_kafka import Consumer, Producer, TopicPartition

from bat_events.codec import Codec
from bat_events.log.cluster import Address, client_settings
from bat_events.log.interface import Outgoing
from bat_events.log.kafka_reader import KafkaReader
from bat_events.log.kafka_writer import KafkaWriter, writer_settings
from bat_events.log.topics import broker_name
from log_parts.events import PARTITIONS

CALL_S = 60.0
CODEC = Codec()


class RawWriter:
    """The bare client with this project's settings; without `transactions` at least once: idempotent, flushed batch by batch."""

    def __init__(self, address: Address, namespace: str, *, transactions: bool = True) -> None:
        self._namespace, self._transactions = namespace, transactions
        name = f"raw-{uuid.uuid4().hex}" if transactions else None
        self._producer = Producer(writer_settings(address, transactional_id=name))
        if transactions:
            self._producer.init_transactions(CALL_S)

    def publish(self, records: Sequence[Outgoing]) -> None:
        """One batch; returns once the broker has it."""
        if self._transactions:
            self._producer.begin_transaction()
        for out in records:
            self._producer.produce(
                broker_name(self._namespace, out.topic),
                value=out.value,
                key=out.key,
                partition=out.partition,
                headers=list(out.headers),
            )
        if self._transactions:
            self._producer.commit_transaction(CALL_S)
        else:
            self._producer.flush(CALL_S)


def bat_writer(address: Address, namespace: str) -> KafkaWriter:
    """This project's writer."""
    return KafkaWriter(bootstrap=address, namespace=namespace, name=f"bench-{uuid.uuid4().hex}")


class RawReader:
    """The bare client: key, value and headers of every record are taken into Python."""

    def __init__(self, address: Address, namespace: str, topics: Sequence[str]) -> None:
        settings = {
            **client_settings(address),
            "group.id": f"raw-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 20,  # as bat-events has it: the client's own second would be no limit
        }
        self._consumer = Consumer(settings)
        places = [TopicPartition(broker_name(namespace, t), p, 0) for t in topics for p in range(PARTITIONS[t])]
        self._consumer.assign(places)

    def read(self, batch: int) -> int:
        """How many records came."""
        seen = 0
        first = self._consumer.poll(1.0)
        for message in () if first is None else (first, *self._consumer.consume(batch - 1, 0.0)):
            if message.error() is None and message.value() is not None and message.key() is not None:
                seen += message.headers() is not None
        return seen

    def close(self) -> None:
        """Free the sockets."""
        self._consumer.close()


class BatReader:
    """This project's reader, with the codec or without."""

    def __init__(self, address: Address, namespace: str, topics: Sequence[str], *, decode: bool) -> None:
        self._reader = KafkaReader(bootstrap=address, namespace=namespace, topics=topics)
        self._decode = decode

    def read(self, batch: int) -> int:
        """How many records came."""
        records = self._reader.poll(batch, 1.0)
        if self._decode:
            for record in records:
                CODEC.decode(record)
        return len(records)

    def close(self) -> None:
        """Free the sockets."""
        self._reader.close()
