"""Earlier versions of what the judge records."""

from typing import ClassVar

from bat_events.domain.vocabulary import Focus, Pool
from bat_events.events.base import Event, OldEvent
from bat_events.events.rollouts import RewardScored, RubricItem, StageValue
from bat_events.events.types import Choice, Digest, Id, NonNegative, Seq, Unit


class RewardScoredV1(OldEvent):
    """A rollout's reward, from evidence: min(raw, cap)."""

    SUCCESSOR: ClassVar[type[Event]] = RewardScored
    VERSION: ClassVar[int] = 1
    group: Id
    rollout: Id
    index: NonNegative
    round: NonNegative
    step: NonNegative
    slot: NonNegative
    pool: Choice[Pool]
    focus: Choice[Focus]
    reward: Unit
    raw: Unit
    cap: Unit
    stages: Seq[StageValue]
    task_score: Unit | None
    items: Seq[RubricItem]
    failures: Seq[str]
    evidence: Digest
    judge: str
    rubric_version: NonNegative

    def upcast(self) -> RewardScored:
        """Version 2 without a model: only the evidence judged."""
        return RewardScored(**dict(self), model=None, texts=())
