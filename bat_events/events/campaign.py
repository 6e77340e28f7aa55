"""What the campaign producer puts on the log."""

from typing import ClassVar

from pydantic import Field

from bat_events.events.base import Event
from bat_events.events.plan import CampaignPlan
from bat_events.events.types import Digest, Id, NonNegative, Positive, Record, Seq


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


class SettingChanged(Record):
    """A setting of the campaign file that holds from a fork's cut on; `rubric` is the version that rewards are made by."""

    name: str = Field(description="as in the campaign file, such as gate.mode")
    before: str = Field(description="JSON")
    after: str = Field(description="JSON")


class CopiedRecords(Record):
    """The copies of one partition: the first `count` records of the origin's, in its order."""

    topic: str
    partition: NonNegative
    count: Positive
    digest: Digest | None = Field(
        description="SHA-256 over the SHA-256 of each record as the origin has it (domain.sealing); null on the held-out plane, "
        "where it would confirm what somebody guesses"
    )


class StoodBeside(Record):
    """Where a record of another campaign stood on the origin's log, as far as copied decisions depend on it; no content."""

    topic: str
    partition: NonNegative
    offset: NonNegative
    id: str = Field(description="its ce_id")
    time: str = Field(description="its ce_time")


class CampaignForked(Event):
    """A new campaign holds another one's events up to a cut, and goes on from there under other settings.

    Written in the transaction of the last copies: where it is not there, the copy is not whole and nothing is decided.
    """

    TOPIC: ClassVar[str] = "campaign"
    origin: str = Field(description="the campaign whose log was copied")
    round: NonNegative = Field(description="its report is the last that was copied; the gate decides on it anew")
    settings: Seq[SettingChanged] = Field(description="what differs from the origin from here on")
    copied: Seq[CopiedRecords]
    reopened: Seq[Id] = Field(description="copied requests of states that nobody had finished: the fork asks again")
    beside: Seq[StoodBeside]
    package_version: str
