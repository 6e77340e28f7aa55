"""Boundary reports as the domain reads them."""

from collections.abc import Mapping

from bat_events.domain.evaluation import Comparison, StageMeans
from bat_events.domain.promotion import Standing
from bat_events.domain.statistics import PairedDifference
from bat_events.domain.vocabulary import Stage
from bat_events.events.boundary import ComparatorReport, Effect, EvaluationReported


def standing(report: EvaluationReported) -> Standing:
    """Raw means for the reference gate."""
    return Standing(
        overall=report.overall,
        task=report.task,
        tracks={part.track: part.overall for part in report.tracks},
        stages={part.stage: part.mean for part in report.stages},
    )


def stage_means(report: EvaluationReported) -> Mapping[Stage, StageMeans]:
    """Both readings of each stage for the teacher."""
    return {
        part.stage: StageMeans(n=part.cells, raw=part.mean, reached_n=part.reached_cells, reached=part.reached_mean)
        for part in report.stages
    }


def comparison(report: EvaluationReported, comparator: str) -> Comparison | None:
    """The paired comparison with one comparator, or None where the report has none."""
    for part in report.comparators:
        if part.comparator == comparator:
            return _comparison(part, missing=report.missing)
    return None


def _comparison(part: ComparatorReport, *, missing: int) -> Comparison:
    return Comparison(
        complete=part.complete and missing == 0,
        n=part.overall.n,
        overall=difference(part.overall),
        task=difference(part.task),
        tracks={effect.track: difference(effect.effect) for effect in part.tracks},
        stages={effect.stage: difference(effect.effect) for effect in part.stages},
    )


def difference(effect: Effect) -> PairedDifference:
    """An effect as the domain's paired difference."""
    return PairedDifference(
        mean=effect.mean, deviation=effect.deviation, n=effect.n, lower80=effect.lower80, upper80=effect.upper80
    )
