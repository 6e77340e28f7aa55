"""One synthetic campaign for all replay tests: two rounds, one promoted and one held."""

import pytest

from bat_events.log.interface import Record
from tests.replay.loop import Loop


@pytest.fixture(scope="session")
def records() -> list[Record]:
    """A completed campaign's records, by topic, partition and offset."""
    return Loop(seed=7).run()
