"""Workers that state what their work would have found: nothing is sampled, judged or trained, and nothing fails."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bat_events.codec import Fact
from bat_events.consumers.trainer_state import TrainerState
from bat_events.deciders.interface import Draft
from bat_events.deciders.report import make_report
from bat_events.domain.canonical import digest, seed63
from bat_events.domain.evaluation import Cell
from bat_events.domain.grouping import group_advantages, rollout_id
from bat_events.domain.vocabulary import Stage
from bat_events.events.bank import LeakageCheck, LeakageVerdict, StateSynthesized, SynthesisRequested
from bat_events.events.base import Event
from bat_events.events.plan import CampaignPlan
from bat_events.events.rollouts import RewardScored, RolloutCompleted, StageValue
from bat_events.events.rounds import EvaluationRequested, GroupRequested, PlannedStep
from bat_events.events.training import (
    CheckpointProduced,
    ColdStartCompleted,
    TrainedGroup,
    TrainedRollout,
    TrainingStepCompleted,
)

State = Callable[[Fact, CampaignPlan], list[Draft]]


def _draft(fact: Fact, event: Event, key: str, ordinal: int = 0) -> Draft:
    number = getattr(event, "round", None)
    return Draft(event=event, campaign=fact.envelope.campaign, cause=fact.id, ordinal=ordinal, key=key, round=number)


def synthesize(fact: Fact, _: CampaignPlan) -> list[Draft]:
    """A state of its own for every request."""
    request = fact.event
    if not isinstance(request, SynthesisRequested):
        return []
    made = {name: digest([name, request.state]) for name in ("body", "prompt", "workspace", "own")}
    event = StateSynthesized(
        state=request.state,
        focus=request.focus,
        track=request.track,
        outcome=request.outcome,
        ordinal=request.ordinal,
        seed=request.seed,
        benchmark="mini",
        benchmark_version=1,
        body=made["body"],
        body_bytes=100,
        prompt_digest=made["prompt"],
        workspace_digest=made["workspace"],
        own_prompt=made["own"],
        own_workspace=made["own"],
        condition=digest(["condition", request.focus, request.track, request.outcome]),
        wording="programmatic",
    )
    return [_draft(fact, event, request.state)]


def check_leakage(fact: Fact, _: CampaignPlan) -> list[Draft]:
    """Every state is cleared."""
    state = fact.event
    if not isinstance(state, StateSynthesized):
        return []
    same = {name: getattr(state, name) for name in ("state", "focus", "track", "outcome", "ordinal", "body")}
    event = LeakageVerdict(**same, cleared=True, checks=(LeakageCheck(name="secrets", passed=True, evidence=""),))
    return [_draft(fact, event, state.state)]


def roll_out(fact: Fact, _: CampaignPlan) -> list[Draft]:
    """All rollouts of a group."""
    request = fact.event
    if not isinstance(request, GroupRequested):
        return []
    same = {
        n: getattr(request, n) for n in ("group", "round", "step", "slot", "pool", "focus", "state", "body", "weights")
    }
    drafts = []
    for index in range(request.size):
        rollout = rollout_id(request.group, index)
        event = RolloutCompleted(
            **same,
            rollout=rollout,
            index=index,
            end="final",
            turns=1,
            valid_actions=1,
            prompt_tokens=1,
            response_tokens=1,
            prompt_ids=struct.pack("<i", 1),
            response_ids=struct.pack("<i", 2),
            response_mask=b"\1",
            logprobs=struct.pack("<f", -0.5),
            evidence=digest(["evidence", rollout]),
            sandbox="none",
            receipts=None,
            signer=None,
            seal=None,
        )
        drafts.append(_draft(fact, event, request.group, index))
    return drafts


def judge(fact: Fact, _: CampaignPlan) -> list[Draft]:
    """A reward for every rollout."""
    rollout = fact.event
    if not isinstance(rollout, RolloutCompleted):
        return []
    names = ("group", "rollout", "index", "round", "step", "slot", "pool", "focus", "evidence")
    reward = seed63("reward", rollout.rollout) / (1 << 63)
    event = RewardScored(
        **{name: getattr(rollout, name) for name in names},
        reward=reward,
        raw=reward,
        cap=1.0,
        stages=tuple(StageValue(stage=stage, score=reward) for stage in rollout.focus.stages),
        task_score=None,
        items=(),
        failures=(),
        judge="evidence",
        rubric_version=1,
        model=None,
        texts=(),
    )
    return [_draft(fact, event, rollout.group)]


def evaluate(fact: Fact, plan: CampaignPlan) -> list[Draft]:
    """A report whose later rounds are a little better."""
    request = fact.event
    if not isinstance(request, EvaluationRequested):
        return []
    score = min(1.0, 0.3 + 0.1 * request.round)
    cells = [
        Cell(
            track=track,
            task="e2e",
            repeat=repeat,
            task_score=score,
            stages=dict.fromkeys(Stage, score),
            reached=frozenset(Stage),
        )
        for track in request.tracks
        for repeat in range(plan.evaluation.repeats)
    ]
    return [
        _draft(fact, make_report(request, cells, dict.fromkeys(request.comparators, cells)), fact.envelope.campaign)
    ]


WORKERS: dict[str, tuple[str, State]] = {
    "synthesizer": ("bank.request", synthesize),
    "leakage-gate": ("bank.state", check_leakage),
    "evaluator": ("round", evaluate),
    "rollout": ("group", roll_out),
    "judge": ("rollout", judge),
}


@dataclass(kw_only=True)
class StatingHandler:
    """A Handler around one of these."""

    name: str
    topic: str
    plan: CampaignPlan
    state: State
    version: int = 1
    outputs: tuple[str, ...] = ()

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return bool(self.state(fact, self.plan))

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """See Handler."""
        return self.state(fact, self.plan)


class StatingTrainer:
    """`Rules` of a reactor: the real trainer's state says what is due, and steps train nothing."""

    name = "trainer"
    version = 1
    inputs: tuple[str, ...] = ("campaign", "round", "rollout", "reward")
    outputs: tuple[str, ...] = ("training",)
    is_decision: ClassVar[bool] = False

    def __init__(self, campaign: str, perform: Callable[[Sequence[Draft]], None] = lambda _: None) -> None:
        """`perform` is what a step takes, where it is really waited for."""
        self._state, self._perform = TrainerState(campaign), perform

    def version_of(self, campaign: str) -> int:  # noqa: ARG002
        """See Rules."""
        return self.version

    def apply(self, fact: Fact) -> None:
        """See Rules."""
        self._state.apply(fact)

    def refused(self) -> Sequence[tuple[Fact, str]]:
        """See Rules."""
        return []

    def held(self) -> Sequence[tuple[Fact, str]]:
        """See Rules."""
        return []

    def existing(self, fact: Fact) -> None:
        """See Rules."""
        self._state.learn(fact.event, fact.id)

    def emitted(self, drafts: Sequence[Draft]) -> None:
        """See Rules."""
        for draft in drafts:
            self._state.learn(draft.event, draft.id)

    def next_work(self, exists: Callable[[str], bool]) -> Callable[[], Sequence[Draft]] | None:  # noqa: ARG002
        """See Rules."""
        state = self._state
        if state.plan is None or state.closed:
            return None
        drafts = self._cold_start() if state.cold_start_due else self._due()

        def call() -> Sequence[Draft]:
            self._perform(drafts)
            return drafts

        return call if drafts else None

    def _draft(self, event: Any, cause: str, ordinal: int, number: int) -> Draft:
        key = self._state.campaign
        return Draft(event=event, campaign=key, cause=cause, ordinal=ordinal, key=key, round=number)

    def _cold_start(self) -> list[Draft]:
        assert self._state.started_id is not None
        checkpoint = digest(["weights", 0, 0])
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
        first = self._draft(done, self._state.started_id, 0, 0)
        produced = CheckpointProduced(round=0, checkpoint=checkpoint, parent=None, steps=0, healthy=True, health=())
        return [first, self._draft(produced, first.id, 0, 0)]

    def _due(self) -> list[Draft]:
        due = self._state.due()
        if due is None:
            return []
        cause, planned = self._state.current()
        if isinstance(due, int):
            return [self._draft(self._step(planned.round, planned.steps[due]), cause, due, planned.round)]
        produced = CheckpointProduced(
            round=planned.round,
            checkpoint=self._state.last_healthy(),
            parent=planned.start_checkpoint,
            steps=self._state.healthy_steps(),
            healthy=not due,
            health=(due,) if due else (),
        )
        return [self._draft(produced, cause, 0, planned.round)]

    def _step(self, number: int, step: PlannedStep) -> TrainingStepCompleted:
        assert self._state.plan is not None
        groups = []
        for slot in step.slots:
            group = self._state.group_of(number, step.step, slot)
            assert group
            rewards = self._state.groups.rewards(group, self._state.plan.group_size) or []
            rows = tuple(
                TrainedRollout(rollout=rollout_id(group, index), reward=reward, advantage=advantage)
                for index, (reward, advantage) in enumerate(zip(rewards, group_advantages(rewards), strict=True))
                if reward is not None and advantage is not None
            )
            groups.append(TrainedGroup(group=group, slot=slot.slot, pool=slot.pool, rollouts=rows))
        everything = [row.reward for group in groups for row in group.rollouts]
        return TrainingStepCompleted(
            round=number,
            step=step.step,
            attempt=0,
            weights=digest(["weights", number, step.step + 1]),
            groups=tuple(groups),
            reward=sum(everything) / len(everything),
            zero_variance=0.0,
            loss=0.1,
            grad_norm=1.0,
            entropy=1.0,
            kl=0.0,
            clip_ratio=0.0,
            logprob_gap=0.0,
            pools=(),
            actions=(),
            healthy=True,
            health=(),
        )
