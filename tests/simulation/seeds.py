"""What every file of seeds does: run its share, and say which commit points and disturbances it met. Test-only."""

from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from bat_events.replay import render, replay_campaign
from tests.replay.memory import MemorySource
from tests.simulation.chaos import KINDS
from tests.simulation.invariants import Violation
from tests.simulation.run import COMMAND, run_seed, undisturbed

SHARE = 520
"""Seeds in each file; there are four, so that two processes share them."""
CHUNK = 40
LEAST_HITS = 3
"""How often a service died at each of its commit points in each file, at least."""
LEAST_HAPPENED = 5
REPLAYED = 65  # of so many seeds one is also replayed: every decision again from the log alone


@dataclass
class Shard:
    """One file's seeds, `number` from 0; what they met adds up."""

    number: int
    hit: Counter[tuple[str, str]] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    run: int = 0

    @property
    def chunks(self) -> list[int]:
        """The first seeds of its parts."""
        first = self.number * SHARE
        return list(range(first, first + SHARE, CHUNK))

    def run_chunk(self, first: int) -> None:
        """Run a part; fails with the command for each seed that fails."""
        failed = []
        for seed in range(first, first + CHUNK):
            try:
                self._run(seed)
            except Violation as violation:
                failed.append(f"{violation}\n  again: {COMMAND.format(seed=seed)}")
        if failed:
            pytest.fail("\n".join(failed), pytrace=False)

    def _run(self, seed: int) -> None:
        world = run_seed(seed)
        self.run += 1
        self.hit.update(world.chaos.hit)
        self.happened.update(world.chaos.happened)
        if seed % REPLAYED == 0:
            records = [record for where in sorted(world.broker.records) for record in world.broker.records[where]]
            result = replay_campaign(MemorySource(records))
            again = replace(result, log_only=True).exit_code  # what the log alone gives: sampling cannot be done again
            assert again == 0, f"{render(result)}\n  again: {COMMAND.format(seed=seed)}"

    def check_coverage(self) -> None:
        """Every service died at each of its commit points, and every kind of disturbance happened."""
        if self.run < SHARE:
            pytest.skip("only some of the seeds were run")
        seldom = {
            f"{group} {point}": self.hit[(group, point)]
            for group, point, _ in undisturbed().targets
            if self.hit[(group, point)] < LEAST_HITS
        }
        assert not seldom, f"services died too seldom at these points: {seldom}"
        rare = {kind: self.happened[kind] for kind in KINDS if self.happened[kind] < LEAST_HAPPENED}
        assert not rare, f"these happened too seldom: {rare}"
