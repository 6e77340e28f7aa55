"""Which rollouts have no reward and why, and whether that breaks a round off.

The breaker looks at a step's first groups, those that nothing replaced yet, when all of their rollouts are settled. So
what it says of a step depends on no order of arrival and never changes: a share of whatever has arrived so far would do both.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bat_events.domain.grouping import group_id
from bat_events.events.fact import Fact
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutFailed
from bat_events.events.rounds import MissingReason, PlannedStep

Missing = tuple[str, str]
"""Kind and reason of a missing reward."""


def missing_of(event: RewardScored | RolloutFailed | RewardWithheld) -> Missing | None:
    """Why a rollout that ended has no reward; None where it has one."""
    if type(event) is RewardScored:
        return None
    if type(event) is RolloutFailed:
        return ("rollout_failed", event.reason)
    assert type(event) is RewardWithheld
    return ("reward_withheld", event.reason)


def reasons_of(outcomes: Iterable[Missing | None]) -> tuple[MissingReason, ...]:
    """How many rewards are missing for which reason, in order of kind and reason."""
    counts = Counter(missing for missing in outcomes if missing is not None)
    return tuple(MissingReason(kind=k, reason=r, count=count) for (k, r), count in sorted(counts.items()))


@dataclass(frozen=True, kw_only=True)
class Wave:
    """A step's first groups, settled: how many rollouts they have, and why how many of them have no reward."""

    rollouts: int
    reasons: tuple[MissingReason, ...]

    @property
    def missing(self) -> int:
        """Rollouts without a reward."""
        return sum(reason.count for reason in self.reasons)

    def breaks(self, max_missing: float) -> bool:
        """Whether more are missing than are allowed."""
        return self.missing > max_missing * self.rollouts


class Breaker:
    """Folds what became of rollouts; the first outcome of a rollout stands."""

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign
        self._outcomes: dict[str, dict[int, Missing | None]] = {}
        self._waves: dict[tuple[int, int], Wave] = {}  # of settled steps: they do not change, so this is no state

    def apply(self, fact: Fact) -> None:
        """Fold one fact."""
        event = fact.event
        if isinstance(event, RewardScored | RolloutFailed | RewardWithheld):
            self._outcomes.setdefault(event.group, {}).setdefault(event.index, missing_of(event))

    def wave(self, number: int, step: PlannedStep, size: int) -> Wave | None:
        """A step's first groups; None while one of their rollouts is not settled."""
        place = (number, step.step)
        if place not in self._waves:
            groups = [group_id(self._campaign, number, step.step, slot.slot) for slot in step.slots]
            if any(len(self._outcomes.get(group, ())) < size for group in groups):
                return None
            self._waves[place] = Wave(rollouts=size * len(groups), reasons=self.reasons(groups))
        return self._waves[place]

    def reasons(self, groups: Iterable[str]) -> tuple[MissingReason, ...]:
        """Why rollouts of these groups have no reward, in order of kind and reason."""
        return reasons_of(missing for group in groups for missing in self._outcomes.get(group, {}).values())

    def state(self) -> Any:
        """Comparable data."""
        return sorted((group, sorted(found.items())) for group, found in self._outcomes.items())
