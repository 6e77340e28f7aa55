"""Groups of a step lie apart, and all that is written of one lies together."""

from collections import Counter

import pytest

from bat_events.events.base import event_types
from bat_events.log.placement import _OF_GROUPS, place_of_group


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
@pytest.mark.parametrize("partitions", [8, 16, 24, 64, 256])
def test_a_step_s_groups_are_shared_out_evenly(workers: int, partitions: int) -> None:
    each = partitions // workers
    for step in range(50):
        owners = Counter(place_of_group(step, slot, partitions) // each for slot in range(8))
        assert set(owners.values()) == {8 // workers}, (step, owners)


@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("partitions", [4, 8, 16, 64])
def test_small_steps_too(groups: int, partitions: int) -> None:
    for step in range(50):
        owners = Counter(place_of_group(step, slot, partitions) * groups // partitions for slot in range(groups))
        assert max(owners.values()) == 1, (step, owners)


@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 7, 12, 16, 31, 64, 100])
def test_every_partition_has_its_turn(partitions: int) -> None:
    seen = {place_of_group(step, slot, partitions) for step in range(partitions) for slot in range(8)}
    assert seen == set(range(partitions))


def test_two_steps_at_once_do_not_meet() -> None:
    for partitions in (16, 32, 64, 256):
        for step in range(50):
            places = [place_of_group(s, slot, partitions) for s in (step, step + 1) for slot in range(8)]
            assert len(set(places)) == 16


def test_all_that_stands_beside_a_group_is_placed_like_it() -> None:
    """Else a key would stand in two partitions, and its order would mean nothing."""
    there = [cls for cls in event_types() if set(cls.topics()) & {"group", "rollout"}]
    assert set(there) == set(_OF_GROUPS)
