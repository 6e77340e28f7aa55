"""The campaign file: everything a campaign pins at its start, as one typed tree.

The same model validates the YAML that `campaign start` takes and travels in CampaignStarted, so a decision can be
replayed with exactly the settings it was made with. Defaults are the laptop's; the paper's figures stand beside them.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from bat_events.domain.vocabulary import Track
from bat_events.events.types import AvroDefault, Choice, NonNegative, Positive, Record, Seq, Unit


class GateMode(StrEnum):
    """Which promotion rule decides: see docs/rules.md."""

    PAIRED = "paired"
    REFERENCE = "reference"


class TargetRule(StrEnum):
    """Which stage means the teacher reads: over the cells that reached a stage, or over all cells."""

    REACHED = "reached"
    RAW = "raw"


class PoolSizes(Record):
    """Groups of each pool in one GRPO step; the paper uses 4, 2 and 2."""

    s_target: NonNegative = 4
    s_mix: NonNegative = 2
    e2e: NonNegative = 2


class GatePlan(Record):
    """The promotion gate."""

    mode: Choice[GateMode] = GateMode.PAIRED
    max_stage_drop: Unit = Field(default=0.15, description="paired mode: the largest fall of a stage mean that passes")


class EvaluationPlan(Record):
    """One held-out evaluation: every track times `repeats` cells."""

    repeats: Positive = Field(default=10, description="cells per track; the paper uses 10")
    temperature: Annotated[float, Field(ge=0.0)] = 0.7


class EpisodeLimits(Record):
    """Limits of one rollout; the paper's are 24 turns, 16,384 response tokens and 2,048 observation characters."""

    max_turns: Positive = 8
    max_turn_tokens: Positive = Field(default=96, description="sampled tokens in one assistant turn")
    max_response_tokens: Positive = Field(default=1024, description="all tokens after the prompt")
    max_observation_chars: Positive = 240
    call_timeout_s: Annotated[float, Field(gt=0.0, le=600.0)] = 10.0
    call_memory_mib: Positive = 1024
    call_processes: Positive = 32
    call_output_bytes: Positive = 131072
    workspace_mib: Positive = 64


class SamplingPlan(Record):
    """How practice rollouts are sampled."""

    temperature: Annotated[float, Field(gt=0.0)] = 1.0


class ModelPlan(Record):
    """The small policy that cold start makes; ignored where `pretrained` names a folder of weights."""

    pretrained: str | None = Field(default=None, description="a folder that transformers can load; None: from scratch")
    layers: Positive = 2
    width: Positive = 128
    heads: Positive = 4
    vocabulary: Positive = Field(default=640, description="byte-level BPE pieces, bytes and control tokens included")
    max_positions: Positive = 2048


class ColdStartPlan(Record):
    """Cold-start SFT, run once."""

    demonstrations: Positive = 3000
    quality: Unit = Field(default=0.8, description="share of demonstrated choices that are right")
    steps: Positive = 600
    batch_size: Positive = 24
    learning_rate: Annotated[float, Field(gt=0.0)] = 3e-3
    min_valid_actions: Unit = 0.9


class GrpoPlan(Record):
    """The policy update; the paper's learning rate is 2.5e-7 at 9B, KL weight 0.006, 4 rollouts a group."""

    learning_rate: Annotated[float, Field(gt=0.0)] = 2e-4
    beta: Annotated[float, Field(ge=0.0)] = 0.006
    clip: Annotated[float, Field(gt=0.0)] = 0.2
    max_grad_norm: Annotated[float, Field(gt=0.0)] = 1.0
    checkpoint_every: Positive = Field(default=1, description="steps between recovery checkpoints")


class HealthPlan(Record):
    """When a round ends early with its last healthy weights."""

    min_valid_actions: Unit = 0.9
    min_entropy: Annotated[float, Field(ge=0.0)] = 0.05
    max_zero_variance: Unit = 0.6


class BreakerPlan(Record):
    """When a round is broken off because infrastructure keeps failing."""

    max_missing: Unit = Field(
        default=0.5, description="share of a step's first rollouts that may have no reward; more breaks the round off"
    )


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
    breaker: Annotated[BreakerPlan | None, AvroDefault(None)] = BreakerPlan()
