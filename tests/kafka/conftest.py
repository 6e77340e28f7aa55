"""One real broker for all tests against Kafka; each test works under a namespace of its own."""

import uuid
from collections.abc import Iterator

import pytest

from bat_events.log.local_kafka import LocalKafka


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """A running local broker, stopped when the tests end; its address is `.bootstrap`."""
    broker = LocalKafka(tmp_path_factory.mktemp("bat-home"))
    broker.up()
    yield broker
    broker.down()


@pytest.fixture
def namespace() -> str:
    """A prefix that no other test has used."""
    return f"t-{uuid.uuid4().hex[:12]}"
