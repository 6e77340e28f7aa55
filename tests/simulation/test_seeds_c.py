"""Given any seed's crashes, rebalances, delays, duplicates and failures, the campaign ends as the undisturbed one. Share 3 of 4."""

import pytest

from tests.simulation.seeds import Shard

SHARD = Shard(2)


@pytest.mark.parametrize("first", SHARD.chunks)
def test_nothing_is_lost_and_nothing_comes_twice(first: int) -> None:
    SHARD.run_chunk(first)


def test_every_service_died_at_every_commit_point_and_everything_happened() -> None:
    SHARD.check_coverage()
