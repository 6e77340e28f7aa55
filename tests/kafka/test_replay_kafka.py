"""A campaign on a real Kafka replays, is recorded as an archive, and replays from that with the same result."""

from pathlib import Path

import pytest

from bat_events.log.admin import apply_topics
from bat_events.log.kafka import KafkaWriter
from bat_events.log.local_kafka import LocalKafka
from bat_events.replay import ArchiveSource, KafkaSource, render, replay_campaign
from bat_events.replay.record import main
from tests.replay.loop import Loop

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


def test_a_campaign_replays_from_kafka_and_from_its_recording(
    kafka: LocalKafka, namespace: str, tmp_path: Path
) -> None:
    loop = Loop(seed=5)
    records = loop.run()
    apply_topics(kafka.login(), namespace, partitions=3)
    writer = KafkaWriter(bootstrap=kafka.login(), namespace=namespace, name="copy")
    for outputs in loop.store.transactions:
        if outputs:
            writer.publish(outputs)

    source = KafkaSource(kafka.login(), namespace)
    there = list(source.records())
    assert [(r.topic, r.partition, r.offset, r.value) for r in there] == [
        (r.topic, r.partition, r.offset, r.value) for r in records
    ], "the in-memory log numbers offsets as Kafka does, markers included"
    live = replay_campaign(source)
    source.close()
    assert (live.reproduced, live.outcome) == (True, "completed"), render(live)

    assert main([kafka.bootstrap, namespace, str(tmp_path / "log"), str(kafka.secrets / "admin")]) == 0
    archive = ArchiveSource(tmp_path / "log")
    assert archive.schemas()
    recorded = replay_campaign(archive)
    assert (recorded.deciders, recorded.checks, recorded.ends) == (live.deciders, live.checks, live.ends)
