"""Trains, in the log's order: cold start once, then each round's steps, each in one transaction with its offsets.
The cold-start corpus is published first and trained on when the leakage gate has cleared it.

A step is due when every slot has a settled group with two rewards at least. A slot whose tries are used up, or a step
that is not healthy, ends the round with the last healthy weights as its candidate. What is due follows from the folded
facts alone; effects live in `consumers.learner`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from bat_events.codec import Fact
from bat_events.consumers.learner import Learner
from bat_events.consumers.trainer_state import TrainerState
from bat_events.deciders.interface import Draft
from bat_events.deciders.premises import Premises
from bat_events.events.corpus import CorpusScanned
from bat_events.events.training import CheckpointProduced, ColdStartCompleted, TrainingFailed
from bat_events.service.context import Context
from bat_events.training.interface import TrainingFault


class Trainer:
    """See the module; `Rules` of a reactor."""

    name = "trainer"
    version = 1
    inputs: tuple[str, ...] = ("campaign", "round", "rollout", "reward", "bank.verdict")
    outputs: tuple[str, ...] = ("training",)
    is_decision: ClassVar[bool] = False

    def __init__(self, context: Context) -> None:
        self._context = context
        self._states: dict[str, TrainerState] = {}
        self._learner = Learner(context)
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
        """See Rules: one cold start or one step at a time."""
        for campaign, state in self._states.items():
            if state.closed or state.plan is None:
                continue
            if state.cold_start_due:
                if state.corpus is None:
                    return partial(self._build_corpus, campaign, state)
                if state.scanned is not None:
                    return partial(self._cold_start, campaign, state, state.scanned)
                continue
            due = state.due()
            if due is None:
                continue
            if isinstance(due, str):
                return partial(self._end_round, campaign, state, due)
            return partial(self._step, campaign, state, due)
        self._context.status.say(self._waiting())
        return None

    def _state(self, campaign: str) -> TrainerState:
        if campaign not in self._states:
            self._states[campaign] = TrainerState(campaign)
        return self._states[campaign]

    def _waiting(self) -> str:
        waits = [state.waiting() for state in self._states.values() if not state.closed]
        return next((wait for wait in waits if wait), "waiting")

    def _build_corpus(self, campaign: str, state: TrainerState) -> Sequence[Draft]:
        assert state.plan is not None
        assert state.started_id is not None
        built, cost = self._learner.build_corpus(state.plan)
        return [
            Draft(event=built, campaign=campaign, cause=state.started_id, ordinal=0, key=campaign, round=0, cost=cost)
        ]

    def _cold_start(self, campaign: str, state: TrainerState, scanned: CorpusScanned) -> Sequence[Draft]:
        assert state.plan is not None
        assert state.started_id is not None
        try:
            event, cost = self._learner.cold_start(state.plan, scanned)
        except TrainingFault as error:
            failed = TrainingFailed(round=0, step=0, reason=str(error))
            return [Draft(event=failed, campaign=campaign, cause=state.started_id, ordinal=0, key=campaign, round=0)]
        done: ColdStartCompleted = event
        first = Draft(
            event=done, campaign=campaign, cause=state.started_id, ordinal=0, key=campaign, round=0, cost=cost
        )
        produced = CheckpointProduced(
            round=0, checkpoint=done.checkpoint, parent=None, steps=0, healthy=True, health=()
        )
        return [first, Draft(event=produced, campaign=campaign, cause=first.id, ordinal=0, key=campaign, round=0)]

    def _step(self, campaign: str, state: TrainerState, step: int) -> Sequence[Draft]:
        planned_id, planned = state.current()
        try:
            rewound = self._learner.prepare(campaign, state, step)
            if rewound is not None:
                return [
                    Draft(
                        event=rewound,
                        campaign=campaign,
                        cause=planned_id,
                        ordinal=rewound.attempt,
                        key=campaign,
                        round=planned.round,
                    )
                ]
            event, cost = self._learner.step(campaign, state, step)
        except TrainingFault as error:
            failed = TrainingFailed(round=planned.round, step=step, reason=str(error))
            return [
                Draft(event=failed, campaign=campaign, cause=planned_id, ordinal=0, key=campaign, round=planned.round)
            ]
        ordinal = event.attempt * len(planned.steps) + step
        return [
            Draft(
                event=event,
                campaign=campaign,
                cause=planned_id,
                ordinal=ordinal,
                key=campaign,
                round=planned.round,
                cost=cost,
            )
        ]

    def _end_round(self, campaign: str, state: TrainerState, reason: str) -> Sequence[Draft]:
        planned_id, planned = state.current()
        event = CheckpointProduced(
            round=planned.round,
            checkpoint=state.last_healthy(),
            parent=planned.start_checkpoint,
            steps=state.healthy_steps(),
            healthy=not reason,
            health=(reason,) if reason else (),
        )
        self._learner.end_round()
        return [Draft(event=event, campaign=campaign, cause=planned_id, ordinal=0, key=campaign, round=planned.round)]
