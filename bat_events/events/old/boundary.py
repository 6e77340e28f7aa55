"""Earlier versions of what crosses the evaluation boundary."""

from typing import ClassVar

from bat_events.events.base import Event, OldEvent
from bat_events.events.boundary import ComparatorReport, EvaluationReported, StageReport, TrackReport
from bat_events.events.types import Digest, NonNegative, Seq, Unit


class EvaluationReportedV1(OldEvent):
    """The aggregates of one evaluation, rounded to 1e-4. Overall, Task and Agentic are means of the track means."""

    SUCCESSOR: ClassVar[type[Event]] = EvaluationReported
    VERSION: ClassVar[int] = 1
    round: NonNegative
    checkpoint: Digest
    cells: NonNegative
    missing: NonNegative
    overall: Unit
    task: Unit
    agentic: Unit
    tracks: Seq[TrackReport]
    stages: Seq[StageReport]
    comparators: Seq[ComparatorReport]

    def upcast(self) -> EvaluationReported:
        """Version 2 without failures: which ones fired was not recorded."""
        return EvaluationReported(**dict(self), failures=None)
