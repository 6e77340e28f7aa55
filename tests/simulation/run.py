"""One seed: run it, hold it against the undisturbed run, and say how to run it again.

python -m tests.simulation.run --seed 123 [--trace] [--plant NAME] [--count N]
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from bat_events.codec import Fact
from tests.simulation.chaos import Chaos
from tests.simulation.invariants import SAME, Violation, check_end, differences, digest_of, first_facts
from tests.simulation.processes import GROUPS, REACTORS, WORKERS, Parts, points_of
from tests.simulation.world import World

COMMAND = "python -m tests.simulation.run --seed {seed} --trace"


@dataclass(frozen=True)
class Undisturbed:
    """The run that nothing happens to, and how often each service passes each commit point in it."""

    facts: Sequence[Fact]
    digest: str
    targets: Sequence[tuple[str, str, int]]
    work: Sequence[tuple[str, int, bool]]


@cache
def undisturbed() -> Undisturbed:
    """See Undisturbed."""
    chaos = Chaos(None)
    world = World(chaos)
    world.run()
    facts = first_facts(world.broker, world.codec)
    check_end(facts)
    targets = [(group, point, chaos.passed[(group, point)]) for group in GROUPS for point in points_of(group)]
    work = [
        *((group, max(1, chaos.passed[(group, "begun")]), False) for group in WORKERS),
        *((group, 20, True) for group in REACTORS),
    ]
    return Undisturbed(facts, digest_of(facts), targets, work)


def run_seed(seed: int, parts: Parts | None = None, trace: Callable[[str], None] | None = None) -> World:
    """The run of a seed, after all its invariants were checked. Raises Violation."""
    expected = undisturbed()
    chaos = Chaos(seed, expected.targets)
    chaos.plan_troubles(expected.work)
    world = World(chaos, parts, trace)
    world.run()
    facts = first_facts(world.broker, world.codec)
    check_end(facts)
    if digest_of(facts) != expected.digest:
        raise Violation(SAME, differences(facts, expected.facts))
    return world


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see the module."""
    from tests.simulation.plants import PLANTS

    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.run", description="Run one seed of the simulation."
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=1, help="so many seeds from this one on")
    parser.add_argument("--trace", action="store_true", help="show the schedule")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="put this bug in")
    asked = parser.parse_args(arguments)
    parts = PLANTS[asked.plant].parts if asked.plant else None
    failed = 0
    for seed in range(asked.seed, asked.seed + asked.count):
        try:
            world = run_seed(seed, parts, print if asked.trace else None)
        except Violation as violation:
            failed += 1
            print(f"seed {seed}: {violation}", file=sys.stderr)
        else:
            if asked.count == 1:
                print(f"seed {seed}: nothing lost, nothing twice, in {world.steps} steps; {dict(world.chaos.happened)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
