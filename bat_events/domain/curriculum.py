"""The teacher's rule: which stage the next round practises.

Two readings of a stage. "raw" counts a cell that never got to the stage as 0, as the reference does; the weakest raw
stage is then always downstream of the one that fails. "reached" (the default) reads a stage only where it was reached.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bat_events.domain.evaluation import StageMeans
from bat_events.domain.vocabulary import Stage

TIE = 1e-12  # the reference's: closer means are ties, and ties take the earliest stage

Reading = Literal["reached", "raw"]
Verdict = Literal["baseline", "promoted", "held"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """The stage to practise. `corrective` says that it is there to mend a regression, not to lift the weakest stage."""

    stage: Stage
    reason: str
    corrective: bool


def choose_target(
    *,
    standing: Verdict,
    candidate: Mapping[Stage, StageMeans],
    baseline: Mapping[Stage, StageMeans] | None = None,
    reading: Reading = "reached",
    minimum_n: int = 1,
) -> Target:
    """The next round's target stage (docs/rules.md).

    "baseline" (the first report) and "promoted": the candidate's weakest stage. "held": the stage that fell most
    against `baseline` where any fell, else the weakest. Stages with fewer than `minimum_n` cells to read are skipped.
    Raises ValueError where no stage can be read, and where a held candidate has no baseline to be compared with.
    """
    scores = _readings(candidate, reading, minimum_n)
    if not scores:
        raise ValueError(f"no stage has {minimum_n} cells to read ({reading}): the evaluation cannot choose a target")
    if standing == "held":
        if baseline is None:
            raise ValueError("a held candidate needs its baseline's stage means: give the report it was compared with")
        before = _readings(baseline, reading, minimum_n)
        falls = {stage: before[stage] - score for stage, score in scores.items() if stage in before}
        worst = _first_highest(falls)
        if worst is not None and falls[worst] > TIE:
            reason = f"held: {worst} fell most, {before[worst]:.4f} to {scores[worst]:.4f} ({reading})"
            return Target(stage=worst, reason=reason, corrective=True)
    weakest = _first_highest({stage: -score for stage, score in scores.items()})
    assert weakest is not None
    n = candidate[weakest].reached_n if reading == "reached" else candidate[weakest].n
    reason = f"{standing}: {weakest} is the weakest stage, {scores[weakest]:.4f} over {n} cells ({reading})"
    return Target(stage=weakest, reason=reason, corrective=False)


def _readings(means: Mapping[Stage, StageMeans], reading: Reading, minimum_n: int) -> dict[Stage, float]:
    found: dict[Stage, float] = {}
    for stage in Stage:
        if stage not in means:
            continue
        score, n = means[stage].raw, means[stage].n
        if reading == "reached":
            if means[stage].reached is None:
                continue
            score, n = means[stage].reached, means[stage].reached_n  # type: ignore[assignment]
        if n >= max(minimum_n, 1):
            found[stage] = score
    return found


def _first_highest(values: Mapping[Stage, float]) -> Stage | None:
    if not values:
        return None
    highest = max(values.values())
    return next(stage for stage in Stage if stage in values and highest - values[stage] <= TIE)
