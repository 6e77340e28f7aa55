"""The planner: what is evaluated, practised and finished next.

CheckpointProduced          -> EvaluationRequested, naming its comparators
TargetStagePrescribed, bank -> RoundPlanned, once the bank has every state that the round draws and has retired those that
                               earlier rounds drew
RoundPlanned, steps, lag    -> GroupRequested for each slot of the steps that may be sampled now
an untrainable group        -> GroupAbandoned; GroupRequested again, with the next attempt, once the step's first groups are
                               settled and the breaker held
too many missing rewards    -> RoundBroken: nothing more of that round is sampled (deciders.breaker)
a promotion decision        -> RoundCompleted; after the last one CampaignFinished
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from bat_events.deciders.bank import pool_mix
from bat_events.deciders.breaker import Breaker, Wave
from bat_events.deciders.controls import Controls
from bat_events.deciders.groups import GroupOutcomes
from bat_events.deciders.interface import Draft, draft_of
from bat_events.domain.bank import SourceCell
from bat_events.domain.canonical import seed63
from bat_events.domain.grouping import group_id, group_seed
from bat_events.domain.roundplan import PlannedState, plan_round, required_states
from bat_events.domain.vocabulary import Focus, Stage
from bat_events.events.bank import StateAdmitted, StateRetired
from bat_events.events.fact import Fact
from bat_events.events.plan import CampaignPlan
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted, TargetStagePrescribed
from bat_events.events.rounds import (
    CampaignFinished,
    EvaluationRequested,
    GroupAbandoned,
    GroupRequested,
    MissingReason,
    PlannedSlot,
    PlannedStep,
    RoundBroken,
    RoundCompleted,
    RoundPlanned,
)
from bat_events.events.training import CheckpointProduced, TrainingFailed, TrainingStepCompleted

Promotion = CheckpointPromoted | CheckpointHeld


class Planner:
    """Folds everything that lets work begin; see the module."""

    name: ClassVar[str] = "planner"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[str, ...]] = (
        "campaign",
        "bank.ready",
        "curriculum",
        "training",
        "promotion",
        "rollout",
        "reward",
    )
    outputs: ClassVar[tuple[str, ...]] = ("round", "group")

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign
        self._controls = Controls()
        self._bank: dict[SourceCell, dict[int, StateAdmitted]] = {}
        self._retired: set[str] = set()
        self._prescribed: dict[int, tuple[str, TargetStagePrescribed]] = {}
        self._produced: dict[int, tuple[str, CheckpointProduced]] = {}
        self._steps: dict[tuple[int, int], tuple[int, str, TrainingStepCompleted]] = {}
        self._promotions: dict[int, tuple[str, Promotion]] = {}
        self._failures: dict[int, str] = {}
        self._groups = GroupOutcomes()
        self._breaker = Breaker(campaign)
        self._plans: dict[int, RoundPlanned] = {}

    def apply(self, fact: Fact) -> None:
        """See Decider.apply."""
        self._controls.apply(fact)
        self._groups.apply(fact)
        self._breaker.apply(fact)
        event = fact.event
        if isinstance(event, StateAdmitted):
            cell = SourceCell(event.focus, event.track, event.outcome)
            self._bank.setdefault(cell, {}).setdefault(event.rank, event)
        elif isinstance(event, StateRetired):
            self._retired.add(event.state)
        elif isinstance(event, TargetStagePrescribed):
            self._prescribed.setdefault(event.round, (fact.id, event))
        elif isinstance(event, CheckpointProduced):
            self._produced.setdefault(event.round, (fact.id, event))
        elif isinstance(event, TrainingStepCompleted):
            place = (event.round, event.step)
            # The first attempt stands as the cause of what follows: a rewound step asks for nothing twice.
            if place not in self._steps or self._steps[place][0] > event.attempt:
                self._steps[place] = (event.attempt, fact.id, event)
        elif isinstance(event, CheckpointPromoted | CheckpointHeld):
            self._promotions.setdefault(event.round, (fact.id, event))
        elif isinstance(event, TrainingFailed):
            self._failures.setdefault(event.round, fact.id)

    def state(self) -> Any:
        """See Decider.state (the plans are derived, so they are no part of it)."""
        return (
            self._controls,
            sorted((cell, sorted(ranks.items())) for cell, ranks in self._bank.items()),
            sorted(self._retired),
            sorted(self._prescribed.items()),
            sorted(self._produced.items()),
            sorted(self._steps.items()),
            sorted(self._promotions.items()),
            sorted(self._failures.items()),
            self._groups.state(),
            self._breaker.state(),
        )

    def required(self) -> Sequence[Draft]:
        """Everything that may begin now; see the module."""
        plan = self._controls.plan
        if plan is None or (self._controls.paused and self._controls.cancelled_id is None):
            return []
        drafts = list(self._finish(plan))
        if self._controls.cancelled_id is not None or self._failures:
            return drafts
        drafts += self._evaluations(plan)
        for number in sorted(self._prescribed):
            planned = self._plan(number, plan)
            if planned is None:
                break
            drafts.append(planned)
            drafts += self._requests(planned, plan)
            drafts += self._broken(planned, plan)
        return drafts

    def _draft(self, event: Any, cause: str, ordinal: int, number: int | None, key: str | None = None) -> Draft:
        return draft_of(
            event, campaign=self._campaign, cause=cause, ordinal=ordinal, key=key or self._campaign, round_=number
        )

    def _evaluations(self, plan: CampaignPlan) -> Iterator[Draft]:
        for number, (cause, produced) in sorted(self._produced.items()):
            comparators: tuple[str, ...] = ()
            if number > 0:
                if number - 1 not in self._promotions:
                    continue
                before = self._promotions[number - 1][1]
                comparators = tuple(dict.fromkeys((next_checkpoint(before), before.best_so_far)))
            event = EvaluationRequested(
                round=number,
                checkpoint=produced.checkpoint,
                comparators=comparators,
                tracks=plan.tracks,
                repeats=plan.evaluation.repeats,
                temperature=plan.evaluation.temperature,
                seed=seed63("evaluation", plan.seed),
            )
            yield self._draft(event, cause, 0, number)

    def _plan(self, number: int, plan: CampaignPlan) -> Draft | None:
        cause, prescribed = self._prescribed[number]
        if number not in self._plans:
            planned = self._draw(number, prescribed, plan)
            if planned is None:
                return None
            self._plans[number] = planned
        return self._draft(self._plans[number], cause, 0, number)

    def _draw(self, number: int, prescribed: TargetStagePrescribed, plan: CampaignPlan) -> RoundPlanned | None:
        """The round's states: the lowest ranks that are not retired; None while the bank lacks one of them."""
        drawn = {slot.state for earlier in self._plans.values() for step in earlier.steps for slot in step.slots}
        if not self._may_draw(drawn):
            return None
        available: dict[Focus, list[PlannedState]] = {}
        bodies: dict[str, str] = {}
        mix = pool_mix(plan)
        need = required_states(Stage(prescribed.target_stage), plan.steps_per_round, mix, tracks=plan.tracks)
        for cell, count in need.items():
            ranks = self._bank.get(cell, {})
            taken = rank = 0
            while taken < count:
                if rank not in ranks:
                    return None
                admitted = ranks[rank]
                rank += 1
                if admitted.state in drawn:  # and so retired, see _may_draw
                    continue
                taken += 1
                bodies[admitted.state] = admitted.body
                state = PlannedState(state=admitted.state, focus=cell.focus, track=cell.track, outcome=cell.outcome)
                available.setdefault(cell.focus, []).append(state)
        return round_planned(self._campaign, number, prescribed, plan, available, bodies)

    def _may_draw(self, drawn: set[str]) -> bool:
        """Whether the bank has retired all that earlier rounds drew.

        It does so in the transaction that asks for the states of the round to come, so no round waits for this alone. To
        leave out whatever is retired by now would make a plan depend on when retirements arrive.
        """
        return drawn <= self._retired

    def _requests(self, planned: Draft, plan: CampaignPlan) -> Iterator[Draft]:
        event: RoundPlanned = planned.event  # type: ignore[assignment]
        for step in event.steps:
            behind = step.step - 1 - plan.lag
            cause, weights = planned.id, event.start_checkpoint
            if behind >= 0:
                if (event.round, behind) not in self._steps:
                    return
                _, cause, before = self._steps[(event.round, behind)]
                if not before.healthy or not self._may_go_on(event, behind, plan):
                    return
                weights = before.weights
            for slot in step.slots:
                yield from self._slot(event, step, slot, cause, weights, plan)

    def _may_go_on(self, planned: RoundPlanned, trained: int, plan: CampaignPlan) -> bool:
        """Whether the breaker held in all steps up to one that was trained."""
        return all(self._held(planned.round, step, plan) for step in planned.steps[: trained + 1])

    def _held(self, number: int, step: PlannedStep, plan: CampaignPlan) -> bool:
        """Whether a step's first groups are settled, few enough of their rewards missing."""
        if plan.breaker is None:
            return True
        wave = self._breaker.wave(number, step, plan.group_size)
        return wave is not None and not wave.breaks(plan.breaker.max_missing)

    def _broken(self, planned: Draft, plan: CampaignPlan) -> Iterator[Draft]:
        event: RoundPlanned = planned.event  # type: ignore[assignment]
        if plan.breaker is None:
            return
        for step in event.steps:
            wave = self._breaker.wave(event.round, step, plan.group_size)
            if wave is not None and wave.breaks(plan.breaker.max_missing):
                broken = round_broken(event.round, step.step, wave, plan.breaker.max_missing)
                yield self._draft(broken, planned.id, step.step, event.round)

    def _slot(
        self, planned: RoundPlanned, step: PlannedStep, slot: PlannedSlot, cause: str, weights: str, plan: CampaignPlan
    ) -> Iterator[Draft]:
        number, width = planned.round, len(step.slots)
        for attempt in range(plan.group_attempts):
            if attempt > 0 and not self._may_replace(number, step, plan):
                return
            group = group_id(self._campaign, number, step.step, slot.slot, attempt)
            event, ordinal = group_requested(group, number, step.step, width, slot, attempt, weights, plan)
            requested = self._draft(event, cause, ordinal, number, key=group)
            yield requested
            if not self._groups.untrainable(group, plan.group_size):
                return
            yield from self._abandoned(requested, plan)

    def _may_replace(self, number: int, step: PlannedStep, plan: CampaignPlan) -> bool:
        """Whether untrainable groups of a step may be asked for again."""
        return self._held(number, step, plan)

    def _abandoned(self, requested: Draft, plan: CampaignPlan) -> Iterator[Draft]:
        """That a group is not trained, and why."""
        asked: GroupRequested = requested.event  # type: ignore[assignment]
        place = (asked.round, asked.step, asked.slot, asked.attempt)
        event = group_abandoned(asked.group, place, plan.group_size, self._breaker.reasons([asked.group]))
        yield self._draft(event, requested.id, 0, asked.round, key=asked.group)

    def _finish(self, plan: CampaignPlan) -> Iterator[Draft]:
        completed, best = 0, None
        cause = self._controls.started_id or ""
        for number, (decision_id, decision) in sorted(self._promotions.items()):
            best = decision.best_so_far
            if number == 0:
                continue
            done = self._draft(
                RoundCompleted(
                    round=number,
                    outcome="promoted" if isinstance(decision, CheckpointPromoted) else "held",
                    candidate=decision.checkpoint,
                    next_checkpoint=next_checkpoint(decision),
                ),
                decision_id,
                0,
                number,
            )
            completed, cause = number, done.id
            yield done
        outcome = None
        if self._controls.cancelled_id is not None:
            outcome, cause = "cancelled", self._controls.cancelled_id
        elif self._failures:
            outcome, cause = "training_failed", self._failures[min(self._failures)]
        elif completed >= plan.rounds:
            outcome = "completed"
        if outcome is not None:
            finished = CampaignFinished(outcome=outcome, rounds=completed, best_checkpoint=best)
            yield self._draft(finished, cause, 0, None)


