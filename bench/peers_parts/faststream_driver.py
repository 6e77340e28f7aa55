"""FastStream on confluent-kafka: batch subscribers, Avro by a custom decoder as its documentation shows.

Its broker takes a `transactional_id` but begins no transaction, so there is no exactly-once; at-least-once is
AckPolicy.ACK (offsets committed after the handler), which is not its default.
"""

import asyncio
from typing import Any

from faststream import AckPolicy
from faststream.confluent import KafkaBroker

from .driving import (
    BATCH,
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


def broker(work: Job) -> KafkaBroker:
    """Without pydantic's validation of handler arguments, which is the fastest that it offers."""
    return KafkaBroker(
        work.bootstrap,
        apply_types=False,
        acks="all",
        enable_idempotence=True,
        linger_ms=2,
        compression_type="lz4",
        allow_auto_create_topics=False,
        logger=None,
    )


async def produce(work: Job, meter: Meter) -> None:
    """One publish an event: publish_batch carries one set of headers for all. Not waited for one by one."""
    rows = [
        (work.topics[topic], key, value, {name: raw.decode() for name, raw in headers})
        for topic, key, value, headers in work.corpus()
    ]
    out = broker(work)
    await out.start()
    for batch in batches(rows, meter):
        sent = [
            await out.publish(value, topic, key=key, headers=headers, no_confirm=True)
            for topic, key, value, headers in batch
        ]
        await asyncio.gather(*sent)
    meter.end()
    await out.stop()


async def consume(work: Job, meter: Meter) -> None:
    """Batches of both topics."""
    decoders = {work.topics[name]: avro_decoder(schema) for name, schema in work.schemas().items()}
    done = asyncio.Event()

    async def decode(message: Any) -> Any:
        bodies = zip(message.raw_message, message.body, strict=True)
        return [decoders[raw.topic()](body) for raw, body in bodies]

    async def handle(events: Any, message: Any) -> None:
        for event, headers in zip(events, message.batch_headers, strict=True):
            if meter.take(event["step"], event["index"], len(headers)):
                meter.end()
                done.set()

    await _subscribed(work, [work.topics["rollout"], work.topics["reward"]], decode, handle, done)


async def _subscribed(work: Job, topics: list[str], decode: Any, handle: Any, done: asyncio.Event) -> None:
    hub = broker(work)
    subscriber = hub.subscriber(
        *topics,
        group_id=f"faststream-{work.run}",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        fetch_max_wait_ms=100,
        ack_policy=AckPolicy.ACK,
        batch=not work.prompt,
        **({} if work.prompt else {"max_records": BATCH}),
        decoder=decode,
    )

    async def with_message(events: Any) -> None:
        message = hub.context.get_local("message")
        await handle(events, message, hub) if work.task == "react" else await handle(events, message)

    subscriber(with_message)
    await hub.start()
    await done.wait()
    await hub.stop()


async def react(work: Job, meter: Meter) -> None:
    """Rewards are published and confirmed before the batch is acknowledged."""
    schemas, template = work.schemas(), work.reward()
    decode_one, encode = avro_decoder(schemas["rollout"]), avro_encoder(schemas["reward"])
    done = asyncio.Event()

    async def decode(message: Any) -> Any:
        return decode_one(message.body) if work.prompt else [decode_one(body) for body in message.body]

    async def handle(events: Any, message: Any, hub: KafkaBroker) -> None:
        pairs = [(events, message.headers)] if work.prompt else zip(events, message.batch_headers, strict=True)
        sent, last = [], False
        for event, headers in pairs:
            last = meter.take(event["step"], event["index"], len(headers))
            body = encode(reaction(template, event))
            key = reaction_key(event)
            sent.append(await hub.publish(body, work.topics["reaction"], key=key, headers=headers, no_confirm=True))
        await asyncio.gather(*sent)
        if last:
            meter.end()
            done.set()

    await _subscribed(work, [work.topics["rollout"]], decode, handle, done)


def main() -> None:
    """Do the job."""
    work = job()
    meter = Meter(work.events)
    asyncio.run({"produce": produce, "consume": consume, "react": react}[work.task](work, meter))
    settings = f"AckPolicy.ACK, {'one by one' if work.prompt else f'batches of {BATCH}'}"
    meter.report(versions=versions(["faststream", "confluent-kafka", "fastavro"]), settings=settings)


if __name__ == "__main__":
    main()
