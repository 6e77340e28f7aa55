"""Aggregates of one held-out evaluation, and the paired comparison of two.

Overall, Task and Agentic are means of the track means, so a track with more cells weighs no more than another
(docs/rules.md). A cell that could not be scored is not in the list: it is missing, never zero.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bat_events.domain.stages import agentic_score, overall_score, unit_interval
from bat_events.domain.statistics import PairedDifference, one_sample, stratified
from bat_events.domain.vocabulary import FailureCode, Stage, Track

CellKey = tuple[Track, str, int]  # track, task, repeat
Failure = tuple[Stage, FailureCode]
ALL_STAGES = frozenset(Stage)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One scored cell of the evaluation matrix.

    `stages` has a score in [0, 1] for exactly the `applicable` stages; one that was not `reached` scores 0. `failures`
    are the grader's, as stage:code, each of an applicable stage. Raises ValueError where that does not hold.
    """

    track: Track
    task: str
    repeat: int
    task_score: float
    stages: Mapping[Stage, float]
    reached: frozenset[Stage]
    applicable: frozenset[Stage] = ALL_STAGES
    failures: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        where = f"cell {name_of(self.key)}"
        unit_interval(self.task_score, f"the task in {where}")
        if not self.applicable or set(self.stages) != self.applicable:
            raise ValueError(
                f"{where} scores stages {_names(self.stages)} but {_names(self.applicable)} apply: "
                "a cell without all its stages is missing; leave it out"
            )
        for stage, score in self.stages.items():
            unit_interval(score, f"stage {stage} in {where}")
            if stage not in self.reached and score != 0.0:
                raise ValueError(f"{where} scores {score} in stage {stage}, which was not reached: that must be 0")
        for stage, code in self.failed:
            if stage not in self.applicable:
                raise ValueError(f"{where} has failure {stage}:{code}, but only {_names(self.applicable)} apply")

    @property
    def failed(self) -> frozenset[Failure]:
        """What fired in this cell, each once."""
        return frozenset(parse_failure(text, f"cell {name_of(self.key)}") for text in self.failures)

    @property
    def key(self) -> CellKey:
        """What is unique in an evaluation, and equal in two that can be paired."""
        return (self.track, self.task, self.repeat)

    @property
    def agentic(self) -> float:
        """Weighted mean of the stage scores."""
        return _certain(agentic_score(self.stages, self.applicable))

    @property
    def overall(self) -> float:
        """Half task, half Agentic."""
        return _certain(overall_score(self.task_score, self.agentic))


@dataclass(frozen=True, kw_only=True)
class TrackMeans:
    """Unweighted means over the `n` cells of one track."""

    n: int
    overall: float
    task: float
    agentic: float


@dataclass(frozen=True, kw_only=True)
class StageMeans:
    """Two readings of one stage.

    `raw` is the mean of the track means with unreached = 0, over the `n` cells to which the stage applies. `reached` is
    the plain mean over the `reached_n` cells that reached it, None where none did.
    """

    n: int
    raw: float
    reached_n: int
    reached: float | None


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The aggregates of one evaluation; stages that apply to no cell are absent.

    `failures` counts the cells in which each stage's code fired, in order of stage and code; what fired in none is absent.
    """

    n: int
    overall: float
    task: float
    agentic: float
    tracks: Mapping[Track, TrackMeans]
    stages: Mapping[Stage, StageMeans]
    failures: Mapping[Failure, int]


@dataclass(frozen=True, kw_only=True)
class MatrixCheck:
    """How the scored cells differ from the matrix that was asked for."""

    missing: tuple[CellKey, ...]
    unexpected: tuple[CellKey, ...]

    @property
    def complete(self) -> bool:
        """Whether exactly the expected cells are there."""
        return not self.missing and not self.unexpected


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Candidate minus comparator, cell by cell, over the `n` cells that both have.

    `complete` says whether both have the same cells. Overall, Task and the (raw) stages are means of track means;
    `tracks` holds each track's Overall.
    """

    complete: bool
    n: int
    overall: PairedDifference
    task: PairedDifference
    tracks: Mapping[Track, PairedDifference]
    stages: Mapping[Stage, PairedDifference]


