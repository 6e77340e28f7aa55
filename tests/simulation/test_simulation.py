"""The simulation itself: one seed is one schedule, a failing seed says how to run it again, every service is in it."""

import os
import subprocess
import sys

import pytest

from bat_events.consumers.registry import SERVICES
from tests.simulation.chaos import POINTS
from tests.simulation.invariants import Violation
from tests.simulation.plants import PLANTS
from tests.simulation.processes import GROUPS
from tests.simulation.run import COMMAND, run_seed, undisturbed
from tests.simulation.world import check_tables


def traced(seed: int) -> list[str]:
    lines: list[str] = []
    run_seed(seed, trace=lines.append)
    return lines


def test_every_service_but_the_auditors_is_simulated() -> None:
    check_tables(dict.fromkeys(SERVICES, 1))


def test_every_service_passes_every_commit_point_undisturbed() -> None:
    passed = {(group, point) for group, point, count in undisturbed().targets if count > 0}
    assert passed >= {(group, point) for group in GROUPS for point in POINTS}


def test_a_seed_is_one_schedule_in_every_process() -> None:
    """Also where strings hash otherwise."""
    asked = [sys.executable, "-m", "tests.simulation.run", "--seed", "11", "--trace"]
    first, second = (
        subprocess.run(
            asked, env={**os.environ, "PYTHONHASHSEED": salt}, capture_output=True, text=True, check=True, timeout=300
        ).stdout
        for salt in ("1", "2")
    )
    assert len(first.splitlines()) > 100
    assert first == second
    assert first.splitlines()[:-1] == traced(11)


def test_a_failing_seed_is_run_again_by_its_command() -> None:
    name = "offset-one-too-many"
    with pytest.raises(Violation) as caught:
        run_seed(5, PLANTS[name].parts)
    words = COMMAND.format(seed=5).split()
    ran = subprocess.run(
        [sys.executable, *words[1:], "--plant", name], capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 1
    assert str(caught.value) in ran.stderr
    assert "starts" in ran.stdout
