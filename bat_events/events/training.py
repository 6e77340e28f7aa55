"""What the trainer records."""

from typing import ClassVar

from pydantic import Field

from bat_events.domain.vocabulary import Focus, Pool
from bat_events.events.base import Event
from bat_events.events.types import Choice, Digest, Id, NonNegative, Positive, Record, Seq, Unit


class ColdStartCompleted(Event):
    """Cold-start SFT is done. Losses are mean nats per supervised token."""

    TOPIC: ClassVar[str] = "training"
    checkpoint: Digest
    corpus: Digest
    demonstrations: NonNegative
    steps: NonNegative
    rows_train: NonNegative
    rows_validation: NonNegative
    train_loss: float
    validation_loss: float
    valid_action_rate: Unit
    trainer: str


class TrainedRollout(Record):
    """One rollout's part in an update; the advantage is its reward minus its group's mean."""

    rollout: Id
    reward: Unit
    advantage: float


class TrainedGroup(Record):
    """One group's part in an update."""

    group: Id
    slot: NonNegative
    pool: Choice[Pool]
    rollouts: Seq[TrainedRollout]


class PoolTokens(Record):
    """Sampled tokens and mean reward of one pool in one step."""

    pool: Choice[Pool]
    tokens: NonNegative
    reward: Unit


class FocusActions(Record):
    """How many turns of one focus's rollouts in a step were valid actions."""

    focus: Choice[Focus]
    valid: NonNegative
    turns: NonNegative


class TrainingStepCompleted(Event):
    """One GRPO update on one whole step. Entropy and KL are mean nats per sampled token."""

    TOPIC: ClassVar[str] = "training"
    round: Positive
    step: NonNegative
    attempt: NonNegative
    weights: Digest = Field(description="the weights after the update")
    groups: Seq[TrainedGroup]
    reward: Unit
    zero_variance: Unit = Field(description="share of groups whose rewards are all equal")
    loss: float
    grad_norm: float
    entropy: float
    kl: float
    clip_ratio: float
    logprob_gap: float
    pools: Seq[PoolTokens]
    actions: Seq[FocusActions] = Field(description="what the health rule reads: valid turns of all turns, per focus")
    healthy: bool
    health: Seq[str] = Field(description="why it is not healthy; empty when it is")


class CheckpointProduced(Event):
    """A candidate to be evaluated: the cold start (round 0) or a round's last healthy weights."""

    TOPIC: ClassVar[str] = "training"
    round: NonNegative
    checkpoint: Digest
    parent: Digest | None
    steps: NonNegative = Field(description="updates that the candidate carries")
    healthy: bool
    health: Seq[str]


class TrainingFailed(Event):
    """Training cannot go on; the reason says what was last healthy."""

    TOPIC: ClassVar[str] = "training"
    round: NonNegative
    step: NonNegative
    reason: str


class TrainingRewound(Event):
    """After a crash, steps from `step` on were done again and came out differently; they carry `attempt`."""

    TOPIC: ClassVar[str] = "training"
    round: Positive
    step: NonNegative
    attempt: Positive
    reason: str
