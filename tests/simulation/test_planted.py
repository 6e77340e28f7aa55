"""Each planted bug is caught within so many seeds, by the invariant that names it."""

import pytest

from tests.simulation.invariants import Violation
from tests.simulation.plants import PLANTS
from tests.simulation.run import run_seed


@pytest.mark.parametrize("name", sorted(PLANTS))
def test_a_planted_bug_is_caught_and_named(name: str) -> None:
    plant = PLANTS[name]
    for seed in range(plant.within):
        try:
            run_seed(seed, plant.parts)
        except Violation as violation:
            assert violation.invariant in plant.caught_by, violation
            return
    pytest.fail(f"{name} was not caught in {plant.within} seeds")
