"""What everything takes, stated with its reason, and drawn from ids: both orders do the very same work.

The shape is the paper's: 50 steps of 8 groups of 4 rollouts, 7 tracks x 10 repeats of held-out evaluation. It gives no
durations, so these are derived from its limits and from published hardware figures. They are assumptions, swept in the benchmark.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from bat_events.domain.canonical import seed63

CALL_LIMIT_S = 120.0
CALLS = 23
TOKENS = 16_384
TOKENS_PER_S = 60.0
"""Of one sequence among some ten on one A100, 9 billion parameters in bf16: a step reads 18 GB at about 1.5 TB/s, which is
12 ms, and attention, sampling and scheduling take the rest."""
LONGEST_S = TOKENS / TOKENS_PER_S + CALLS * CALL_LIMIT_S
"""No rollout can be longer: every token spent, every call up to its limit."""


@dataclass(frozen=True, kw_only=True)
class Durations:
    """Seconds. `tail` is the deviation of log(duration): 0 has no tail, 1 a heavy one (the longest of 32 is 5 times the mean)."""

    rollout: float = 90.0
    """Mean: 4,800 tokens at 60/s and ten calls of a second. Measured durations of agents are long-tailed; see `tail`."""
    tail: float = 0.8
    judge: float = 5.0
    """Mean of one rollout's judgement by a model: 300 tokens. The paper judges with a model; its code allows 60 s."""
    judge_tail: float = 0.5
    step: float = 30.0
    """32 sequences of 6,000 tokens: 2e5 tokens x 9e9 parameters x (6 for the update, 2 for recomputing activations, 4 for the
    log-probabilities of policy and reference) = 2.1e16 operations; at 40 % of 8 x 312e12 a second that is 21 s. And the new
    weights must reach the engines."""
    synthesis: float = 0.017
    """One state in this project: measured, `make bench NAME=bank`. A model that writes its prompt takes some 20 s."""
    gate: float = 0.0004
    """One state through the leakage gate: measured, `bench NAME=leakage`."""
    evaluation: float = 420.0
    """70 cells at once on the samplers: about the longest of 70 rollouts. The same in both orders."""
    cold_start: float = 3600.0
    """Once, before what is measured."""

    def of_rollout(self, rollout: str) -> float:
        """One rollout."""
        return min(_lognormal(self.rollout, self.tail, "rollout", rollout), LONGEST_S)

    def of_group(self, rollouts: Sequence[str]) -> float:
        """A group is sampled as one batch: its slowest rollout."""
        return max(self.of_rollout(rollout) for rollout in rollouts)

    def of_judgement(self, rollout: str) -> float:
        """One rollout's judgement."""
        return min(_lognormal(self.judge, self.judge_tail, "judge", rollout), 60.0)


def _lognormal(mean: float, deviation: float, *parts: str) -> float:
    """A draw of that mean whatever the deviation, as a function of the parts only."""
    chance = (seed63(*parts) + 0.5) / (1 << 63)
    return mean * math.exp(deviation * NormalDist().inv_cdf(chance) - deviation * deviation / 2)
