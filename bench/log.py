"""Events/s through encode, produce, consume and decode, beside raw confluent-kafka on the same bytes.

Run: python bench/log.py [--events N] [--bootstrap HOST:PORT]. Without a bootstrap a local broker is started in a temporary
folder. Both sides move the same keys, headers and bodies with the same client settings: ratios are what to trust.
"""

import argparse
import contextlib
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from bat_events.codec import Codec
from bat_events.deciders.interface import Draft
from bat_events.domain.vocabulary import Focus, Pool, Stage
from bat_events.events.base import Event
from bat_events.events.rollouts import RewardScored, RolloutCompleted, RubricItem, StageValue
from bat_events.log.admin import apply_topics
from bat_events.log.cluster import Address, client_settings
from bat_events.log.interface import Outgoing
from bat_events.log.kafka import KafkaReader, KafkaWriter
from bat_events.log.local_kafka import LocalKafka
from bat_events.log.topics import broker_name
from bat_events.service.emit import outgoing

BATCH = 500
PARTITIONS = 4


@dataclass(frozen=True)
class Measure:
    """One row of the table."""

    name: str
    events: int
    seconds: float
    note: str = ""

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.events / self.seconds


def rollout(number: int) -> RolloutCompleted:
    """A rollout of 64 sampled tokens."""
    tokens = 64
    return RolloutCompleted(
        group=f"{number // 4:032x}",
        rollout=f"{number:032x}",
        index=number % 4,
        round=1,
        step=number // 32,
        slot=number % 8,
        pool=Pool.S_TARGET,
        focus=Focus.S3,
        state=f"{number:032x}",
        body="ab" * 32,
        weights="cd" * 32,
        end="final",
        turns=1,
        valid_actions=1,
        prompt_tokens=tokens,
        response_tokens=tokens,
        prompt_ids=bytes(4 * tokens),
        response_ids=bytes(4 * tokens),
        response_mask=bytes([1] * tokens),
        logprobs=bytes(4 * tokens),
        evidence="ef" * 32,
        sandbox="bubblewrap",
        receipts=None,
        signer=None,
        seal=None,
    )


def reward(number: int) -> RewardScored:
    """A reward with six rubric items."""
    items = tuple(
        RubricItem(item=f"item_{n}", stage=Stage.S3, score=0.5, applicable=True, proof=0, note="") for n in range(6)
    )
    return RewardScored(
        group=f"{number // 4:032x}",
        rollout=f"{number:032x}",
        index=number % 4,
        round=1,
        step=number // 32,
        slot=number % 8,
        pool=Pool.S_TARGET,
        focus=Focus.S3,
        reward=0.5,
        raw=0.5,
        cap=1.0,
        stages=(StageValue(stage=Stage.S3, score=0.5),),
        task_score=None,
        items=items,
        failures=(),
        evidence="ef" * 32,
        judge="evidence",
        rubric_version=1,
        model=None,
        texts=(),
    )


