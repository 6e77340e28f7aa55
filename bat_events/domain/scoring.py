"""From a graded rollout to stage scores, and from stage scores to a reward.

Graders say what each rubric item scored; only this module says what that is worth. What the policy caused (time-out,
breach, malformed action) is evidence and is scored as graded; what it did not cause never comes here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bat_events.domain.rubric import NEWEST, Call, execution_cap
from bat_events.domain.stages import agentic_score, overall_score, unit_interval
from bat_events.domain.vocabulary import Focus, Stage


class ScoredItem(Protocol):
    """What is read of a rubric item: benchmark.interface.ItemScore is one."""

    @property
    def item(self) -> str: ...
    @property
    def stage(self) -> Stage: ...
    @property
    def score(self) -> float: ...
    @property
    def applicable(self) -> bool: ...


class GradedRollout(Protocol):
    """What is read of a graded rollout: benchmark.interface.Grade is one."""

    @property
    def items(self) -> Sequence[ScoredItem]: ...
    @property
    def reached(self) -> Sequence[Stage]: ...
    @property
    def task_score(self) -> float | None: ...


@dataclass(frozen=True, kw_only=True)
class StageScore:
    """One stage of one rollout. `score` is in [0, 1]; None means that the stage does not apply."""

    stage: Stage
    score: float | None
    reached: bool


@dataclass(frozen=True, kw_only=True)
class GradeSummary:
    """The stages that a rollout was graded on, in order, and its task score (None for a stage-local state)."""

    stages: tuple[StageScore, ...]
    task_score: float | None

    @property
    def scores(self) -> dict[Stage, float]:
        """Score per applicable stage."""
        return {stage.stage: stage.score for stage in self.stages if stage.score is not None}

    @property
    def reached(self) -> frozenset[Stage]:
        """The applicable stages that the policy got to act in."""
        return frozenset(stage.stage for stage in self.stages if stage.reached and stage.score is not None)

    @property
    def agentic(self) -> float | None:
        """Weighted mean over the applicable stages; None where none applies."""
        return agentic_score(self.scores, tuple(self.scores))

    @property
    def overall(self) -> float | None:
        """Half task, half Agentic; None where either is missing."""
        return overall_score(self.task_score, self.agentic)


def stage_score(items: Sequence[ScoredItem]) -> float | None:
    """Mean of the applicable items, all of equal weight (docs/rules.md); None where none applies.

    Raises ValueError on a score outside [0, 1] and on an item that occurs twice.
    """
    names = [item.item for item in items]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"rubric items {', '.join(twice)} occur twice: each would count double; grade each once")
    scores = [item.score for item in items if item.applicable]
    if any(not 0.0 <= score <= 1.0 for score in scores):
        scores = [unit_interval(item.score, f"rubric item {item.item}") for item in items if item.applicable]
    return math.fsum(scores) / len(scores) if scores else None


def grade_summary(grade: GradedRollout, focus: Focus = Focus.E2E) -> GradeSummary:
    """The stage scores of a graded rollout, for the stages of its focus.

    A stage that was not reached scores 0, whatever its items say. A stage whose items are all not applicable does not
    apply. Raises ValueError where a reached stage has no items at all: its score is then missing, and missing is not 0.
    """
    stages: list[StageScore] = []
    for stage in focus.stages:
        items = [item for item in grade.items if item.stage == stage]
        reached = stage in grade.reached
        if reached and not items:
            raise ValueError(f"stage {stage} was reached but its grader gave no rubric item: grade every reached stage")
        score = stage_score(items)
        if not reached and not (items and score is None):
            score = 0.0
        stages.append(StageScore(stage=stage, score=score, reached=reached))
    task = grade.task_score
    return GradeSummary(stages=tuple(stages), task_score=None if task is None else unit_interval(task, "the task"))


def local_reward(score: float, cap: float) -> float:
    """min(stage score, cap): the reward of a stage-local rollout (docs/rules.md)."""
    return min(unit_interval(score, "the stage"), unit_interval(cap, "the execution cap"))


def e2e_reward(agentic: float, task: float, cap: float) -> float:
    """min(0.5 Agentic + 0.5 task, cap): the reward of an end-to-end rollout (docs/rules.md)."""
    overall = 0.5 * unit_interval(agentic, "Agentic") + 0.5 * unit_interval(task, "the task")
    return min(overall, unit_interval(cap, "the execution cap"))


def rollout_reward(summary: GradeSummary, focus: Focus, calls: Sequence[Call], *, rubric: int = NEWEST) -> float | None:
    """The reward of a graded rollout, in [0, 1]; None where a score it needs is missing or does not apply."""
    cap = execution_cap(rubric, calls)
    if focus is Focus.E2E:
        agentic, task = summary.agentic, summary.task_score
        return None if agentic is None or task is None else e2e_reward(agentic, task, cap)
    score = summary.scores.get(Stage(focus.value))
    return None if score is None else local_reward(score, cap)


def stage_means(summaries: Sequence[GradeSummary]) -> Mapping[Stage, tuple[float, int]]:
    """Per stage, the mean over the rollouts that reached it and how many did; stages that none reached are left out."""
    found: dict[Stage, list[float]] = {}
    for summary in summaries:
        for stage in summary.reached:
            found.setdefault(stage, []).append(summary.scores[stage])
    return {
        stage: (math.fsum(found[stage]) / len(found[stage]), len(found[stage])) for stage in Stage if stage in found
    }
