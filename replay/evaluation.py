"""Recomputes what can be of boundary reports from numbers on open topics: held-out cells are not read.

Reports are rounded to 1e-4, so a mean of `k` rounded numbers, itself rounded, is off by at most 1e-4, and a difference of
two by 1.5e-4.
"""

import math
from collections.abc import Iterator, Sequence

from bat_events.codec import Fact
from bat_events.events.boundary import ComparatorReport, Effect, EvaluationReported
from bat_events.events.rounds import EvaluationRequested
from bat_events.replay.findings import Findings, Side
from bat_events.replay.index import Index, Known

NAME = "evaluation reports against themselves"
MEAN_OFF = 1e-4 + 1e-9
DIFFERENCE_OFF = 1.5e-4 + 1e-9


def check_evaluation(index: Index, findings: Findings) -> None:
    """Check every report that is compared."""
    for entry in index.topic("boundary.report"):
        fact = entry.fact
        if fact is not None and entry.judged and isinstance(fact.event, EvaluationReported) and findings.wants(fact):
            findings.check(NAME, fact, report_sides(fact, fact.event, index))


def report_sides(fact: Fact, report: EvaluationReported, index: Known) -> list[Side]:
    """What a report says, beside what follows from the other facts."""
    return list(_sides(fact, report, index))


def _sides(fact: Fact, report: EvaluationReported, index: Known) -> Iterator[Side]:
    cause = index.fact(fact.envelope.cause)
    if cause is None or not isinstance(cause.event, EvaluationRequested):
        yield ("bat_cause", None if cause is None else cause.envelope.type, "an EvaluationRequested")
        return
    request = cause.event
    yield ("round", report.round, request.round)
    yield ("checkpoint", report.checkpoint, request.checkpoint)
    yield ("cells + missing", report.cells + report.missing, len(request.tracks) * request.repeats)
    yield ("cells", report.cells, sum(part.cells for part in report.tracks))
    for name in ("overall", "task", "agentic"):
        yield _mean(name, getattr(report, name), [getattr(part, name) for part in report.tracks])
    yield from _failures(report)
    for part in report.tracks:
        yield _mean(f"tracks.{part.track}.overall", part.overall, [part.task, part.agentic])
    for comparator in report.comparators:
        if comparator.comparator not in request.comparators:
            yield ("comparators", comparator.comparator, f"one of {list(request.comparators)}")
        yield from _comparator(comparator, report, _first_report(index, comparator.comparator))


def _failures(report: EvaluationReported) -> Iterator[Side]:
    """Counts of closed categories, where they were recorded: each once, in order, in no more cells than there are."""
    if report.failures is None:
        return
    kinds = [f"{part.stage}:{part.code}" for part in report.failures]
    yield ("failures", kinds, sorted(set(kinds)))
    cells = {part.stage: part.cells for part in report.stages}
    for part in report.failures:
        yield (f"failures.{part.stage}:{part.code}.cells", part.cells, min(part.cells, cells.get(part.stage, 0)))


def _first_report(index: Known, checkpoint: str) -> EvaluationReported | None:
    return next((report for report in index.reports() if report.checkpoint == checkpoint), None)


def _comparator(
    part: ComparatorReport, report: EvaluationReported, before: EvaluationReported | None
) -> Iterator[Side]:
    at = f"comparators.{part.comparator[:12]}"
    effects: list[tuple[str, Effect]] = [("overall", part.overall), ("task", part.task)]
    effects += [(f"tracks.{entry.track}", entry.effect) for entry in part.tracks]
    effects += [(f"stages.{entry.stage}", entry.effect) for entry in part.stages]
    for name, effect in effects:
        yield from _bounds(f"{at}.{name}", effect)
    if before is None or not part.complete or before.missing or report.missing:
        return  # the means are over other cells than the differences
    now = _readings(report)
    then = _readings(before)
    for name, effect in effects:
        if name in now and name in then:
            yield _close(f"{at}.{name}.mean", effect.mean, now[name] - then[name], DIFFERENCE_OFF)


def _readings(report: EvaluationReported) -> dict[str, float]:
    return {
        "overall": report.overall,
        "task": report.task,
        **{f"tracks.{part.track}": part.overall for part in report.tracks},
        **{f"stages.{part.stage}": part.mean for part in report.stages},
    }


def _bounds(name: str, effect: Effect) -> Iterator[Side]:
    """The one-sided bounds lie at equal distances from the mean."""
    if effect.lower80 is not None and effect.upper80 is not None:
        yield _close(f"{name}.lower80", effect.lower80, 2 * effect.mean - effect.upper80, 2 * DIFFERENCE_OFF)
        yield (f"{name}.lower80 <= upper80", effect.lower80 <= effect.upper80, True)


def _mean(name: str, recorded: float, values: Sequence[float]) -> Side:
    if not values:
        return (name, recorded, None)
    return _close(name, recorded, math.fsum(values) / len(values), MEAN_OFF)


def _close(name: str, recorded: float, recomputed: float, off: float) -> Side:
    if abs(recorded - recomputed) <= off:
        return (name, recorded, recorded)
    return (name, recorded, round(recomputed, 6))
