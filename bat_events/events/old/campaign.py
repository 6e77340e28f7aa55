"""Earlier versions of what the campaign producer puts on the log."""

from typing import Annotated, ClassVar

from pydantic import Field

from bat_events.domain.vocabulary import Track
from bat_events.events import plan as newest
from bat_events.events.base import Event, OldEvent
from bat_events.events.campaign import CampaignStarted, LogicVersion
from bat_events.events.plan import (
    ColdStartPlan,
    EpisodeLimits,
    EvaluationPlan,
    GatePlan,
    GrpoPlan,
    HealthPlan,
    ModelPlan,
    PoolSizes,
    SamplingPlan,
    TargetRule,
)
from bat_events.events.types import Choice, NonNegative, Positive, Record, Seq


class CampaignPlan(Record):
    """One training run: what is practised, how much, and by which rules it is judged."""

    benchmark: str = "mini"
    tracks: Seq[Choice[Track]] = (Track.SEGMENTATION, Track.ENHANCEMENT)
    rounds: Positive = 3
    steps_per_round: Positive = Field(default=6, description="GRPO steps in a round; the paper uses 50")
    group_size: Annotated[int, Field(ge=2)] = Field(
        default=8, description="rollouts of one state (K); the paper uses 4"
    )
    lag: NonNegative = Field(default=0, description="steps that sampling may run ahead of training")
    group_attempts: Positive = Field(default=3, description="tries at a slot before the round is broken off")
    seed: NonNegative = 0
    engine: str = Field(default="transformers", description="transformers or scripted")
    trainer: str = Field(default="trl", description="trl or scripted")
    target_rule: Choice[TargetRule] = TargetRule.REACHED
    pools: PoolSizes = PoolSizes()
    gate: GatePlan = GatePlan()
    evaluation: EvaluationPlan = EvaluationPlan()
    limits: EpisodeLimits = EpisodeLimits()
    sampling: SamplingPlan = SamplingPlan()
    model: ModelPlan = ModelPlan()
    cold_start: ColdStartPlan = ColdStartPlan()
    grpo: GrpoPlan = GrpoPlan()
    health: HealthPlan = HealthPlan()


class CampaignStartedV1(OldEvent):
    """A campaign begins with these settings and these versions of the rules; nothing that follows may change them."""

    SUCCESSOR: ClassVar[type[Event]] = CampaignStarted
    VERSION: ClassVar[int] = 1
    plan: CampaignPlan
    package_version: str
    logic: Seq[LogicVersion]
    benchmark_version: Positive

    def upcast(self) -> CampaignStarted:
        """Version 2 without a breaker: there was none."""
        plan = newest.CampaignPlan(**dict(self.plan), breaker=None)
        return CampaignStarted(**{**dict(self), "plan": plan})
