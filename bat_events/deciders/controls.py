"""What every decider knows of its campaign: how it began and whether it may go on."""

from dataclasses import dataclass, field

from bat_events.events.campaign import (
    CampaignCancelled,
    CampaignPaused,
    CampaignResumed,
    CampaignStarted,
    LogicUpgraded,
)
from bat_events.events.fact import Fact
from bat_events.events.plan import CampaignPlan


@dataclass
class Controls:
    """Folded from the `campaign` topic, which has one partition: its order is the log's."""

    started_id: str | None = None
    started: CampaignStarted | None = None
    paused: bool = False
    cancelled_id: str | None = None
    upgrades: list[tuple[str, LogicUpgraded]] = field(default_factory=list)
    history: list[str] = field(default_factory=list)

    def apply(self, fact: Fact) -> None:
        """Fold a campaign event; others are ignored."""
        event = fact.event
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
        else:
            return
        self.history.append(fact.id)

    @property
    def plan(self) -> CampaignPlan | None:
        """The campaign's settings, once it is known to have begun."""
        return self.started.plan if self.started else None

    @property
    def open(self) -> bool:
        """Whether new work may be asked for."""
        return self.started is not None and not self.paused and self.cancelled_id is None
