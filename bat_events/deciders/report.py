"""From held-out cells to the one report that crosses: numbers rounded to 1e-4, closed enums, a checkpoint's digest."""

from collections.abc import Mapping, Sequence

from bat_events.domain.evaluation import Cell, Comparison, paired, summarise
from bat_events.domain.minimum import check_report, enough
from bat_events.domain.statistics import PairedDifference
from bat_events.events.boundary import (
    ComparatorReport,
    Effect,
    EvaluationReported,
    FailureCount,
    StageEffect,
    StageReport,
    TrackEffect,
    TrackReport,
)
from bat_events.events.heldout import EvaluationCellScored
from bat_events.events.rounds import EvaluationRequested

DIGITS = 4


def cell_of(event: EvaluationCellScored) -> Cell:
    """A cell event as the domain's cell. Raises ValueError on a failure that is in no closed category."""
    return Cell(
        track=event.track,
        task=event.task,
        repeat=event.repeat,
        task_score=event.task_score,
        stages={part.stage: part.score for part in event.stages},
        reached=frozenset(part.stage for part in event.stages if part.reached),
        applicable=frozenset(part.stage for part in event.stages),
        failures=event.failures,
    )


def make_report(
    request: EvaluationRequested, cells: Sequence[Cell], comparators: Mapping[str, Sequence[Cell]]
) -> EvaluationReported:
    """The aggregates of one evaluation.

    A comparator that shares too few cells to tell of (domain.minimum) is left out. Raises TooFewCells where that many were
    not scored in all or in some track, and ValueError where a comparator has cells and shares none.
    """
    check_report(cells, request.tracks)
    summary = summarise(cells)
    expected = len(request.tracks) * request.repeats
    return EvaluationReported(
        round=request.round,
        checkpoint=request.checkpoint,
        cells=summary.n,
        missing=expected - summary.n,
        overall=round(summary.overall, DIGITS),
        task=round(summary.task, DIGITS),
        agentic=round(summary.agentic, DIGITS),
        tracks=tuple(
            TrackReport(
                track=track,
                overall=round(means.overall, DIGITS),
                task=round(means.task, DIGITS),
                agentic=round(means.agentic, DIGITS),
                cells=means.n,
            )
            for track, means in summary.tracks.items()
        ),
        stages=tuple(
            StageReport(
                stage=stage,
                mean=round(means.raw, DIGITS),
                cells=means.n,
                reached_mean=None if means.reached is None else round(means.reached, DIGITS),
                reached_cells=means.reached_n,
            )
            for stage, means in summary.stages.items()
        ),
        comparators=tuple(
            _compared(digest, paired(cells, found)) for digest, found in comparators.items() if _tellable(cells, found)
        ),
        failures=tuple(
            FailureCount(stage=stage, code=code, cells=count) for (stage, code), count in summary.failures.items()
        ),
    )


def _tellable(cells: Sequence[Cell], comparator: Sequence[Cell]) -> bool:
    """Whether a comparison would say nothing of single cells. Of no cells at all in common `paired` shall say so."""
    if not comparator:
        return False
    keys = {cell.key for cell in comparator}
    shared = [cell for cell in cells if cell.key in keys]
    return not shared or enough(shared)


def _compared(digest: str, comparison: Comparison) -> ComparatorReport:
    return ComparatorReport(
        comparator=digest,
        complete=comparison.complete,
        overall=_effect(comparison.overall),
        task=_effect(comparison.task),
        tracks=tuple(TrackEffect(track=t, effect=_effect(d)) for t, d in comparison.tracks.items()),
        stages=tuple(StageEffect(stage=s, effect=_effect(d)) for s, d in comparison.stages.items()),
    )


def _effect(difference: PairedDifference) -> Effect:
    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, DIGITS)

    return Effect(
        mean=round(difference.mean, DIGITS),
        deviation=rounded(difference.deviation),
        n=difference.n,
        lower80=rounded(difference.lower80),
        upper80=rounded(difference.upper80),
    )
