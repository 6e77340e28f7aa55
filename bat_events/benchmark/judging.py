"""From a grade to a reward, under a version of the rubric: what the judge does, and what `rejudge` does again.

A rubric version says which of a grade's items count, and how; the newest is what the judge scores with and records. A new one is
added beside the others, never in their place, so that what was scored under one can be scored under it again.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bat_events.benchmark.interface import Evidence, Grade
from bat_events.domain.scoring import execution_cap, grade_summary, rollout_reward
from bat_events.domain.vocabulary import Focus, Stage
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted, RubricItem, StageValue

JUDGE = "evidence"


@dataclass(frozen=True, kw_only=True)
class Rubric:
    """A version of the rubric. `apply` makes of a benchmark's grade the one that is scored."""

    version: int
    title: str
    apply: Callable[[Grade], Grade]


RUBRICS: dict[int, Rubric] = {
    1: Rubric(version=1, title="every item of the benchmark, equal weight", apply=lambda g: g)
}
RUBRIC_VERSION = 1
"""What the judge scores with."""


def withheld(rollout: RolloutCompleted, reason: str, detail: str) -> RewardWithheld:
    """A missing reward."""
    return RewardWithheld(
        group=rollout.group,
        rollout=rollout.rollout,
        index=rollout.index,
        round=rollout.round,
        step=rollout.step,
        slot=rollout.slot,
        reason=reason,
        detail=detail,
    )


def scored(
    rollout: RolloutCompleted, graded: Grade, evidence: Evidence, rubric: Rubric | None = None
) -> RewardScored | RewardWithheld:
    """The reward of a graded rollout: min(raw, cap), by domain.scoring, under a rubric (None: the judge's)."""
    rubric = rubric or RUBRICS[RUBRIC_VERSION]
    grade = rubric.apply(graded)
    calls = [(r.exit_code if r.end == "exited" else None, bool(r.changes)) for r in evidence.receipts]
    if evidence.end == "breach":
        calls = []  # an isolation breach caps the reward at zero, whatever was made before it
    summary = grade_summary(grade, rollout.focus)
    reward = rollout_reward(summary, rollout.focus, calls)
    if reward is None:
        return withheld(rollout, "incomplete_grade", f"{rollout.focus} needs a score that the grader did not give")
    raw = summary.overall if rollout.focus is Focus.E2E else summary.scores[Stage(rollout.focus.value)]
    assert raw is not None
    return RewardScored(
        group=rollout.group,
        rollout=rollout.rollout,
        index=rollout.index,
        round=rollout.round,
        step=rollout.step,
        slot=rollout.slot,
        pool=rollout.pool,
        focus=rollout.focus,
        reward=reward,
        raw=raw,
        cap=execution_cap(calls),
        stages=tuple(StageValue(stage=s.stage, score=s.score) for s in summary.stages if s.score is not None),
        task_score=summary.task_score,
        items=tuple(
            RubricItem(
                item=item.item,
                stage=item.stage,
                score=item.score,
                applicable=item.applicable,
                proof=item.proof,
                note=item.note,
            )
            for item in grade.items
        ),
        failures=grade.failures,
        evidence=rollout.evidence,
        judge=JUDGE,
        rubric_version=rubric.version,
    )
