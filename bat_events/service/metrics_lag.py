"""How far services have come as the broker knows it, without their help: a dead or stopped one cannot look healthy.

For groups that share a topic it is the committed offset; for a service that folds (deciders, trainer, auditors) the position that
it last told in its metrics file. From there on the first record that a reader of committed records would get is looked up: its
time is the age of the oldest unhandled event, and where there is none (transaction markers only) the lag is 0.
"""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from prometheus_client.core import GaugeMetricFamily, Metric

from bat_events.errors import LogError
from bat_events.log.admin import admin_client, group_offsets, list_topics
from bat_events.log.cluster import Address, check_access, group_of, kafka_error
from bat_events.log.groups import GROUPS, OPTIONAL
from bat_events.log.interface import Partition
from bat_events.log.kafka_reader import CALL_S, open_consumer
from bat_events.log.topics import broker_name, plain_name
from bat_events.service.metrics_files import read_files

_SMALL = {"queued.max.messages.kbytes": 1024, "max.partition.fetch.bytes": 64 << 10}  # one record of each is looked at


@dataclass(frozen=True, kw_only=True)
class Lag:
    """One service on one partition. `position` is the next offset that is not known to be handled.

    `records` is how many offsets there are from the first unhandled record to the end, markers between included; `oldest_ms` that
    record's time (ms since the epoch), None where there is none. `members` is how many processes share the topic, None for a
    service that folds.
    """

    service: str
    topic: str
    partition: int
    position: int
    end: int
    records: int
    oldest_ms: int | None
    members: int | None

    def age_s(self, now: float) -> float:
        """How long the oldest unhandled event has waited; 0 where none waits."""
        return 0.0 if self.oldest_ms is None else max(now - self.oldest_ms / 1000, 0.0)


