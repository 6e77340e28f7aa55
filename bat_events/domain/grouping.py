"""Groups of rollouts: their ids, their seeds and their advantages.

Same cause, same event: every id here is a function of what caused the thing, so that work done again gets the id it
had before. Forks share the names of their root's places (domain.lineage). An advantage compares a rollout with the others of
its own group and with nothing else.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

from bat_events.domain.canonical import identifier, seed63
from bat_events.domain.lineage import root
from bat_events.domain.vocabulary import Focus, Outcome, Track

TIE = 1e-12  # rewards closer than this are equal: means of the same items in another order differ by rounding only

_KEPT = 1 << 12  # ids of a round: a decider, its premises and replay ask for the same ones one after another


@lru_cache(_KEPT)
def state_id(campaign: str, focus: Focus, track: Track, outcome: Outcome, ordinal: int) -> str:
    """Id of the `ordinal`-th practice state (from 0) of one cell of the source grid, 32 hex digits."""
    return identifier("state", root(campaign), focus, track, outcome, ordinal)


@lru_cache(_KEPT)
def group_id(campaign: str, round: int, step: int, slot: int, attempt: int = 0) -> str:
    """Id of the group in one slot, 32 hex digits; `attempt` counts replacements of a group that could not be trained."""
    return identifier("group", root(campaign), round, step, slot, attempt)


@lru_cache(_KEPT)
def rollout_id(group: str, index: int) -> str:
    """Id of the `index`-th rollout (from 0) of a group, 32 hex digits."""
    return identifier("rollout", group, index)


def state_seed(campaign_seed: int, state: str) -> int:
    """Seed of 63 bits that a practice state's instance is built from."""
    return seed63("state", campaign_seed, state)


def group_seed(campaign_seed: int, group: str) -> int:
    """Sampling seed of 63 bits of a group that is sampled as one batch."""
    return seed63("group", campaign_seed, group)


def rollout_seed(campaign_seed: int, group: str, index: int) -> int:
    """Sampling seed of 63 bits of one rollout, where rollouts are sampled one by one."""
    return seed63("rollout", campaign_seed, group, index)


def group_advantages(rewards: Sequence[float | None]) -> list[float | None]:
    """reward - mean of the group's rewards, without division by their deviation (docs/rules.md).

    A missing reward (None) has no advantage and does not move the mean. Fewer than two rewards compare with nothing:
    all advantages are then None and the group is not trainable. Raises ValueError on a reward that is not finite.
    """
    present = _present(rewards)
    if len(present) < 2:
        return [None] * len(rewards)
    mean = math.fsum(present) / len(present)
    return [None if reward is None else reward - mean for reward in rewards]


def trainable(rewards: Sequence[float | None]) -> bool:
    """Whether at least two rewards are present."""
    return len(_present(rewards)) >= 2


def zero_variance(rewards: Sequence[float | None]) -> bool:
    """Whether the group teaches nothing: all its present rewards are equal (within 1e-12), or fewer than two are."""
    present = _present(rewards)
    return len(present) < 2 or max(present) - min(present) <= TIE


def _present(rewards: Sequence[float | None]) -> list[float]:
    present = [reward for reward in rewards if reward is not None]
    for reward in present:
        if not math.isfinite(reward):
            raise ValueError(f"a group's reward is {reward}: a reward is finite, or None where it is missing")
    return present
