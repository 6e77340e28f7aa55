"""Stage weights and the two scores made from them: Agentic and Overall.

Missing is not zero: an applicable stage without a score makes the result missing. A stage that does not apply loses
its weight, and the rest is renormalised.
"""

import math
from collections.abc import Collection, Mapping
from types import MappingProxyType

from bat_events.domain.vocabulary import Stage

# Facts section 1.1: the same for every track and tier.
STAGE_WEIGHTS: Mapping[Stage, float] = MappingProxyType(
    {Stage.S1: 0.25, Stage.S2: 0.15, Stage.S3: 0.35, Stage.S4: 0.15, Stage.S5: 0.10}
)


def agentic_score(scores: Mapping[Stage, float | None], applicable: Collection[Stage] = tuple(Stage)) -> float | None:
    """sum(weight x score) / sum(weight) over the applicable stages (docs/rules.md).

    None where an applicable stage has no score or where no stage applies. Scores of stages that do not apply are
    ignored. Raises ValueError on a score that is NaN or outside [0, 1].
    """
    present: list[tuple[float, float]] = []
    for stage in Stage:
        if stage not in applicable:
            continue
        score = scores.get(stage)
        if score is None:
            return None
        present.append((STAGE_WEIGHTS[stage], unit_interval(score, f"stage {stage}")))
    if not present:
        return None
    total = math.fsum(weight * score for weight, score in present)
    # Rounding may leave the quotient an ulp above 1.
    return min(total / math.fsum(weight for weight, _ in present), 1.0)


def overall_score(task: float | None, agentic: float | None) -> float | None:
    """Half task, half agentic (docs/rules.md); None where either is missing. Raises ValueError outside [0, 1]."""
    if task is None or agentic is None:
        return None
    return 0.5 * unit_interval(task, "the task") + 0.5 * unit_interval(agentic, "Agentic")


def unit_interval(score: float, what: str) -> float:
    """The score itself, or ValueError where it is NaN or outside [0, 1]."""
    if not 0.0 <= score <= 1.0:
        raise ValueError(f"the score of {what} is {score}: it must be a number in [0, 1], or None where it is missing")
    return float(score)
