"""Scores rollouts on evidence: RolloutCompleted -> RewardScored | RewardWithheld.

The evidence judge grades again from the recorded workspace and receipts, with the truth made from the state's key, after it
held them against the signed chain in the event. What it cannot score or believe is withheld, never zero.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bat_events.artifacts import ArtifactError
from bat_events.benchmark.body import codes_from_body, decode_files, evidence_from_body, key_from_json
from bat_events.benchmark.interface import Evidence, Grade
from bat_events.benchmark.proofs import calls_of
from bat_events.benchmark.registry import benchmark
from bat_events.codec import Fact
from bat_events.deciders.interface import Draft
from bat_events.deciders.versions import pinned_rubric
from bat_events.domain.canonical import digest
from bat_events.domain.receipts import chain_start
from bat_events.domain.rubric import NEWEST, execution_cap
from bat_events.domain.scoring import grade_summary, rollout_reward
from bat_events.domain.vocabulary import Focus, Stage
from bat_events.events.envelope import Cost
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted, RubricItem, StageValue
from bat_events.sandbox.receipts import receipt_faults
from bat_events.service.context import Context
from bat_events.service.measure import stopwatch

JUDGE = "evidence"


class ReceiptsDoNotFit(ValueError):
    """Evidence that its signed receipts do not prove: somebody other than the policy changed it, or a worker is broken."""


class Judge:
    """See the module."""

    name = "judge"
    version = 2  # 1 took evidence as it was; the rubric has a version of its own, which campaigns pin
    topic = "rollout"
    outputs: tuple[str, ...] = ("reward",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, RolloutCompleted)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """Grade and score."""
        rollout: RolloutCompleted = fact.event  # type: ignore[assignment]
        campaign = fact.envelope.campaign
        started = self._context.campaign(campaign)
        known, rubric = benchmark(started.plan.benchmark), pinned_rubric(started)
        self._context.status.say(
            f"round {rollout.round} step {rollout.step} slot {rollout.slot} rollout {rollout.index}"
        )
        watch = stopwatch()
        event: RewardScored | RewardWithheld
        try:
            body = self._context.store.get_json(rollout.body)
            seen = self._context.store.get_json(rollout.evidence)
            evidence = evidence_from_body(seen)
            if rubric > 1 or rollout.receipts is not None:
                _check_receipts(rollout, body, evidence, codes_from_body(seen))
            grade = known.grade(key_from_json(body["key"]), evidence, rubric=rubric)
            event = scored(rollout, grade, evidence, rubric)
        except (ArtifactError, ValueError) as error:
            event = withheld(rollout, type(error).__name__, str(error))
        cost = Cost(wall_s=watch())
        return [
            Draft(
                event=event,
                campaign=campaign,
                cause=fact.id,
                ordinal=0,
                key=rollout.group,
                round=rollout.round,
                cost=cost,
            )
        ]


def _check_receipts(
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


def scored(
    rollout: RolloutCompleted, grade: Grade, evidence: Evidence, rubric: int = NEWEST
) -> RewardScored | RewardWithheld:
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
        judge=JUDGE,
        rubric_version=rubric,
    )
