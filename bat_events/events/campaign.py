"""What the campaign producer puts on the log."""

from typing import ClassVar

from pydantic import Field

from bat_events.events.base import Event
from bat_events.events.plan import CampaignPlan
from bat_events.events.types import Positive, Record, Seq


class LogicVersion(Record):
    """The version of one decider or worker that a campaign pins."""

    name: str
    version: Positive


class CampaignStarted(Event):
    """A campaign begins with these settings and these versions of the rules; nothing that follows may change them."""

    TOPIC: ClassVar[str] = "campaign"
    VERSION: ClassVar[int] = 2
    plan: CampaignPlan
    package_version: str
    logic: Seq[LogicVersion]
    benchmark_version: Positive


class CampaignPaused(Event):
    """No new work is asked for until CampaignResumed; work in flight ends."""

    TOPIC: ClassVar[str] = "campaign"
    reason: str


class CampaignResumed(Event):
    """A paused campaign goes on."""

    TOPIC: ClassVar[str] = "campaign"
    reason: str


class LogicUpgraded(Event):
    """A decider shall go over to another version at the next boundary of rounds; the teacher says which (LogicAdopted)."""

    TOPIC: ClassVar[str] = "campaign"
    decider: str
    version: Positive
    reason: str


class CampaignCancelled(Event):
    """No new work is asked for, for good."""

    TOPIC: ClassVar[str] = "campaign"
    reason: str = Field(description="who or what cancelled it, in words")
