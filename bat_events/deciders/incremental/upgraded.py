"""A planner that goes over to another version at a boundary of rounds.

The teacher's topic has one partition: a LogicAdopted holds for every round that is prescribed after it there, and every fold
sees the two in that order. So each round has one version, whatever else was folded first. That version decides everything of its
round; the others are told of the plan, so that they draw nothing twice. What belongs to no round is decided by the version
that the campaign began with. A decision about a round waits until its prescription is folded; where it was made it always was.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from bat_events.deciders.incremental.planner import PlannerFollower
from bat_events.deciders.interface import Draft
from bat_events.events.campaign import LogicUpgraded
from bat_events.events.fact import Fact
from bat_events.events.promotion import LogicAdopted, TargetStagePrescribed
from bat_events.events.rounds import RoundPlanned

Make = Callable[[int], PlannerFollower]
"""A planner's follower by version. Raises ConfigurationError for one that is not here."""

NAME = "planner"


class UpgradedPlanner:
    """Follows a campaign's planner through its versions; see the module."""

    def __init__(self, base: int, make: Make) -> None:
        self._base, self._make = base, make
        self._planners = {base: make(base)}
        self._current = base
        self._of_round: dict[int, int] = {0: base}
        self._held: list[tuple[int, Draft]] = []  # of rounds whose prescription is not folded yet

    @property
    def version(self) -> int:
        """The one that the campaign began with."""
        return self._base

    def apply(self, fact: Fact) -> None:
        """See Follower.apply. Raises ConfigurationError for an upgrade to a version that is not here."""
        event = fact.event
        if type(event) is LogicUpgraded or type(event) is LogicAdopted or type(event) is TargetStagePrescribed:
            self._fold_version(event)
        for planner in self._planners.values():
            planner.apply(fact)

    def _fold_version(self, event: LogicUpgraded | LogicAdopted | TargetStagePrescribed) -> None:
        if isinstance(event, TargetStagePrescribed):
            of_round = self._of_round.setdefault(event.round, self._current)
            for version, planner in self._planners.items():
                if version != of_round:
                    planner.leave(event.round)
        elif event.decider == NAME:
            if event.version not in self._planners:
                planner = self._make(event.version)  # refused when it is asked for, not in the middle of a round
                if isinstance(event, LogicAdopted):
                    planner.take_over(self._planners[self._current], held={draft.id for _, draft in self._held})
                    self._planners[event.version] = planner
            if isinstance(event, LogicAdopted):
                self._current = event.version

    def fresh(self) -> Sequence[Draft]:
        """See Follower.fresh."""
        found: list[Draft] = []
        waiting, self._held = self._held, []
        for version, planner in self._planners.items():
            for draft in [d for of, d in waiting if of == version] + list(planner.fresh()):
                number = draft.round
                if number is not None and number not in self._of_round:
                    self._held.append((version, draft))
                elif version == (self._base if number is None else self._of_round[number]):
                    found.append(draft if version == self._base else replace(draft, version=version))
                    if isinstance(draft.event, RoundPlanned):
                        self._tell(draft.event, version)
        return found

    def _tell(self, planned: RoundPlanned, version: int) -> None:
        for other, planner in self._planners.items():
            if other != version:
                planner.adopt(planned)
