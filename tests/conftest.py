"""What all tests share: one thread per process, and one real broker for everything that needs Kafka."""

import os
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from bat_events.log.local_kafka import LocalKafka

# The figures and time-outs of one test do not depend on others.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[LocalKafka]":
    """A running local broker with access rules, stopped when the tests end; `.login()` is its address as the admin.

    `.login(principal, namespace)` is its address as a service has it; that user exists once `apply_access` made it.
    """
    from bat_events.log.local_kafka import LocalKafka

    broker = LocalKafka(tmp_path_factory.mktemp("bat-home"))
    broker.up()
    yield broker
    broker.down()


@pytest.fixture
def namespace() -> str:
    """A prefix that no other test has used; tests under one broker do not see each other."""
    return f"t-{uuid.uuid4().hex[:12]}"