def summarise(cells: Sequence[Cell]) -> Summary:
    """The aggregates of one evaluation. Raises ValueError without cells and on a cell that occurs twice."""
    by_track = _by_track(tuple(_unique(cells).values()))
    if not by_track:
        raise ValueError("an evaluation without a scored cell has no aggregates: record it as failed")
    tracks = {
        track: TrackMeans(
            n=len(group),
            overall=_mean([cell.overall for cell in group]),
            task=_mean([cell.task_score for cell in group]),
            agentic=_mean([cell.agentic for cell in group]),
        )
        for track, group in by_track.items()
    }
    return Summary(
        n=len(cells),
        overall=_mean([means.overall for means in tracks.values()]),
        task=_mean([means.task for means in tracks.values()]),
        agentic=_mean([means.agentic for means in tracks.values()]),
        tracks=tracks,
        stages={stage: means for stage in Stage if (means := _stage_means(stage, by_track)) is not None},
        failures=dict(sorted(Counter(failure for cell in cells for failure in cell.failed).items())),
    )


def parse_failure(text: str, where: str = "a cell") -> Failure:
    """The parts of a failure such as S3:E4. Raises ValueError naming what is allowed."""
    stage, _, code = text.partition(":")
    try:
        return Stage(stage), FailureCode(code)
    except ValueError:
        raise ValueError(
            f"{where} has failure {text!r}: write STAGE:CODE, a stage of {_names(Stage)} and a code of {_names(FailureCode)}"
        ) from None


def check_matrix(cells: Sequence[Cell], expected: Collection[CellKey]) -> MatrixCheck:
    """Which expected cells are missing and which cells nobody asked for. Raises ValueError on a cell that occurs twice."""
    found = _unique(cells)
    wanted = set(expected)
    return MatrixCheck(missing=tuple(sorted(wanted - set(found))), unexpected=tuple(sorted(set(found) - wanted)))


def paired(candidate: Sequence[Cell], comparator: Sequence[Cell]) -> Comparison:
    """Candidate minus comparator over the cells they share, with one-sided 80 % bounds (see domain.statistics).

    Raises ValueError on a cell that occurs twice and where no cell is shared: nothing can then be said.
    """
    new, old = _unique(candidate), _unique(comparator)
    shared = sorted(set(new) & set(old))
    if not shared:
        raise ValueError("the two evaluations share no cell: compare evaluations of one matrix")
    pairs = [(new[key], old[key]) for key in shared]

    def differences(read: Callable[[Cell], float | None]) -> dict[Track, list[float]]:
        found: dict[Track, list[float]] = {}
        for after, before in pairs:
            high, low = read(after), read(before)
            if high is not None and low is not None:
                found.setdefault(after.track, []).append(high - low)
        return found

    overall = differences(lambda cell: cell.overall)
    stages = {stage: differences(lambda cell, stage=stage: cell.stages.get(stage)) for stage in Stage}  # type: ignore[misc]
    return Comparison(
        complete=set(new) == set(old),
        n=len(shared),
        overall=stratified(list(overall.values())),
        task=stratified(list(differences(lambda cell: cell.task_score).values())),
        tracks={track: one_sample(values) for track, values in overall.items()},
        stages={stage: stratified(list(found.values())) for stage, found in stages.items() if found},
    )


def name_of(key: CellKey) -> str:
    """A cell's key as people read it: track/task#repeat."""
    return f"{key[0]}/{key[1]}#{key[2]}"


def _unique(cells: Sequence[Cell]) -> dict[CellKey, Cell]:
    found: dict[CellKey, Cell] = {}
    for cell in cells:
        if cell.key in found:
            raise ValueError(f"cell {name_of(cell.key)} occurs twice in one evaluation: keep the first committed one")
        found[cell.key] = cell
    return found


def _by_track(cells: Sequence[Cell]) -> dict[Track, list[Cell]]:
    groups = {track: [cell for cell in cells if cell.track == track] for track in Track}
    return {track: group for track, group in groups.items() if group}


def _stage_means(stage: Stage, by_track: Mapping[Track, Sequence[Cell]]) -> StageMeans | None:
    scores = {
        track: [cell.stages[stage] for cell in cells if stage in cell.stages] for track, cells in by_track.items()
    }
    scores = {track: found for track, found in scores.items() if found}
    if not scores:
        return None
    reached = [
        cell.stages[stage]
        for cells in by_track.values()
        for cell in cells
        if stage in cell.stages and stage in cell.reached
    ]
    return StageMeans(
        n=sum(len(found) for found in scores.values()),
        raw=_mean([_mean(found) for found in scores.values()]),
        reached_n=len(reached),
        reached=_mean(reached) if reached else None,
    )


def _mean(values: Sequence[float]) -> float:
    # fsum rounds once, so the mean does not depend on the order of the cells.
    return math.fsum(values) / len(values)


def _certain(score: float | None) -> float:
    if score is None:
        raise AssertionError("a cell with all its stages has an Agentic score")
    return score


def _names(words: Iterable[str]) -> str:
    return ", ".join(sorted(words)) or "none"
