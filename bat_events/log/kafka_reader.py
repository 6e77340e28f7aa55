"""Reading the log on Apache Kafka, and nothing else: this module cannot produce.

Readers start at the beginning, see committed records only and treat an out-of-range offset as a loud error. Replay and
whatever else must be unable to write imports this module and not `log.kafka`.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from bat_events.errors import LogError
from bat_events.frozen import filled
from bat_events.log.cluster import CLIENT_LOGGER, Address, check_access, client_settings, group_of, kafka_error
from bat_events.log.interface import Partition, Record
from bat_events.log.topics import broker_name, plain_name

CALL_S = 30.0
LOOK_S = 3.0
"""One wait of a longer one, after which a refusal is looked for."""

T = TypeVar("T")

_VALUE = itemgetter(1)


def open_consumer(bootstrap: Address, **extra: Any) -> Consumer:
    """A consumer that commits nothing by itself, reads committed records only and tells the ends of partitions."""
    return Consumer(
        {
            **client_settings(bootstrap),
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 50,
            "fetch.queue.backoff.ms": 20,  # the client's own is 1,000: a queue that was full is read empty long before
            "message.max.bytes": 16 << 20,
            "fetch.message.max.bytes": 16 << 20,
            "socket.keepalive.enable": True,
            **extra,
        },
        logger=CLIENT_LOGGER,
    )


class Reading:
    """Polling shared by all readers: converts messages, remembers ends of partitions, makes errors loud."""

    def __init__(self, consumer: Consumer, address: Address, namespace: str) -> None:
        self._consumer = consumer
        self._address = address
        self._namespace = namespace
        self._unread: set[Partition] = set()
        self._assigned: set[Partition] = set()
        self._places: dict[tuple[str | None, int | None], Partition] = {}
        self.positions: dict[Partition, int] = {}
        """The next offset of each partition that was read from, past markers once its end was reached."""

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:
        """See LogReader.poll."""
        records: list[Record] = []
        first = self._consumer.poll(timeout_s)  # consume() alone would wait out its time for the whole batch
        if first is None:
            return records
        more = self._consumer.consume(max_records - 1, 0.0) if max_records > 1 else []
        for message in (first, *more):
            record = self._take(message)
            if record is not None:
                records.append(record)
        return records

    def caught_up(self) -> bool:
        """See LogReader.caught_up."""
        return not self._unread

    def settled(self) -> bool:
        """See ReactorLog.settled: a consumer of committed records is told the end of what is committed."""
        for where in sorted(self._assigned):
            (kafka,) = self._to_kafka({where: 0})
            if self.positions.get(where, 0) < self._consumer.get_watermark_offsets(kafka, timeout=CALL_S)[1]:
                return False
        return True

    def close(self) -> None:
        """Leave the group and free the sockets."""
        self._consumer.close()

    def end_offsets(self) -> dict[Partition, int]:
        """Where each partition ends now: one past the last committed record or marker."""
        ends = {}
        for tp in sorted(self._assigned):
            kafka = TopicPartition(broker_name(self._namespace, tp[0]), tp[1])
            ends[tp] = self._consumer.get_watermark_offsets(kafka, timeout=CALL_S)[1]
        return ends

    def held(self) -> frozenset[Partition]:
        """The partitions that are read here now."""
        return frozenset(self._assigned)

    def known_ends(self) -> dict[Partition, int]:
        """Where partitions ended when the client last heard of them, records of open transactions included; asks nobody."""
        ends = {}
        for where in sorted(self._assigned):
            (kafka,) = self._to_kafka({where: 0})
            high = self._consumer.get_watermark_offsets(kafka, cached=True)[1]
            if high >= 0:
                ends[where] = high
        return ends

    def _take(self, message: Message) -> Record | None:
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                where = self._where(message)
                self._unread.discard(where)
                self.positions[where] = max(message.offset() or 0, self.positions.get(where, 0))
                return None
            if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise LogError(
                    f"{message.topic()}[{message.partition()}]: the offset to read is out of range: records were "
                    f"deleted before they were read ({error.str()}). Topics need infinite retention; what is lost can be "
                    "had from an archive only: `bat-events log import` puts one into another namespace"
                )
            check_access(self._address, error, f"read {message.topic() or 'the log'}: {error.str()}")
            if error.fatal() or not error.retriable():
                raise LogError(f"reading {message.topic() or 'the log'}: {error.str()}")
            return None
        place = self._where(message)
        offset = message.offset() or 0
        self.positions[place] = offset + 1
        key, value = message.key(), message.value()
        headers = tuple(message.headers() or ())
        if not all(map(_VALUE, headers)):  # one is empty, or null
            headers = tuple((name, raw if isinstance(raw, bytes) else b"") for name, raw in headers)
        return filled(
            Record,
            {
                "topic": place[0],
                "partition": place[1],
                "offset": offset,
                "key": key if isinstance(key, bytes) else b"",
                "value": value if isinstance(value, bytes) else b"",
                "headers": headers,
                "timestamp_ms": message.timestamp()[1],
            },
        )

    def _where(self, message: Message) -> Partition:
        named = (message.topic(), message.partition())
        known = self._places.get(named)
        if known is None:
            known = self._places[named] = plain_name(self._namespace, named[0] or ""), named[1] or 0
        return known

    def _to_kafka(self, offsets: Mapping[Partition, int]) -> list[TopicPartition]:
        return [TopicPartition(broker_name(self._namespace, t), p, o) for (t, p), o in sorted(offsets.items())]


def asked(consumer: Consumer, address: Address, doing: str, call: Callable[[float], T]) -> T:
    """The broker's answer to `call(time-out)`, asked for again until CALL_S is over.

    A refusal reaches a client apart from the call that waits for it, so it is looked for after each short wait. Raises
    AccessDenied, LoginRefused, or LogError where nothing answers.
    """
    deadline = time.monotonic() + CALL_S
    while True:
        try:
            return call(min(LOOK_S, CALL_S))
        except KafkaException as error:
            check_access(address, kafka_error(error), doing)
            message = consumer.poll(0)
            while message is not None:  # nothing is assigned yet: these are errors, not records
                if (said := message.error()) is not None:
                    check_access(address, said, f"{doing}: {said.str()}")
                message = consumer.poll(0)
            if time.monotonic() > deadline:
                raise LogError(f"Kafka at {address} does not let us {doing}: {kafka_error(error).str()}") from error


def _metadata(consumer: Consumer, name: str, timeout_s: float) -> Any:
    return consumer.list_topics(name, timeout=timeout_s).topics[name]


def partitions_of(consumer: Consumer, address: Address, namespace: str, topics: Iterable[str]) -> list[Partition]:
    """Every partition of the topics. Raises LogError naming a topic that is missing, AccessDenied for a forbidden one."""
    found: list[Partition] = []
    deadline = time.monotonic() + CALL_S
    for topic in topics:
        name = broker_name(namespace, topic)
        doing = f"read topic {name}"
        while True:
            metadata = asked(consumer, address, doing, partial(_metadata, consumer, name))
            if metadata.error is None and metadata.partitions:
                break
            if metadata.error is not None:
                check_access(address, metadata.error, doing)
            if time.monotonic() > deadline:
                raise LogError(f"topic {name} is not there: run `bat-events topics apply`")
            time.sleep(0.1)
        found += [(topic, partition) for partition in sorted(metadata.partitions)]
    return found


def fetch_record(address: Address, namespace: str, where: Partition, offset: int, *, group: str = "fetch") -> Record:
    """The committed record at one place. Raises LogError where none stands there, AccessDenied for a forbidden topic."""
    place = f"{where[0]}[{where[1]}]@{offset}"
    reader = Reading(open_consumer(address, **{"group.id": group_of(address, namespace, group)}), address, namespace)
    try:
        if where not in partitions_of(reader._consumer, address, namespace, [where[0]]):
            raise LogError(f"{place}: the topic has no such partition")
        reader._unread = {where}
        reader._consumer.assign(reader._to_kafka({where: offset}))
        deadline = time.monotonic() + CALL_S
        while reader._unread and time.monotonic() < deadline:
            for record in reader.poll(1, 0.2):
                if record.offset == offset:
                    return record
                raise LogError(f"{place}: no record stands there, the next one is at {record.offset}")
    finally:
        reader.close()
    raise LogError(f"{place}: no record stands there")


class KafkaReader(Reading):
    """Reads all partitions of some topics from given offsets; commits nothing (audit, replay, tail)."""

    def __init__(
        self,
        *,
        bootstrap: Address,
        namespace: str,
        topics: Sequence[str],
        start: Mapping[Partition, int] | None = None,
        group: str = "reader",
        wait_ms: int = 100,
    ) -> None:
        """`wait_ms`: how long the broker waits for records that are not there yet; short where partitions are read in turn."""
        settings = {"group.id": group_of(bootstrap, namespace, group), "fetch.wait.max.ms": wait_ms}
        consumer = open_consumer(bootstrap, **settings)
        super().__init__(consumer, bootstrap, namespace)
        partitions = partitions_of(consumer, bootstrap, namespace, topics)
        self._assigned = set(partitions)
        self._unread = set(partitions)
        offsets = {tp: (start or {}).get(tp, 0) for tp in partitions}
        self._consumer.assign(self._to_kafka(offsets))  # 0 where the beginning is lost is out of range, and so an error

    @property
    def partitions(self) -> frozenset[Partition]:
        """What is read."""
        return frozenset(self._assigned)

    def turn_to(self, where: Partition) -> None:
        """From now on read this partition alone, from its beginning."""
        self._unread = {where}
        self.positions.pop(where, None)
        self._consumer.assign(self._to_kafka({where: 0}))  # nothing is ever deleted: this is the beginning

    def rest(self) -> Iterator[Record]:
        """Every record up to the ends, partitions interleaved. Raises LogError."""
        while not self.caught_up():
            yield from self.poll(2000, 0.5)
