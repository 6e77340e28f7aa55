"""The same events for everyone: the corpus, the topics it stands on, and reading back what a contestant wrote."""

import contextlib
import io
import json
import pickle
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from log import encode, reward, rollout

from bat_events.codec import schema_for
from bat_events.domain.grouping import group_id, rollout_id
from bat_events.events.base import Event
from bat_events.events.rollouts import RewardScored, RolloutCompleted
from bat_events.log.admin import admin_client
from bat_events.log.local_kafka import LocalKafka
from bat_events.log.topics import broker_name

from .driving import BATCH, Row, checked

CAMPAIGN = "bench"
PARTITIONS = {"rollout": 4, "reward": 4, "dead-letter": 1}
SCHEMAS: dict[str, type[Event]] = {"rollout": RolloutCompleted, "reward": RewardScored}
_PARSED = {name: schema_for(cls).parsed for name, cls in SCHEMAS.items()}


@contextlib.contextmanager
def plain_broker(bootstrap: str | None) -> Iterator[str]:
    """The named broker, or a local one without logins for as long as this lasts: every library speaks to it alike."""
    if bootstrap:
        yield bootstrap
        return
    with tempfile.TemporaryDirectory() as folder:
        local = LocalKafka(Path(folder), heap_mb=512, secured=False)
        local.up()
        try:
            yield local.bootstrap
        finally:
            local.down()


def placed(event: Event, number: int) -> Event:
    """The event at a place of its own, with the ids that its campaign makes: what the service loop asks for."""
    group = number // 4
    step, slot, index = group // 8, group % 8, number % 4
    name = group_id(CAMPAIGN, 1, step, slot, 0)
    place = {"round": 1, "step": step, "slot": slot, "index": index, "group": name, "rollout": rollout_id(name, index)}
    return event.model_copy(update=place)


def rows_of(events: Sequence[Event]) -> list[Row]:
    """As the service loop writes them."""
    return [(out.topic, out.key, out.value, out.headers) for out in encode(events, PARTITIONS)]


@dataclass(frozen=True)
class Corpus:
    """`mixed`: rollouts and rewards by turns. `rollouts`: what is reacted to."""

    mixed: list[Row]
    rollouts: list[Row]

    @classmethod
    def make(cls, events: int) -> "Corpus":
        """Of so many events each."""
        mixed = [placed(rollout(n) if n % 2 else reward(n), n) for n in range(events)]
        return cls(rows_of(mixed), rows_of([placed(rollout(n), n) for n in range(events)]))

    def save(self, folder: Path) -> None:
        """For the drivers."""
        (folder / "corpus.pickle").write_bytes(pickle.dumps(self.mixed))
        first = next(row for row in self.mixed if row[0] == "reward")
        (folder / "reward.pickle").write_bytes(pickle.dumps(decoded("reward", first[2])))
        schemas = {name: json.loads(schema_for(cls).text) for name, cls in SCHEMAS.items()}
        (folder / "schemas.json").write_text(json.dumps(schemas))

    @property
    def bytes_each(self) -> float:
        """Key, body and headers of a mixed event, on average."""
        sizes = [len(k) + len(v) + sum(len(n) + len(raw) for n, raw in headers) for _, k, v, headers in self.mixed]
        return sum(sizes) / len(sizes)


def decoded(topic: str, body: bytes) -> dict[str, Any]:
    """A body as fastavro reads it."""
    data: Any = fastavro.schemaless_reader(io.BytesIO(body), _PARSED[topic], None)
    found: dict[str, Any] = data
    return found


@dataclass(frozen=True)
class Expected:
    """What a whole pass over some rows adds up to."""

    events: int
    check: int
    headers: int

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Expected":
        """By decoding them."""
        bodies = [decoded(topic, value) for topic, _, value, _ in rows]
        check = sum(checked(body["step"], body["index"]) for body in bodies)
        return cls(len(rows), check, sum(len(row[3]) for row in rows))


@dataclass(frozen=True)
class Scene:
    """Fresh topics on one broker."""

    bootstrap: str
    namespace: str
    topics: Mapping[str, str]

    @classmethod
    def make(cls, bootstrap: str) -> "Scene":
        """Topics of a namespace of its own."""
        namespace = f"peers-{uuid.uuid4().hex[:8]}"
        names = {topic: broker_name(namespace, topic) for topic in PARTITIONS}
        wanted = [NewTopic(names[topic], count, 1) for topic, count in PARTITIONS.items()]
        admin = admin_client(bootstrap)
        for future in admin.create_topics(wanted, operation_timeout=30.0).values():
            future.result()
        return cls(bootstrap, namespace, {**names, "reaction": names["reward"]})

    def fill(self, rows: Sequence[Row]) -> None:
        """Write rows in transactions of BATCH, as every source of this project is written."""
        out = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.namespace,
                "compression.type": "lz4",
                "linger.ms": 2,
            }
        )
        out.init_transactions(30.0)
        for start in range(0, len(rows), BATCH):
            out.begin_transaction()
            for topic, key, value, headers in rows[start : start + BATCH]:
                out.produce(self.topics[topic], value=value, key=key, headers=list(headers))
            out.commit_transaction(30.0)

    def delete(self) -> None:
        """Take the topics away."""
        admin = admin_client(self.bootstrap)
        for future in admin.delete_topics(list(set(self.topics.values())), operation_timeout=30.0).values():
            future.result()


@dataclass
class Written:
    """What stands committed on some topics."""

    events: int = 0
    check: int = 0
    keys: set[bytes] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    """Headers that were given and are not there, or not with their value."""
    added: set[str] = field(default_factory=set)


def read_back(scene: Scene, topics: Sequence[str], given: Mapping[bytes, Sequence[tuple[str, bytes]]]) -> Written:
    """Every committed record to the end. `given` maps ce_id to the headers that were handed over with it."""
    reader = Consumer(
        {
            "bootstrap.servers": scene.bootstrap,
            "group.id": "peers-check",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    places = [(topic, partition) for topic in topics for partition in range(PARTITIONS[topic])]
    reader.assign([TopicPartition(scene.topics[topic], partition, 0) for topic, partition in places])
    plain = {scene.topics[topic]: topic for topic in topics}
    found, open_ends = Written(), len(places)
    while open_ends:
        for message in reader.consume(BATCH, 1.0):
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error.str()
                open_ends -= 1
                continue
            body = decoded(plain[message.topic() or ""], message.value() or b"")
            found.events += 1
            found.check += checked(body["step"], body["index"])
            found.keys.add(body["rollout"])
            headers: Any = message.headers() or []
            if given:
                here = dict(headers)
                there = dict(given.get(here.get("ce_id", b""), ()))
                found.lost |= {name for name in there or {"ce_id"} if here.get(name) != there.get(name)}
                found.added |= set(here) - set(there)
    reader.close()
    return found