@dataclass
class LagReader:
    """Asks the broker as a principal that may follow groups. `folder` holds this machine's metrics files, if there are any."""

    address: Address
    namespace: str
    folder: Path | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()  # two may scrape at once
        self._admin: AdminClient = admin_client(self.address)
        settings = {"group.id": group_of(self.address, self.namespace, "lag"), **_SMALL}
        self._consumer: Consumer = open_consumer(self.address, **settings)

    def read(self) -> list[Lag]:
        """Every service on every partition of its input, sorted. Raises LogError, AccessDenied."""
        with self._lock:
            return self._read()

    def metrics(self) -> list[Metric]:
        """The same for Prometheus; nothing is said of lag, and that it was not seen, where the broker does not answer."""
        observed = GaugeMetricFamily("bat_lag_observed", "Whether the broker said how far the groups have come")
        try:
            found = as_metrics(self.read(), time.time())
        except LogError:
            found = []
        observed.add_metric([], float(bool(found)))
        return [observed, *found]

    def _read(self) -> list[Lag]:
        states = list_topics(self.address, self.namespace)
        counts = {state.spec.name: state.partitions for state in states}
        rows = []
        for group, topic in GROUPS.items():
            rows += self._of_group(group, topic, counts.get(topic, 0))
        for service, positions in sorted(self._told(counts).items()):
            rows += self._rows(service, positions, None)
        return sorted(rows, key=lambda row: (row.service, row.topic, row.partition))

    def close(self) -> None:
        """Free the sockets."""
        self._consumer.close()

    def _of_group(self, group: str, topic: str, partitions: int) -> list[Lag]:
        name = broker_name(self.namespace, group)
        try:
            known, members = group_offsets(self._admin, name)
        except KafkaException as error:
            check_access(self.address, kafka_error(error), f"ask how far group {name} has come")
            raise LogError(f"group {name}: {kafka_error(error).str()}") from error
        if group in OPTIONAL and not known and not members:
            return []
        at = {(topic, p): max(known.get((broker_name(self.namespace, topic), p), 0), 0) for p in range(partitions)}
        return self._rows(group, at, members)

    def _told(self, counts: Mapping[str, int]) -> dict[str, dict[Partition, int]]:
        """Where services that fold say they are; the newest word of each counts, on topics that may be seen here."""
        found: dict[str, dict[Partition, int]] = {}
        files = [] if self.folder is None else sorted(read_files(self.folder), key=lambda file: file[1])
        for _, _, metrics in files:
            told: dict[str, dict[Partition, int]] = {}
            for sample in (s for metric in metrics if metric.name == "bat_position" for s in metric.samples):
                service, topic = sample.labels["service"], sample.labels["topic"]
                if service not in GROUPS and counts.get(topic, 0):
                    told.setdefault(service, {})[(topic, int(sample.labels["partition"]))] = int(sample.value)
            found |= told
        return found

    def _rows(self, service: str, at: Mapping[Partition, int], members: int | None) -> list[Lag]:
        ends = self._ends(at)
        first = self._first({where: offset for where, offset in at.items() if offset < ends[where]})
        rows = []
        for (topic, partition), position in at.items():
            offset, oldest_ms = first.get((topic, partition), (ends[(topic, partition)], None))
            rows.append(
                Lag(
                    service=service,
                    topic=topic,
                    partition=partition,
                    position=position,
                    end=ends[(topic, partition)],
                    records=max(ends[(topic, partition)] - offset, 0),
                    oldest_ms=oldest_ms,
                    members=members,
                )
            )
        return rows

    def _ends(self, places: Iterable[Partition]) -> dict[Partition, int]:
        ends = {}
        for topic, partition in places:
            where = TopicPartition(broker_name(self.namespace, topic), partition)
            try:
                ends[(topic, partition)] = self._consumer.get_watermark_offsets(where, timeout=CALL_S)[1]
            except KafkaException as error:
                check_access(self.address, kafka_error(error), f"ask where {where.topic} ends")
                raise LogError(f"{where.topic}[{partition}]: {kafka_error(error).str()}") from error
        return ends

    def _first(self, at: Mapping[Partition, int]) -> dict[Partition, tuple[int, int]]:
        """Offset and time (ms) of the first committed record from each place on; left out where there is none."""
        found: dict[Partition, tuple[int, int]] = {}
        if not at:
            return found
        waiting = set(at)
        self._consumer.assign([TopicPartition(broker_name(self.namespace, t), p, o) for (t, p), o in at.items()])
        deadline = time.monotonic() + CALL_S
        while waiting:
            message = self._consumer.poll(0.5)
            if time.monotonic() > deadline:
                raise LogError(
                    f"Kafka at {self.address} does not answer about {sorted(waiting)[0]} and {len(waiting)} in all"
                )
            if message is None:
                continue
            where = (plain_name(self.namespace, message.topic() or f"{self.namespace}."), message.partition() or 0)
            error = message.error()
            if error is None:
                if where in waiting:
                    found[where] = (message.offset() or 0, message.timestamp()[1])
            elif error.code() != KafkaError._PARTITION_EOF:
                check_access(self.address, error, f"read {message.topic()}")
                continue
            if where in waiting:
                waiting.discard(where)
                self._consumer.incremental_unassign([TopicPartition(message.topic() or "", where[1])])
        self._consumer.unassign()
        return found


def as_metrics(rows: Sequence[Lag], now: float) -> list[Metric]:
    """What was found, for Prometheus."""
    places, groups = ["service", "topic", "partition"], ["service"]
    lag = GaugeMetricFamily(
        "bat_group_lag_records", "Offsets from the first unhandled record to the end", labels=places
    )
    age = GaugeMetricFamily(
        "bat_group_oldest_unhandled_age_seconds", "How long it has waited; 0: none does", labels=places
    )
    members = GaugeMetricFamily("bat_group_members", "Processes that share the topic", labels=groups)
    for row in rows:
        labels = [row.service, row.topic, str(row.partition)]
        lag.add_metric(labels, row.records)
        age.add_metric(labels, row.age_s(now))
    for service, count in sorted({(row.service, row.members) for row in rows if row.members is not None}):
        members.add_metric([service], count)
    return [lag, age, members]
