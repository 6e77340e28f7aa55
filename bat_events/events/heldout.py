"""What stays on the held-out plane: one event per evaluated cell."""

from typing import ClassVar

from bat_events.domain.vocabulary import Stage, Track
from bat_events.events.base import Event
from bat_events.events.types import Choice, Digest, NonNegative, Record, Seq, Unit


class CellStage(Record):
    """A stage's score in one cell, and whether the policy got to act in it."""

    stage: Choice[Stage]
    score: Unit
    reached: bool


class EvaluationCellScored(Event):
    """One cell (track, task, repeat) of a held-out evaluation."""

    TOPIC: ClassVar[str] = "heldout.cell"
    checkpoint: Digest
    round: NonNegative
    track: Choice[Track]
    task: str
    repeat: NonNegative
    task_score: Unit
    stages: Seq[CellStage]
    failures: Seq[str]
    turns: NonNegative
    end: str
    evidence: Digest


class EvaluationCellFailed(Event):
    """A cell that the infrastructure kept from being measured: missing, not zero."""

    TOPIC: ClassVar[str] = "heldout.cell"
    checkpoint: Digest
    round: NonNegative
    track: Choice[Track]
    task: str
    repeat: NonNegative
    reason: str
    detail: str
