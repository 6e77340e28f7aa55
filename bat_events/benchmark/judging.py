"""From a grade to a reward, under a version of the rubric: what the judge does, and what `rejudge` does again."""

from collections.abc import Mapping, Sequence
from typing import Any

from bat_events.benchmark.body import decode_files
from bat_events.benchmark.interface import Evidence, Grade
from bat_events.benchmark.proofs import calls_of
from bat_events.domain.canonical import digest
from bat_events.domain.judging import EVIDENCE
from bat_events.domain.receipts import chain_start
from bat_events.domain.rubric import NEWEST, execution_cap
from bat_events.domain.scoring import grade_summary, rollout_reward
from bat_events.domain.vocabulary import Focus, Stage
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted, RubricItem, StageValue
from bat_events.sandbox.receipts import receipt_faults

Reward = RewardScored | RewardWithheld


class ReceiptsDoNotFit(ValueError):
    """Evidence that its signed receipts do not prove: somebody other than the policy changed it, or a worker is broken."""


def check_receipts(
    rollout: RolloutCompleted, body: Mapping[str, Any], evidence: Evidence, codes: Sequence[str]
) -> None:
    """Raises ReceiptsDoNotFit naming the first thing in which evidence, state and signed receipts do not fit."""
    start = chain_start(
        group=rollout.group,
        rollout=rollout.rollout,
        body=rollout.body,
        workspace=digest({"inputs": body["inputs"], "files": body["files"]}),
    )
    faults = receipt_faults(
        rollout,
        evidence.receipts,
        codes,
        evidence.files,
        start=start,
        begun=decode_files(body["files"]),
    )
    for field, found, wanted in faults:
        raise ReceiptsDoNotFit(f"{field} is {found!r}, and must be {wanted!r}")


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


def scored(rollout: RolloutCompleted, grade: Grade, evidence: Evidence, rubric: int = NEWEST) -> Reward:
    """The reward of a graded rollout: min(raw, cap), by domain.scoring. A second breach caps it at 0."""
    calls = [] if evidence.end == "breach" else calls_of(evidence.receipts)
    summary = grade_summary(grade, rollout.focus)
    reward = rollout_reward(summary, rollout.focus, calls, rubric=rubric)
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
        cap=execution_cap(rubric, calls),
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
        judge=EVIDENCE,
        rubric_version=rubric,
        model=None,
        texts=(),
    )
