"""Workers that state plausible facts: what they say is a function of their cause, and nothing is really done."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bat_events.benchmark.interface import ItemScore
from bat_events.codec import Fact
from bat_events.consumers.trainer_state import TrainerState
from bat_events.deciders.interface import Draft
from bat_events.deciders.premises import Premises
from bat_events.deciders.report import make_report
from bat_events.domain.canonical import digest, seed63
from bat_events.domain.evaluation import Cell
from bat_events.domain.grouping import group_advantages, rollout_id, zero_variance
from bat_events.domain.lineage import root
from bat_events.domain.receipts import chain_start
from bat_events.domain.rubric import NEWEST, Call, execution_cap
from bat_events.domain.scoring import stage_score
from bat_events.domain.stages import agentic_score, overall_score
from bat_events.domain.vocabulary import Focus, Pool, Stage
from bat_events.events.bank import LeakageCheck, LeakageVerdict, StateSynthesized, SynthesisFailed, SynthesisRequested
from bat_events.events.base import Event
from bat_events.events.plan import CampaignPlan
from bat_events.events.rollouts import (
    IsolationBreached,
    RewardScored,
    RewardWithheld,
    RolloutCompleted,
    RolloutFailed,
    RubricItem,
    StageValue,
)
from bat_events.events.rounds import EvaluationRequested, GroupRequested, PlannedStep
from bat_events.events.training import (
    CheckpointProduced,
    ColdStartCompleted,
    PoolTokens,
    TrainedGroup,
    TrainedRollout,
    TrainingStepCompleted,
)
from bat_events.sandbox.interface import CallEnd, FileChange, Receipt
from bat_events.sandbox.receipts import sign_receipts
from bat_events.signing import SigningKey

KEY = SigningKey(bytes(32))
Handle = Callable[[Fact, CampaignPlan], list[Draft]]


def chance(*parts: Any) -> float:
    """A number in [0, 1) that depends on the parts only."""
    return seed63("test", *parts) / (1 << 63)


def _draft(fact: Fact, event: Event, key: str, ordinal: int = 0) -> Draft:
    number = getattr(event, "round", None)
    return Draft(event=event, campaign=fact.envelope.campaign, cause=fact.id, ordinal=ordinal, key=key, round=number)


def synthesize(fact: Fact, _: CampaignPlan) -> list[Draft]:
    """One state in twelve cannot be made; of one pair in four, the second is a near-copy of the first."""
    request = fact.event
    if not isinstance(request, SynthesisRequested):
        return []
    same: dict[str, Any] = {name: getattr(request, name) for name in ("state", "focus", "track", "outcome", "ordinal")}
    if chance("synthesis", request.state) < 1 / 12:
        return [_draft(fact, SynthesisFailed(**same, reason="no image fits"), request.state)]
    cell = [request.focus, request.track, request.outcome]
    copied = chance("copy", *cell, request.ordinal // 2) < 0.25
    event = StateSynthesized(
        **same,
        seed=request.seed,
        benchmark="mini",
        benchmark_version=1,
        body=digest(["body", request.state]),
        body_bytes=100,
        prompt_digest=digest(["prompt", request.state]),
        workspace_digest=digest(["workspace", request.state]),
        own_prompt=digest(["own", cell, request.ordinal // 2 if copied else request.ordinal]),
        own_workspace=digest(["own workspace", request.state]),
        condition=digest(["condition", cell]),
        wording="programmatic",
    )
    return [_draft(fact, event, request.state)]


def check_leakage(fact: Fact, _: CampaignPlan) -> list[Draft]:
    """One state in twelve is rejected."""
    state = fact.event
    if not isinstance(state, StateSynthesized):
        return []
    passed = chance("leakage", state.state) >= 1 / 12
    event = LeakageVerdict(
        state=state.state,
        focus=state.focus,
        track=state.track,
        outcome=state.outcome,
        ordinal=state.ordinal,
        body=state.body,
        cleared=passed,
        checks=(LeakageCheck(name="secrets", passed=passed, evidence="" if passed else "a token"),),
    )
    return [_draft(fact, event, state.state)]


def roll_out(fact: Fact, _: CampaignPlan) -> list[Draft]:
    """One rollout in eight fails; in one group in ten nearly all do, so that it must be replaced."""
    request = fact.event
    if not isinstance(request, GroupRequested):
        return []
    broken = chance("group", request.group) < 0.1
    drafts = []
    for index in range(request.size):
        rollout = rollout_id(request.group, index)
        place: dict[str, Any] = {
            "group": request.group,
            "rollout": rollout,
            "index": index,
            "round": request.round,
            "step": request.step,
            "slot": request.slot,
        }
        event: RolloutCompleted | RolloutFailed
        if chance("rollout", rollout) < (0.9 if broken else 0.12):
            event = RolloutFailed(**place, reason="sandbox", detail="it did not start")
        else:
            evidence = digest(["evidence", rollout])
            start = chain_start(
                group=request.group,
                rollout=rollout,
                body=request.body,
                workspace=digest(["workspace", request.state]),
            )
            ended = "breach" if chance("breach", rollout) < 0.1 else "final"
            signed = sign_receipts(_calls(rollout, ended), start=start, evidence=evidence, end=ended, key=KEY)
            event = RolloutCompleted(
                **place,
                **vars(signed),
                pool=request.pool,
                focus=request.focus,
                state=request.state,
                body=request.body,
                weights=request.weights,
                end=ended,
                turns=4,
                valid_actions=2,
                prompt_tokens=2,
                response_tokens=3,
                prompt_ids=struct.pack("<2i", 1, 2),
                response_ids=struct.pack("<3i", 3, 4, 5),
                response_mask=b"\1\0\1",
                logprobs=struct.pack("<3f", -0.5, 0.0, -0.25),
                evidence=evidence,
                sandbox="none",
            )
        drafts.append(_draft(fact, event, request.group, index))
        if isinstance(event, RolloutCompleted):
            found = [receipt.ordinal for receipt in event.receipts or () if receipt.end == "breach"]
            for number, ordinal in enumerate(found, start=1):
                breach = IsolationBreached(**place, receipt=ordinal, breach=number, ended=number == 2)
                drafts.append(_draft(fact, breach, request.group, 2 * index + number))
    return drafts


def _calls(rollout: str, end: str) -> list[Receipt]:
    """A call that fails, one that works in four rollouts of five, and two that breach where the rollout ends so."""
    breach = StatedCall(exit_code=None, end="breach", changed=False)
    calls = [StatedCall(exit_code=1, end="exited", changed=True)]
    if chance("cap", rollout) < 0.8:
        calls.append(StatedCall(exit_code=0, end="exited", changed=True))
    calls += [breach] * (2 if end == "breach" else int(chance("one breach", rollout) < 0.1))
    made, before = [], digest(["workspace", rollout, 0])
    for number, call in enumerate(calls):
        after = digest(["workspace", rollout, number + 1]) if call.changed else before
        made.append(
            Receipt(
                index=number,
                engine="stated",
                language="python",
                code_digest=digest(["code", rollout, number]),
                exit_code=call.exit_code,
                end=call.end,
                stdout="",
                stderr="",
                workspace_before=before,
                workspace_after=after,
                changes=(FileChange(path="a", before=None, after=after),) if call.changed else (),
                wall_s=0.0,
            )
        )
        before = after
    return made


@dataclass(frozen=True, kw_only=True)
class StatedCall:
    """What a stated call did."""

    exit_code: int | None
    end: CallEnd
    changed: bool


def judge(fact: Fact, _: CampaignPlan) -> list[Draft]:
    """Rewards in quarters; one in twenty is withheld."""
    rollout = fact.event
    if not isinstance(rollout, RolloutCompleted):
        return []
    names = ("group", "rollout", "index", "round", "step", "slot")
    place: dict[str, Any] = {name: getattr(rollout, name) for name in names}
    if chance("judge", rollout.rollout) < 0.05:
        return [_draft(fact, RewardWithheld(**place, reason="grade", detail="no score"), rollout.group)]
    calls = [Call(exit_code=r.exit_code, end=r.end, changed=r.changed > 0) for r in rollout.receipts or ()]
    proof = next((number for number, call in enumerate(calls) if call.succeeded and call.changed), None)
    items = [
        ItemScore(
            item=f"{stage}-{name}",
            stage=stage,
            score=0.0 if proof is None else round(4 * chance("item", rollout.rollout, stage, name)) / 4,
            proof=proof,
            applicable=name != "c" or chance("applies", rollout.rollout, stage) < 0.5,
        )
        for stage in rollout.focus.stages
        for name in "abc"
    ]
    scores: dict[Stage, float] = {}
    for stage in rollout.focus.stages:
        score = stage_score([item for item in items if item.stage is stage])
        assert score is not None
        scores[stage] = score
    task = chance("task", rollout.rollout) if rollout.focus is Focus.E2E else None
    local = scores.get(Stage(rollout.focus.value)) if rollout.focus is not Focus.E2E else None
    raw = overall_score(task, agentic_score(scores)) if local is None else local
    assert raw is not None
    cap = execution_cap(NEWEST, calls)
    event = RewardScored(
        **place,
        pool=rollout.pool,
        focus=rollout.focus,
        reward=min(raw, cap),
        raw=raw,
        cap=cap,
        stages=tuple(StageValue(stage=stage, score=score) for stage, score in scores.items()),
        task_score=task,
        items=tuple(
            RubricItem(item=i.item, stage=i.stage, score=i.score, applicable=i.applicable, proof=i.proof, note="")
            for i in items
        ),
        failures=(),
        evidence=rollout.evidence,
        judge="evidence",
        rubric_version=NEWEST,
        model=None,
        texts=(),
    )
    return [_draft(fact, event, rollout.group)]


def evaluate(fact: Fact, plan: CampaignPlan) -> list[Draft]:
    """A report by the real arithmetic over drawn cells; the same checkpoint always gives the same cells."""
    request = fact.event
    if not isinstance(request, EvaluationRequested):
        return []
    comparators = {checkpoint: _cells(checkpoint, request, plan) for checkpoint in request.comparators}
    report = make_report(request, _cells(request.checkpoint, request, plan), comparators)
    return [_draft(fact, report, fact.envelope.campaign)]


def _cells(checkpoint: str, request: EvaluationRequested, plan: CampaignPlan) -> list[Cell]:
    quality = 0.2 + 0.6 * chance("quality", checkpoint)
    found = []
    for track in request.tracks:
        for repeat in range(plan.evaluation.repeats):
            place = (checkpoint, track, repeat)
            reached = tuple(Stage)[: 5 if chance("reach", *place) < 0.8 else 3]
            stages = {
                stage: min(1.0, quality + 0.2 * chance("cell", *place, stage)) if stage in reached else 0.0
                for stage in Stage
            }
            found.append(
                Cell(
                    track=track,
                    task=f"{track}-e2e",
                    repeat=repeat,
                    task_score=quality * chance("task", *place) if len(reached) == 5 else 0.0,
                    stages=stages,
                    reached=frozenset(reached),
                )
            )
    return found


WORKERS: dict[str, tuple[str, int, Handle]] = {
    "synthesizer": ("bank.request", 1, synthesize),
    "leakage-gate": ("bank.state", 1, check_leakage),
    "evaluator": ("round", 1, evaluate),
    "rollout": ("group", 1, roll_out),
    "judge": ("rollout", 1, judge),
}


class StatingTrainer:
    """`Rules` of a reactor: the real trainer's state, and steps that train nothing."""

    name = "trainer"
    version = 1
    inputs: tuple[str, ...] = ("campaign", "round", "rollout", "reward")
    outputs: tuple[str, ...] = ("training",)
    is_decision: ClassVar[bool] = False

    def __init__(self) -> None:
        self._states: dict[str, TrainerState] = {}
        self._premises = Premises(self.inputs)

    def version_of(self, campaign: str) -> int:  # noqa: ARG002
        """See Rules."""
        return self.version

    def apply(self, fact: Fact) -> None:
        """See Rules."""
        for one in self._premises.take(fact):
            self._state(one.envelope.campaign).apply(one)

    def refused(self) -> Sequence[tuple[Fact, str]]:
        """See Rules."""
        return self._premises.refused()

    def held(self) -> Sequence[tuple[Fact, str]]:
        """See Rules."""
        return list(self._premises.held())

    def existing(self, fact: Fact) -> None:
        """See Rules."""
        self._state(fact.envelope.campaign).learn(fact.event, fact.id)

    def emitted(self, drafts: Sequence[Draft]) -> None:
        """See Rules."""
        for draft in drafts:
            self._state(draft.campaign).learn(draft.event, draft.id)

    def next_work(self, exists: Callable[[str], bool]) -> Callable[[], Sequence[Draft]] | None:  # noqa: ARG002
        """See Rules."""
        for state in self._states.values():
            if state.plan is None or state.closed:
                continue
            drafts = self._cold_start(state) if state.cold_start_due else self._due(state)
            if drafts:
                return lambda: drafts
        return None

    def _state(self, campaign: str) -> TrainerState:
        return self._states.setdefault(campaign, TrainerState(campaign))

    @staticmethod
    def _cold_start(state: TrainerState) -> list[Draft]:
        assert state.started_id is not None
        checkpoint = digest(["weights", root(state.campaign), 0, 0])
        done = ColdStartCompleted(
            checkpoint=checkpoint,
            corpus=digest("corpus"),
            demonstrations=1,
            steps=1,
            rows_train=1,
            rows_validation=1,
            train_loss=1.0,
            validation_loss=1.0,
            valid_action_rate=1.0,
            trainer="stating",
        )
        key = state.campaign
        first = Draft(event=done, campaign=key, cause=state.started_id, ordinal=0, key=key, round=0)
        produced = CheckpointProduced(round=0, checkpoint=checkpoint, parent=None, steps=0, healthy=True, health=())
        return [first, Draft(event=produced, campaign=key, cause=first.id, ordinal=0, key=key, round=0)]

    @staticmethod
    def _due(state: TrainerState) -> list[Draft]:
        due = state.due()
        if due is None:
            return []
        planned_id, planned = state.current()
        event: CheckpointProduced | TrainingStepCompleted
        if isinstance(due, str):
            event, ordinal = (
                CheckpointProduced(
                    round=planned.round,
                    checkpoint=state.last_healthy(),
                    parent=planned.start_checkpoint,
                    steps=state.healthy_steps(),
                    healthy=not due,
                    health=(due,) if due else (),
                ),
                0,
            )
        else:
            event, ordinal = _step(state, planned.round, planned.steps[due]), due
        key = state.campaign
        return [Draft(event=event, campaign=key, cause=planned_id, ordinal=ordinal, key=key, round=planned.round)]


