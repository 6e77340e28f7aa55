"""A fork on the real Kafka, through the command line: another gate decides, for real."""

from pathlib import Path

import pytest

from bat_events.log.local_kafka import LocalKafka
from tests.e2e.commands import SEAL_TOPICS, Home, closed, finished

pytestmark = [pytest.mark.kafka, pytest.mark.sandbox]

SCRIPTED = Path(__file__).parents[2] / "bat_events" / "campaigns" / "scripted.yaml"


@pytest.fixture(scope="module")
def origin(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("home"), kafka=kafka, namespace="fork-origin")
    home.run("campaign", "start", str(SCRIPTED), "--id", "tiny")
    with home.serving():
        home.wait(finished, "round")
        home.wait(closed, *SEAL_TOPICS, timeout_s=60)
    return home


def test_try(origin: Home, kafka: LocalKafka) -> None:
    for f in origin.facts("promotion"):
        print(f.event)
    print(origin.run("replay", "--what-if", "gate.mode=reference", "--what-if", "target_rule=raw"))
    said = origin.run(
        "fork", "tiny", "--at", "round:1", "--set", "gate.mode=reference", "--name", "ref", "--namespace", "fork-ref"
    )
    print(said)
    fork = Home(origin.path, kafka=kafka, namespace="fork-ref")
    with fork.serving():
        fork.wait(finished, "round", timeout_s=100)
        fork.wait(closed, *SEAL_TOPICS, timeout_s=60)
    for f in fork.facts("promotion"):
        print(f.event)
    print(fork.run("replay"))
    print(fork.run("log", "verify", "tiny~ref"))
    print(fork.run("campaign", "status"))
    assert 0
