"""One synthetic campaign for all forks in memory: four rounds, some held."""

import pytest

from bat_events.log.interface import Record
from tests.fork.forking import FOUR
from tests.replay.loop import Loop


@pytest.fixture(scope="session")
def four() -> list[Record]:
    """A completed campaign's records, by topic, partition and offset."""
    return Loop(seed=7, plan=FOUR).run()
