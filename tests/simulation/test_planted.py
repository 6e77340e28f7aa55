"""Each planted bug is caught within so many seeds, by the invariant that names it."""

import pytest

from tests.simulation.invariants import Violation
from tests.simulation.plants import PLANTS
from tests.simulation.run import run_seed


def caught(name: str) -> str | None:
    """The invariant that the first failing seed names."""
    plant = PLANTS[name]
    for seed in range(plant.within):
        try:
            run_seed(seed, plant.parts)
        except Violation as violation:
            return violation.invariant
    return None


@pytest.mark.parametrize("name", sorted(PLANTS))
def test_a_planted_bug_is_caught_and_named(name: str) -> None:
    assert caught(name) in PLANTS[name].caught_by
