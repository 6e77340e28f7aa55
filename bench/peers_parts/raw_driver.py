"""The limit: bare confluent-kafka. `raw` decodes bodies to dicts with fastavro, `bytes` leaves them as they are."""

import sys
import time
from typing import Any

from confluent_kafka import Consumer, Producer

from .driving import (
    BATCH,
    COMMIT_EVERY_S,
    Job,
    Meter,
    avro_decoder,
    avro_encoder,
    batches,
    job,
    reaction,
    reaction_key,
    versions,
)


def producer(work: Job) -> Producer:
    """Idempotent, and transactional where exactly-once is asked for."""
    settings: dict[str, Any] = {
        "bootstrap.servers": work.bootstrap,
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 2,
        "compression.type": "lz4",
    }
    if not work.exactly_once:
        return Producer(settings)
    made = Producer({**settings, "transactional.id": f"raw-{work.run}"})
    made.init_transactions(30.0)
    return made


def consumer(work: Job, topics: list[str]) -> Consumer:
    """A member of a group, reading committed records from the beginning."""
    made = Consumer(
        {
            "bootstrap.servers": work.bootstrap,
            "group.id": f"raw-{work.run}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 20,  # as bat-events has it: the client's own second would be no limit
        }
    )
    made.subscribe(topics)
    return made


def produce(work: Job, meter: Meter) -> None:
    """All records, in transactions of BATCH or in one stream."""
    rows, out = work.corpus(), producer(work)
    for batch in batches(rows, meter, out.flush):
        if work.exactly_once:
            out.begin_transaction()
        for topic, key, value, headers in batch:
            out.produce(work.topics[topic], value=value, key=key, headers=list(headers))
        if work.exactly_once:
            out.commit_transaction(30.0)
        out.poll(0)
    out.flush(30.0)
    meter.end()


def consume(work: Job, meter: Meter, *, decode: bool) -> None:
    """All records of both topics; offsets are committed every few seconds."""
    decoders = {work.topics[name]: avro_decoder(schema) for name, schema in work.schemas().items()}
    reader = consumer(work, [work.topics["rollout"], work.topics["reward"]])
    committed, done = time.monotonic(), False
    while not done:
        first = reader.poll(0.2)
        for message in () if first is None else (first, *reader.consume(BATCH - 1, 0.0)):
            assert message.error() is None
            headers = len(message.headers() or ())
            if decode:
                data = decoders[message.topic() or ""](message.value() or b"")
                done = meter.take(data["step"], data["index"], headers)
            else:
                done = meter.take(len(message.value() or b""), 0, headers)
        if time.monotonic() - committed > COMMIT_EVERY_S:
            reader.commit(asynchronous=True)
            committed = time.monotonic()
    meter.end()
    reader.commit(asynchronous=False)
    reader.close()


def react(work: Job, meter: Meter, *, single: bool) -> None:
    """A reward for every rollout; outputs and offsets of one read are one transaction, or at least one flush."""
    schemas = work.schemas()
    decode, encode, template = avro_decoder(schemas["rollout"]), avro_encoder(schemas["reward"]), work.reward()
    reader, out = consumer(work, [work.topics["rollout"]]), producer(work)
    done = False
    while not done:
        first = reader.poll(0.2)
        if first is None:
            continue
        messages = [first, *([] if single else reader.consume(BATCH - 1, 0.0))]
        if work.exactly_once:
            out.begin_transaction()
        for message in messages:
            assert message.error() is None
            data = decode(message.value() or b"")
            headers = message.headers() or []
            body = encode(reaction(template, data))
            out.produce(work.topics["reaction"], value=body, key=reaction_key(data), headers=headers)
            done = meter.take(data["step"], data["index"], len(headers))
        if work.exactly_once:
            offsets = reader.position(reader.assignment())
            out.send_offsets_to_transaction(
                [tp for tp in offsets if tp.offset >= 0], reader.consumer_group_metadata(), 30.0
            )
            out.commit_transaction(30.0)
        else:
            out.flush(30.0)
            reader.commit(asynchronous=True)
    meter.end()
    reader.close()


def main() -> None:
    """Do the job."""
    work = job()
    meter = Meter(work.events)
    if work.task == "produce":
        produce(work, meter)
    elif work.task == "consume":
        consume(work, meter, decode=sys.argv[2:] != ["bytes"])
    else:
        react(work, meter, single=sys.argv[2:] == ["single"])
    settings = {"bytes": "bytes", "single": "one by one"}.get("".join(sys.argv[2:]), f"{BATCH} a batch")
    meter.report(versions=versions(["confluent-kafka", "fastavro"]), settings=settings)


if __name__ == "__main__":
    main()
