"""What the planner decides."""

from typing import ClassVar

from pydantic import Field

from bat_events.domain.vocabulary import Focus, Outcome, Pool, Stage, Track
from bat_events.events.base import Event
from bat_events.events.types import Choice, Digest, Id, NonNegative, Positive, Record, Seq, Unit


class PlannedSlot(Record):
    """One group's place in a step and the state it practises."""

    slot: NonNegative
    pool: Choice[Pool]
    focus: Choice[Focus]
    track: Choice[Track]
    outcome: Choice[Outcome]
    state: Id
    body: Digest = Field(description="the state's artefact")


class PlannedStep(Record):
    """The groups of one GRPO update."""

    step: NonNegative
    slots: Seq[PlannedSlot]


class RoundPlanned(Event):
    """A round's states per step and slot. The bank's cut stands in the envelope."""

    TOPIC: ClassVar[str] = "round"
    round: Positive
    target_stage: Choice[Stage]
    start_checkpoint: Digest
    steps: Seq[PlannedStep]


class EvaluationRequested(Event):
    """The evaluator shall measure a checkpoint, beside the comparators, under these fixed conditions."""

    TOPIC: ClassVar[str] = "round"
    round: NonNegative
    checkpoint: Digest
    comparators: Seq[Digest] = Field(description="parent and best-so-far, without repetition; empty for the baseline")
    tracks: Seq[Choice[Track]]
    repeats: Positive
    temperature: float
    seed: NonNegative


class RoundCompleted(Event):
    """A round is over: its candidate was promoted, or held and the round fell back."""

    TOPIC: ClassVar[str] = "round"
    round: Positive
    outcome: str = Field(description="promoted or held")
    candidate: Digest
    next_checkpoint: Digest = Field(description="where the next round starts")


class CampaignFinished(Event):
    """Nothing more is to be done."""

    TOPIC: ClassVar[str] = "round"
    outcome: str = Field(description="completed, cancelled, or training_failed")
    rounds: NonNegative
    best_checkpoint: Digest | None


class MissingReason(Record):
    """Why rollouts have no reward, and how many of them."""

    kind: str = Field(description="rollout_failed or reward_withheld")
    reason: str
    count: Positive


class RoundBroken(Event):
    """Infrastructure failed too often in a step: nothing more is sampled, and the round ends with what it has."""

    TOPIC: ClassVar[str] = "round"
    round: Positive
    step: NonNegative
    rollouts: Positive = Field(description="of the step's first groups, all of them settled")
    missing: Positive = Field(description="of those, without a reward")
    max_missing: Unit = Field(description="the share that the campaign allows")
    reasons: Seq[MissingReason]


class GroupRequested(Event):
    """K rollouts of one state with pinned weights and seed."""

    TOPIC: ClassVar[str] = "group"
    group: Id
    round: Positive
    step: NonNegative
    slot: NonNegative
    attempt: NonNegative
    pool: Choice[Pool]
    focus: Choice[Focus]
    track: Choice[Track]
    state: Id
    body: Digest
    weights: Digest
    seed: NonNegative
    size: Positive


class GroupAbandoned(Event):
    """A settled group with fewer than two rewards: it compares with nothing and is not trained."""

    TOPIC: ClassVar[str] = "group"
    group: Id
    round: Positive
    step: NonNegative
    slot: NonNegative
    attempt: NonNegative
    size: Positive
    rewards: NonNegative = Field(description="how many there are, 0 or 1")
    reasons: Seq[MissingReason]
