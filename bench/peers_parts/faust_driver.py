"""faust-streaming: agents over topics with a custom Avro codec, either processing guarantee.

It reads committed records only with exactly_once: at_least_once always reads uncommitted ones.
"""

import asyncio
import tempfile
from typing import Any

import faust
from faust.serializers import codecs

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


class AvroCodec(codecs.Codec):  # type: ignore[misc]
    """A codec as its documentation describes them."""

    def __init__(self, schema: Any) -> None:
        super().__init__()
        self._decode, self._encode = avro_decoder(schema), avro_encoder(schema)

    def _loads(self, body: bytes) -> Any:
        return self._decode(body)

    def _dumps(self, data: Any) -> bytes:
        return self._encode(data)


def application(work: Job, folder: str) -> faust.App:
    """Defaults, but for what every contestant is given alike."""
    for name, schema in work.schemas().items():
        codecs.register(name, AvroCodec(schema))
    return faust.App(
        f"faust-{work.run}",
        broker=f"kafka://{work.bootstrap}",
        datadir=folder,
        consumer_auto_offset_reset="earliest",
        processing_guarantee=work.guarantee.replace("-", "_"),
        broker_commit_interval=0.01 if work.prompt else COMMIT_EVERY_S,
        broker_commit_every=1 if work.prompt else 10_000,
        broker_max_poll_records=BATCH,
        producer_acks=-1,
        producer_linger=0.002,
        producer_compression_type="lz4",
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
    )


async def produce(work: Job, meter: Meter, app: faust.App) -> None:
    """Bodies as they are, confirmed batch by batch."""
    rows = work.corpus()
    topics = {
        name: app.topic(work.topics[name], value_serializer="raw", key_serializer="raw") for name in work.schemas()
    }
    await app.start()
    for batch in batches(rows, meter):
        sent = [
            await topics[topic].send(key=key, value=value, headers=list(headers))
            for topic, key, value, headers in batch
        ]
        await asyncio.gather(*sent)
    meter.end()
    await app.stop()


async def consume(work: Job, meter: Meter, app: faust.App) -> None:
    """An agent for each topic."""
    done = asyncio.Event()

    async def take(stream: Any) -> None:
        async for event in stream.events():
            if meter.take(event.value["step"], event.value["index"], len(event.headers or ())):
                meter.end()
                done.set()

    for name in work.schemas():
        topic = app.topic(work.topics[name], value_type=None, value_serializer=name, key_serializer="raw")
        app.agent(topic, name=f"take-{name}")(take)
    await app.start()
    await done.wait()
    await app.stop()


async def react(work: Job, meter: Meter, app: faust.App) -> None:
    """Rewards sent from within the agent, so with exactly_once in the transaction of its offsets."""
    template, done = work.reward(), asyncio.Event()
    source = app.topic(work.topics["rollout"], value_type=None, value_serializer="rollout", key_serializer="raw")
    target = app.topic(work.topics["reaction"], value_type=None, value_serializer="reward", key_serializer="raw")

    async def answer(stream: Any) -> None:
        async for event in stream.events():
            value, headers = event.value, event.headers
            await target.send(key=reaction_key(value), value=reaction(template, value), headers=headers)
            if meter.take(value["step"], value["index"], len(headers or ())):
                done.set()

    app.agent(source, name="answer")(answer)
    await app.start()
    await done.wait()
    await app.stop()  # commits
    meter.end()


async def drive(work: Job, meter: Meter, folder: str) -> None:
    """Run one task."""
    app = application(work, folder)
    app.finalize()
    await {"produce": produce, "consume": consume, "react": react}[work.task](work, meter, app)


def main() -> None:
    """Do the job."""
    work = job()
    meter = Meter(work.events)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(drive(work, meter, folder))
    settings = f"broker_commit_interval={0.01 if work.prompt else COMMIT_EVERY_S:g}, max_poll_records={BATCH}"
    meter.report(versions=versions(["faust-streaming", "aiokafka", "fastavro"]), settings=settings)


if __name__ == "__main__":
    main()
