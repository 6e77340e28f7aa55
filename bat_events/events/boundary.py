"""What crosses the evaluation boundary: numbers, closed enums and fixed-length ids that stand on an open topic."""

from typing import Annotated, ClassVar

from pydantic import Field

from bat_events.domain.vocabulary import FailureCode, Stage, Track
from bat_events.events.base import Event
from bat_events.events.types import AvroDefault, Choice, Digest, NonNegative, Positive, Record, Seq, Unit


class Effect(Record):
    """A paired difference (checkpoint minus comparator) with its one-sided 80 % bounds; None where n is below 2."""

    mean: float
    deviation: float | None
    n: NonNegative
    lower80: float | None
    upper80: float | None


class TrackEffect(Record):
    """The paired difference of one track's Overall."""

    track: Choice[Track]
    effect: Effect


class StageEffect(Record):
    """The paired difference of one stage's mean over all cells."""

    stage: Choice[Stage]
    effect: Effect


class ComparatorReport(Record):
    """The checkpoint beside one comparator, cell by cell."""

    comparator: Digest
    complete: bool = Field(description="both were measured on exactly the same cells")
    overall: Effect
    task: Effect
    tracks: Seq[TrackEffect]
    stages: Seq[StageEffect]


class TrackReport(Record):
    """One track's means over its cells."""

    track: Choice[Track]
    overall: Unit
    task: Unit
    agentic: Unit
    cells: NonNegative


class StageReport(Record):
    """One stage's mean over all cells (unreached counts 0) and over the cells that reached it (None where none did)."""

    stage: Choice[Stage]
    mean: Unit
    cells: NonNegative = Field(description="cells to which the stage applies")
    reached_mean: Unit | None
    reached_cells: NonNegative


class FailureCount(Record):
    """In how many cells one closed kind of failure fired in one stage; a kind that fired in none is left out."""

    stage: Choice[Stage]
    code: Choice[FailureCode]
    cells: Positive


class EvaluationReported(Event):
    """The aggregates of one evaluation, rounded to 1e-4. Overall, Task and Agentic are means of the track means."""

    TOPIC: ClassVar[str] = "boundary.report"
    VERSION: ClassVar[int] = 2
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
    failures: Annotated[Seq[FailureCount] | None, AvroDefault(None)] = Field(
        description="in order of stage and code; null where failures were not recorded (version 1)"
    )


class HeldoutFingerprintsPublished(Event):
    """Keyed hashes of held-out texts, for the leakage gate and the auditor; never text."""

    TOPIC: ClassVar[str] = "boundary.fingerprint"
    rule_version: NonNegative
    fingerprints: Seq[Digest]
