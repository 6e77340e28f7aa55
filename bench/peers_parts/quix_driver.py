"""Quix Streams: StreamingDataFrame, its own AvroSerializer and AvroDeserializer, either processing guarantee."""

import tempfile
from typing import Any

from quixstreams import Application
from quixstreams.models.serializers.avro import AvroDeserializer, AvroSerializer

from .driving import BATCH, COMMIT_EVERY_S, Job, Meter, batches, job, reaction, reaction_key, versions


def application(work: Job, state: str) -> Application:
    """Defaults, but for what every contestant is given alike. Its exactly-once commits by checkpoint."""
    return Application(
        broker_address=work.bootstrap,
        consumer_group=f"quix-{work.run}",
        auto_offset_reset="earliest",
        processing_guarantee=work.guarantee,
        commit_every=_commit_every(work),
        commit_interval=COMMIT_EVERY_S,
        consumer_extra_config={"isolation.level": "read_committed", "fetch.wait.max.ms": 100},
        producer_extra_config={"acks": "all", "linger.ms": 2, "compression.type": "lz4"},
        auto_create_topics=False,
        loglevel="ERROR",
        state_dir=state,
    )


def _commit_every(work: Job) -> int:
    if work.task == "consume":
        return 0
    return 1 if work.prompt else BATCH


def produce(work: Job, meter: Meter, app: Application) -> None:
    """By `Application.get_producer`, which the documentation gives for data from outside."""
    rows = work.corpus()
    with app.get_producer(transactional=work.exactly_once) as out:
        for batch in batches(rows, meter, out.flush):
            if work.exactly_once:
                out.begin_transaction()
            for topic, key, value, headers in batch:
                out.produce(topic=work.topics[topic], key=key, value=value, headers=list(headers))
            if work.exactly_once:
                out.commit_transaction()
        out.flush()
        meter.end()


def consume(work: Job, meter: Meter, app: Application) -> None:
    """A dataframe for each topic."""

    def take(value: Any, key: Any, timestamp: int, headers: Any) -> None:  # noqa: ARG001
        if meter.take(value["step"], value["index"], len(headers or ())):
            meter.end()
            app.stop()

    for name, schema in work.schemas().items():
        topic = app.topic(work.topics[name], value_deserializer=AvroDeserializer(schema), key_deserializer="bytes")
        app.dataframe(topic).update(take, metadata=True)
    app.run()


def react(work: Job, meter: Meter, app: Application) -> None:
    """Rollouts in, rewards out, a checkpoint for every BATCH (for every event where latency counts)."""
    schemas, template = work.schemas(), work.reward()
    source = app.topic(work.topics["rollout"], value_deserializer=AvroDeserializer(schemas["rollout"]))
    target = app.topic(work.topics["reaction"], value_serializer=AvroSerializer(schemas["reward"]))
    done = []

    def answer(value: Any, key: Any, timestamp: int, headers: Any) -> Any:  # noqa: ARG001
        if meter.take(value["step"], value["index"], len(headers or ())):
            done.append(True)
        return reaction(template, value)

    def processed(topic: str, partition: int, offset: int) -> None:  # noqa: ARG001
        if done:
            app.stop()  # commits the last checkpoint

    app.dataframe(source).apply(answer, metadata=True).to_topic(target, key=reaction_key)
    app._on_message_processed = processed
    app.run()
    meter.end()


def main() -> None:
    """Do the job."""
    work = job()
    meter = Meter(work.events)
    with tempfile.TemporaryDirectory() as state:
        {"produce": produce, "consume": consume, "react": react}[work.task](work, meter, application(work, state))
    settings = f"commit_every={_commit_every(work)}, commit_interval={COMMIT_EVERY_S:g}"
    meter.report(versions=versions(["quixstreams", "confluent-kafka", "fastavro"]), settings=settings)


if __name__ == "__main__":
    main()
