"""Versions 1 and 2 of the planner: no breaker. Version 1 also remembers what it drew and waits for no retirement."""

from collections.abc import Iterator
from typing import ClassVar

from bat_events.deciders.interface import Draft
from bat_events.deciders.planner import Planner
from bat_events.events.plan import CampaignPlan
from bat_events.events.rounds import PlannedStep, RoundPlanned


class PlannerV2(Planner):
    """An untrainable group is asked for again at once, without a word about it, and no round is broken off."""

    version: ClassVar[int] = 2

    def _may_go_on(self, planned: RoundPlanned, trained: int, plan: CampaignPlan) -> bool:  # noqa: ARG002
        return True

    def _may_replace(self, number: int, step: PlannedStep, plan: CampaignPlan) -> bool:  # noqa: ARG002
        return True

    def _broken(self, planned: Draft, plan: CampaignPlan) -> Iterator[Draft]:  # noqa: ARG002
        return iter(())

    def _abandoned(self, requested: Draft, plan: CampaignPlan) -> Iterator[Draft]:  # noqa: ARG002
        return iter(())


class PlannerV1(PlannerV2):
    """See the module."""

    version: ClassVar[int] = 1

    def _may_draw(self, drawn: set[str]) -> bool:  # noqa: ARG002
        return True
