"""Which rollouts of a group have ended how: shared by the planner (replacements) and the trainer (whole steps)."""

from typing import Any

from bat_events.events.fact import Fact
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutFailed


class GroupOutcomes:
    """Folds rollout failures and rewards. A rollout is settled when it failed, was scored, or its reward was withheld."""

    def __init__(self) -> None:
        self._rewards: dict[str, dict[int, float | None]] = {}

    def apply(self, fact: Fact) -> None:
        """Fold one fact; the first outcome of a rollout stands."""
        event = fact.event
        if type(event) is RewardScored:
            self._rewards.setdefault(event.group, {}).setdefault(event.index, event.reward)
        elif type(event) is RolloutFailed or type(event) is RewardWithheld:
            self._rewards.setdefault(event.group, {}).setdefault(event.index, None)

    def rewards(self, group: str, size: int) -> list[float | None] | None:
        """The group's rewards by index, None where missing; None as a whole while a rollout is not settled."""
        found = self._rewards.get(group, {})
        if len(found) < size:
            return None
        return [found[index] for index in range(size)]

    def untrainable(self, group: str, size: int) -> bool:
        """Whether the group is settled with fewer than two rewards."""
        rewards = self.rewards(group, size)
        return rewards is not None and sum(reward is not None for reward in rewards) < 2

    def forget(self, group: str) -> None:
        """Let go of a group that nothing will be asked about."""
        self._rewards.pop(group, None)

    def state(self) -> Any:
        """Comparable data."""
        return sorted(
            (group, sorted(found.items(), key=lambda item: item[0])) for group, found in self._rewards.items()
        )