def timed(call: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def encode(events: Sequence[Event], topic_partitions: dict[str, int]) -> list[Outgoing]:
    """Every event as the service loop writes it."""
    now = datetime.now(UTC)
    found = []
    for number, event in enumerate(events):
        draft = Draft(
            event=event, campaign="bench", cause=f"{number:032x}", ordinal=0, key=f"{number // 8:032x}", round=1
        )
        found.append(outgoing(draft, source="bat/bench", logic="bench/1", time=now, partitions=topic_partitions))
    return found


def raw_produce(bootstrap: Address, namespace: str, records: Sequence[Outgoing]) -> None:
    """The same records in the same transactions, by the bare client."""
    producer = Producer(
        {
            **client_settings(bootstrap),
            "transactional.id": f"raw-{uuid.uuid4().hex}",
            "acks": "all",
            "linger.ms": 2,
            "compression.type": "lz4",
        }
    )
    producer.init_transactions(30.0)
    for start in range(0, len(records), BATCH):
        producer.begin_transaction()
        for out in records[start : start + BATCH]:
            producer.produce(
                broker_name(namespace, out.topic),
                value=out.value,
                key=out.key,
                partition=out.partition,
                headers=list(out.headers),
            )
        producer.commit_transaction(30.0)


def bat_produce(bootstrap: Address, namespace: str, records: Sequence[Outgoing]) -> None:
    """By this project's writer."""
    writer = KafkaWriter(bootstrap=bootstrap, namespace=namespace, name="bench")
    for start in range(0, len(records), BATCH):
        writer.publish(records[start : start + BATCH])


def raw_consume(bootstrap: Address, namespace: str, topics: Sequence[str], count: int) -> None:
    """Read committed records by the bare client."""
    consumer = Consumer(
        {
            **client_settings(bootstrap),
            "group.id": f"raw-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(broker_name(namespace, t), p, 0) for t in topics for p in range(PARTITIONS)])
    seen = 0
    while seen < count:
        for message in consumer.consume(BATCH, 1.0):
            if message.error() is None and message.value() is not None and message.key() is not None:
                seen += message.headers() is not None
    consumer.close()


def bat_consume(bootstrap: Address, namespace: str, topics: Sequence[str], count: int, *, decode: bool) -> None:
    """By this project's reader, with or without the codec."""
    reader = KafkaReader(bootstrap=bootstrap, namespace=namespace, topics=topics)
    codec, seen = Codec(), 0
    while seen < count:
        records = reader.poll(BATCH, 1.0)
        seen += len(records)
        if decode:
            for record in records:
                codec.decode(record)
    reader.close()


@contextlib.contextmanager
def broker(bootstrap: str | None) -> Iterator[Address]:
    """The named broker, or a local one for as long as this lasts."""
    if bootstrap:
        yield bootstrap
        return
    with tempfile.TemporaryDirectory() as folder:
        local = LocalKafka(Path(folder))
        local.up()
        yield local.login()
        local.down()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--bootstrap")
    options = parser.parse_args()
    n = options.events
    events: list[Event] = [rollout(i) if i % 2 else reward(i) for i in range(n)]
    topics = ["rollout", "reward"]
    records = encode(events[:100], dict.fromkeys(topics, PARTITIONS))  # warm-up
    rows = [Measure("encode", n, timed(lambda: encode(events, dict.fromkeys(topics, PARTITIONS))))]
    records = encode(events, dict.fromkeys(topics, PARTITIONS))
    size = sum(len(r.value) + len(r.key) + sum(len(k) + len(v) for k, v in r.headers) for r in records) / n
    with broker(options.bootstrap) as address:
        names = [f"bench-{uuid.uuid4().hex[:8]}" for _ in range(3)]
        for name in names:
            apply_topics(address, name, partitions=PARTITIONS)
        for warm_up in (raw_produce, bat_produce):  # a fresh broker's first transactions are its slowest
            warm_up(address, names[2], records[: n // 4])
        raw = [Measure("produce (raw client)", n, timed(lambda: raw_produce(address, names[0], records)))]
        rows.append(Measure("produce", n, timed(lambda: bat_produce(address, names[1], records))))
        raw.append(Measure("consume (raw client)", n, timed(lambda: raw_consume(address, names[0], topics, n))))
        rows.append(Measure("consume", n, timed(lambda: bat_consume(address, names[1], topics, n, decode=False))))
        rows.append(
            Measure("consume + decode", n, timed(lambda: bat_consume(address, names[1], topics, n, decode=True)))
        )
    table = Table(title=f"{n:,} events, {size:,.0f} bytes each with key and headers; transactions of {BATCH}")
    table.add_column("step")
    table.add_column("events/s", justify="right")
    table.add_column("share of raw", justify="right")
    limits = {"produce": raw[0], "consume": raw[1], "consume + decode": raw[1]}
    for row in (*raw, *rows):
        limit = limits.get(row.name)
        table.add_row(row.name, f"{row.rate:,.0f}", "" if limit is None else f"{row.rate / limit.rate:.2f}")
    whole = sum(row.seconds for row in rows if row.name in ("encode", "produce", "consume + decode"))
    limit_s = sum(row.seconds for row in raw)
    table.add_row("encode, produce, consume, decode", f"{n / whole:,.0f}", f"{limit_s / whole:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
