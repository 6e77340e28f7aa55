"""What the gate and the teacher decide."""

from typing import ClassVar

from pydantic import Field

from bat_events.domain.vocabulary import Stage
from bat_events.events.base import Event
from bat_events.events.plan import GateMode, TargetRule
from bat_events.events.types import Choice, Digest, NonNegative, Positive, Record, Seq, Unit


class GateCheck(Record):
    """One condition of the gate; value and threshold are None where a condition has no number."""

    name: str
    passed: bool
    value: float | None
    threshold: float | None


class CheckpointPromoted(Event):
    """The candidate is the next round's start. The baseline (round 0) is promoted by rule."""

    TOPIC: ClassVar[str] = "promotion"
    round: NonNegative
    checkpoint: Digest
    mode: Choice[GateMode]
    baseline: bool
    overall: Unit
    best_so_far: Digest
    best_overall: Unit
    checks: Seq[GateCheck]
    reasons: Seq[str]


class CheckpointHeld(Event):
    """The candidate is not taken: the round falls back to the checkpoint that it started from."""

    TOPIC: ClassVar[str] = "promotion"
    round: Positive
    checkpoint: Digest
    fallback: Digest
    mode: Choice[GateMode]
    overall: Unit
    best_so_far: Digest
    best_overall: Unit
    checks: Seq[GateCheck]
    reasons: Seq[str]


class LogicAdopted(Event):
    """Rounds prescribed from here on are decided by this version; those before stay with the one that they began with."""

    TOPIC: ClassVar[str] = "curriculum"
    decider: str
    version: Positive


class StageReading(Record):
    """What the teacher read of one stage; None where no cell reached it."""

    stage: Choice[Stage]
    value: Unit | None


class TargetStagePrescribed(Event):
    """The curriculum's single variable for the next round."""

    TOPIC: ClassVar[str] = "curriculum"
    round: Positive
    target_stage: Choice[Stage]
    corrective: bool = Field(description="the largest regression of a held candidate, not the weakest stage")
    rule: Choice[TargetRule]
    start_checkpoint: Digest
    readings: Seq[StageReading]
    reason: str