def round_planned(
    campaign: str,
    number: int,
    prescribed: TargetStagePrescribed,
    plan: CampaignPlan,
    available: Mapping[Focus, Sequence[PlannedState]],
    bodies: Mapping[str, str],
) -> RoundPlanned:
    """The plan of a round over exactly the states that it may draw; `bodies` maps them to their artefacts."""
    steps = plan_round(
        campaign,
        number,
        prescribed.target_stage,
        plan.steps_per_round,
        pool_mix(plan),
        available=available,
        tracks=plan.tracks,
    )
    return RoundPlanned(
        round=number,
        target_stage=prescribed.target_stage,
        start_checkpoint=prescribed.start_checkpoint,
        steps=tuple(
            PlannedStep(
                step=index,
                slots=tuple(
                    PlannedSlot(
                        slot=slot.slot,
                        pool=slot.pool,
                        focus=slot.state.focus,
                        track=slot.state.track,
                        outcome=slot.state.outcome,
                        state=slot.state.state,
                        body=bodies[slot.state.state],
                    )
                    for slot in slots
                ),
            )
            for index, slots in enumerate(steps)
        ),
    )


def group_requested(
    group: str, number: int, step: int, width: int, slot: PlannedSlot, attempt: int, weights: str, plan: CampaignPlan
) -> tuple[GroupRequested, int]:
    """The request of one try at a slot of a step that is `width` slots wide, and its ordinal among its cause's events."""
    event = GroupRequested(
        group=group,
        round=number,
        step=step,
        slot=slot.slot,
        attempt=attempt,
        pool=slot.pool,
        focus=slot.focus,
        track=slot.track,
        state=slot.state,
        body=slot.body,
        weights=weights,
        seed=group_seed(plan.seed, group),
        size=plan.group_size,
    )
    return event, (step * width + slot.slot) * plan.group_attempts + attempt


def group_abandoned(
    group: str, place: tuple[int, int, int, int], size: int, reasons: tuple[MissingReason, ...]
) -> GroupAbandoned:
    """What is said of a group of `size` rollouts that cannot be trained; its place is round, step, slot, attempt."""
    number, step, slot, attempt = place
    return GroupAbandoned(
        group=group,
        round=number,
        step=step,
        slot=slot,
        attempt=attempt,
        size=size,
        rewards=size - sum(reason.count for reason in reasons),
        reasons=reasons,
    )


def round_broken(number: int, step: int, wave: Wave, max_missing: float) -> RoundBroken:
    """What is said of a round that ends at a step."""
    return RoundBroken(
        round=number,
        step=step,
        rollouts=wave.rollouts,
        missing=wave.missing,
        max_missing=max_missing,
        reasons=wave.reasons,
    )


def next_checkpoint(decision: Promotion) -> str:
    """Where the round after this decision starts."""
    return decision.checkpoint if isinstance(decision, CheckpointPromoted) else decision.fallback
