"""The planner with a breaker, followed: beside what is open it counts each step's first groups down until they are settled."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from bat_events.deciders.breaker import Missing, Wave, reasons_of
from bat_events.deciders.incremental.planned import Open, Outcomes, Place, Requested
from bat_events.deciders.incremental.planner import PlannerFollower
from bat_events.deciders.interface import Draft
from bat_events.deciders.planner import Planner, group_abandoned, round_broken
from bat_events.domain.grouping import group_id
from bat_events.events.plan import CampaignPlan
from bat_events.events.rounds import RoundPlanned

Step = tuple[int, int]
"""Round and step."""


@dataclass(slots=True)
class _Open:
    """A step whose first groups are not all settled; `stalled` are those that wait for that to be replaced."""

    plan_id: str
    groups: int
    rollouts: int
    missing: Counter[Missing] = field(default_factory=Counter)
    stalled: list[Requested] = field(default_factory=list)


class BreakingFollower(PlannerFollower):
    """Of version 3; see the module."""

    version: ClassVar[int] = Planner.version

    def __init__(self, campaign: str) -> None:
        super().__init__(campaign)
        self._first: dict[str, Step] = {}  # groups that nothing replaced, until they are settled
        self._waves: dict[Step, _Open] = {}
        self._broke: set[Step] = set()
        self._breaks: list[Draft] = []
        self._again: list[Requested] = []  # to be replaced now that the breaker held in their step

    def _begin(self, planned: RoundPlanned, plan: CampaignPlan) -> None:
        if plan.breaker is None:
            return
        plan_id = self._open[planned.round].plan_id
        for step in planned.steps:
            at = (planned.round, step.step)
            groups = [group_id(self._campaign, *at, slot.slot) for slot in step.slots]
            self._waves[at] = _Open(plan_id, len(groups), plan.group_size * len(groups))
            self._first.update(dict.fromkeys(groups, at))
            for group in groups:
                early = self._early.get(group)
                if early is not None:
                    self._count(group, early, plan.breaker.max_missing)

    def _close(self, group: str) -> None:
        plan = self._controls.plan
        if plan is not None and plan.breaker is not None:
            self._count(group, self._outcomes[group], plan.breaker.max_missing)
        super()._close(group)

    def _count(self, group: str, outcomes: Outcomes, max_missing: float) -> None:
        """A group is settled; if it was the last first one of its step, the breaker holds there or breaks."""
        at = self._first.pop(group, None)
        if at is None:
            return
        wave = self._waves[at]
        wave.groups -= 1
        wave.missing.update(missing for missing in outcomes.values() if missing is not None)
        if wave.groups:
            return
        del self._waves[at]
        settled = Wave(rollouts=wave.rollouts, reasons=reasons_of(wave.missing.elements()))
        if not settled.breaks(max_missing):
            self._again += wave.stalled
            return
        self._broke.add(at)
        number, step = at
        event = round_broken(number, step, settled, max_missing)
        self._breaks.append(self._draft(event, wave.plan_id, step, number))

    def _goes_on(self, round_: Open, trained: int, plan: CampaignPlan) -> bool:
        if plan.breaker is None:
            return True
        number, steps = round_.event.round, round_.event.steps
        while round_.held <= trained and self._kept((number, steps[round_.held].step)):
            round_.held += 1
        return round_.held > trained

    def _kept(self, at: Step) -> bool:
        """Whether the breaker held in a step of a planned round."""
        return at not in self._waves and at not in self._broke

    def _replace(self, asked: Requested, outcomes: Outcomes, plan: CampaignPlan) -> Iterator[tuple[Place, Draft]]:
        number, step, slot, attempt = asked.place
        group = group_id(self._campaign, number, step, slot, attempt)
        reasons = reasons_of(outcomes.values())
        event = group_abandoned(group, asked.place, plan.group_size, reasons)
        yield asked.place, self._draft(event, asked.id, 0, number, key=group)
        if (number, step) in self._waves:
            self._waves[(number, step)].stalled.append(asked)
        elif (number, step) not in self._broke:
            yield from self._next_try(asked, plan)

    def _replacements(self, plan: CampaignPlan) -> Iterator[tuple[Place, Draft]]:
        again, self._again = self._again, []
        for asked in again:
            yield from self._next_try(asked, plan)
        yield from super()._replacements(plan)

    def _last(self) -> Sequence[Draft]:
        breaks, self._breaks = self._breaks, []
        return breaks