def _step(state: TrainerState, number: int, step: PlannedStep) -> TrainingStepCompleted:
    assert state.plan is not None
    groups = []
    for slot in step.slots:
        group = state.group_of(number, step.step, slot)
        assert group
        rewards = state.groups.rewards(group, state.plan.group_size) or []
        rows = tuple(
            TrainedRollout(rollout=rollout_id(group, index), reward=reward, advantage=advantage)
            for index, (reward, advantage) in enumerate(zip(rewards, group_advantages(rewards), strict=True))
            if reward is not None and advantage is not None
        )
        groups.append(TrainedGroup(group=group, slot=slot.slot, pool=slot.pool, rollouts=rows))
    everything = [row.reward for group in groups for row in group.rollouts]
    pools = {pool: [r.reward for g in groups if g.pool is pool for r in g.rollouts] for pool in Pool}
    return TrainingStepCompleted(
        round=number,
        step=step.step,
        attempt=0,
        weights=digest(["weights", root(state.campaign), number, step.step + 1]),
        groups=tuple(groups),
        reward=sum(everything) / len(everything),
        zero_variance=sum(zero_variance([row.reward for row in g.rollouts]) for g in groups) / len(groups),
        loss=0.1,
        grad_norm=1.0,
        entropy=1.0,
        kl=0.0,
        clip_ratio=0.0,
        logprob_gap=0.0,
        pools=tuple(PoolTokens(pool=p, tokens=1, reward=sum(r) / len(r)) for p, r in pools.items() if r),
        actions=(),
        healthy=True,
        health=(),
    )
