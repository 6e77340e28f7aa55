"""What every decider knows of its campaign: how it began and whether it may go on."""

from dataclasses import dataclass, field

from bat_events.deciders.in_force import plan_for, plan_in_force
from bat_events.events.campaign import (
    CampaignCancelled,
    CampaignForked,
    CampaignPaused,
    CampaignResumed,
    CampaignStarted,
    LogicUpgraded,
)
from bat_events.events.fact import Fact
from bat_events.events.plan import CampaignPlan

_FOLDED = frozenset(
    {CampaignStarted, CampaignPaused, CampaignResumed, CampaignCancelled, LogicUpgraded, CampaignForked}
)


@dataclass
class Controls:
    """Folded from the `campaign` topic, which has one partition: its order is the log's."""

    started_id: str | None = None
    started: CampaignStarted | None = None
    paused: bool = False
    cancelled_id: str | None = None
    upgrades: list[tuple[str, LogicUpgraded]] = field(default_factory=list)
    forks: list[CampaignForked] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    _in_force: tuple[int, CampaignPlan] | None = field(default=None, compare=False)

    def apply(self, fact: Fact) -> None:
        """Fold a campaign event; others are ignored."""
        event = fact.event
        if type(event) not in _FOLDED:  # nearly all are others: asked first, for they pass here by the hundred thousand
            return
        if isinstance(event, CampaignStarted):
            if self.started is None:
                self.started, self.started_id = event, fact.id
        elif isinstance(event, CampaignPaused):
            self.paused = True
        elif isinstance(event, CampaignResumed):
            self.paused = False
        elif isinstance(event, CampaignCancelled):
            self.cancelled_id = self.cancelled_id or fact.id
        elif isinstance(event, LogicUpgraded):
            if fact.id not in self.history:
                self.upgrades.append((fact.id, event))
        elif isinstance(event, CampaignForked) and fact.id not in self.history:
            self.forks.append(event)
        self.history.append(fact.id)

    @property
    def plan(self) -> CampaignPlan | None:
        """The settings of all that is still to come, once the campaign is known to have begun."""
        if self.started is None or not self.forks:
            return self.started.plan if self.started else None
        if self._in_force is None or self._in_force[0] != len(self.forks):
            self._in_force = (len(self.forks), plan_in_force(self.started, self.forks))
        return self._in_force[1]

    def plan_for(self, number: int) -> CampaignPlan:
        """The settings under which a round's report is decided on; the campaign has begun."""
        assert self.started is not None
        return plan_for(self.started, self.forks, number) if self.forks else self.started.plan

    @property
    def open(self) -> bool:
        """Whether new work may be asked for."""
        return self.started is not None and not self.paused and self.cancelled_id is None
