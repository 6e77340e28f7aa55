"""The planner without a breaker, followed: what is open is kept, states in stock, slots and groups that are not settled."""

import copy
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter

from bat_events.deciders.bank import pool_mix
from bat_events.deciders.breaker import missing_of
from bat_events.deciders.incremental.planned import Open, Outcomes, Place, Requested, Stock, trainable
from bat_events.deciders.interface import Draft
from bat_events.deciders.old.planner import PlannerV1, PlannerV2
from bat_events.deciders.planner import group_requested, round_planned
from bat_events.domain.bank import SourceCell
from bat_events.domain.grouping import group_id
from bat_events.domain.roundplan import PlannedState, required_states
from bat_events.domain.vocabulary import Focus
from bat_events.events.bank import StateAdmitted, StateRetired
from bat_events.events.fact import Fact
from bat_events.events.plan import CampaignPlan
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted, TargetStagePrescribed
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted, RolloutFailed
from bat_events.events.rounds import PlannedSlot, RoundPlanned
from bat_events.events.training import CheckpointProduced, TrainingFailed, TrainingStepCompleted


class PlannerFollower(PlannerV2):
    """Of version 2; see the module. `required` and `state` are the decider's, not the follower's."""

    def __init__(self, campaign: str) -> None:
        super().__init__(campaign)
        self._stock: dict[SourceCell, Stock] = {}
        self._unretired: set[str] = set()  # drawn, and not known to be retired
        self._trained: dict[tuple[int, int], tuple[int, str, str, bool]] = {}  # attempt, id, weights, healthy
        self._outcomes: dict[str, Outcomes] = {}  # of groups that are not settled
        self._early: dict[str, Outcomes] = {}  # of groups that were settled before they were requested
        self._waiting: dict[str, Requested] = {}  # groups that are not settled, and that may have to be replaced
        self._lost: list[tuple[Requested, Outcomes]] = []  # settled, and cannot be trained
        self._open: dict[int, Open] = {}
        self._planned: set[int] = set()
        self._left: set[int] = set()  # rounds that another version plans
        self._said: set[str] = set()  # ids of decisions about whole rounds
        self._changed = True  # something that those decisions depend on

    def apply(self, fact: Fact) -> None:
        """See Follower.apply."""
        event = fact.event
        if type(event) is RewardScored or type(event) is RolloutFailed or type(event) is RewardWithheld:
            self._ended(event)
        elif type(event) is StateAdmitted:
            self._stock.setdefault(SourceCell(event.focus, event.track, event.outcome), Stock()).admit(event)
        elif type(event) is StateRetired:
            if event.state in self._unretired:
                self._unretired.discard(event.state)
            else:
                self._retired.add(event.state)
        elif type(event) is TrainingStepCompleted:
            place = (event.round, event.step)
            if place not in self._trained or self._trained[place][0] > event.attempt:
                self._trained[place] = (event.attempt, fact.id, event.weights, event.healthy)
        elif type(event) is not RolloutCompleted:
            self._fold_rounds(fact)

    def _fold_rounds(self, fact: Fact) -> None:
        event, began = fact.event, self._controls.plan is None
        self._controls.apply(fact)
        if began and (plan := self._controls.plan) is not None:
            for group in [g for g, outcomes in self._outcomes.items() if len(outcomes) >= plan.group_size]:
                self._close(group)
        if isinstance(event, TargetStagePrescribed):
            self._prescribed.setdefault(event.round, (fact.id, event))
        elif isinstance(event, CheckpointProduced):
            self._produced.setdefault(event.round, (fact.id, event))
        elif isinstance(event, CheckpointPromoted | CheckpointHeld):
            self._promotions.setdefault(event.round, (fact.id, event))
        elif isinstance(event, TrainingFailed):
            self._failures.setdefault(event.round, fact.id)
        self._changed = True

    def fresh(self) -> Sequence[Draft]:
        """See Follower.fresh."""
        plan = self._controls.plan
        if plan is None or (self._controls.paused and self._controls.cancelled_id is None):
            return []
        ended = self._controls.cancelled_id is not None or bool(self._failures)
        found: list[Draft] = []
        if self._changed:
            self._changed = False
            found += self._unsaid([*self._finish(plan), *(() if ended else self._evaluations(plan))])
        if ended:
            return found
        groups = list(self._replacements(plan))
        plans = dict(self._new_plans(plan))
        groups += self._opened(plan)
        groups.sort(key=itemgetter(0))
        for number in sorted({*plans, *(place[0] for place, _ in groups)}):
            found += [plans[number]] if number in plans else []
            found += [draft for place, draft in groups if place[0] == number]
        found += self._last()
        self._forget()
        return found

    def _last(self) -> Sequence[Draft]:
        """What is said after everything else."""
        return ()

    def _unsaid(self, drafts: Sequence[Draft]) -> list[Draft]:
        found = [draft for draft in drafts if draft.id not in self._said]
        self._said.update(draft.id for draft in found)
        return found

    def _ended(self, event: RewardScored | RolloutFailed | RewardWithheld) -> None:
        if event.round in self._left:
            return
        outcomes = self._outcomes.setdefault(event.group, {})
        outcomes.setdefault(event.index, missing_of(event))
        plan = self._controls.plan
        if plan is not None and len(outcomes) >= plan.group_size:
            self._close(event.group)

    def _close(self, group: str) -> None:
        """All rollouts of a group have ended."""
        outcomes = self._outcomes.pop(group)
        asked = self._waiting.pop(group, None)
        if asked is None:
            self._early.setdefault(group, outcomes)
        elif not trainable(outcomes):
            self._lost.append((asked, outcomes))

    def _new_plans(self, plan: CampaignPlan) -> Iterator[tuple[int, Draft]]:
        for number in sorted(set(self._prescribed) - self._planned):
            cause, prescribed = self._prescribed[number]
            if number in self._left:
                return  # until it is told what was planned
            planned = self._drawn(number, prescribed, plan)
            if planned is None:
                return
            self._planned.add(number)
            draft = self._draft(planned, cause, 0, number)
            self._open[number] = Open(draft.id, planned)
            self._begin(planned, plan)
            yield number, draft

    def _begin(self, planned: RoundPlanned, plan: CampaignPlan) -> None:
        """A round was planned."""

    def _drawn(self, number: int, prescribed: TargetStagePrescribed, plan: CampaignPlan) -> RoundPlanned | None:
        if not self._may_draw(self._unretired):
            return None
        need = required_states(prescribed.target_stage, plan.steps_per_round, pool_mix(plan), tracks=plan.tracks)
        empty = Stock()
        if any(len(self._stock.get(cell, empty).states) < count for cell, count in need.items()):
            return None
        available: dict[Focus, list[PlannedState]] = {}
        bodies: dict[str, str] = {}
        for cell, count in need.items():
            for state, body in [self._stock[cell].states[at] for at in range(count)] if count else ():
                bodies[state] = body
                available.setdefault(cell.focus, []).append(
                    PlannedState(state=state, focus=cell.focus, track=cell.track, outcome=cell.outcome)
                )
        planned = round_planned(self._campaign, number, prescribed, plan, available, bodies)
        self._take_out({slot.state for step in planned.steps for slot in step.slots})
        return planned

    def take_over(self, before: "PlannerFollower", held: Collection[str]) -> None:
        """Go on from another version's state; every round that is prescribed by now stays with it.

        `held` are ids of decisions that it said and that nobody heard: they may be of rounds to come.
        """
        self.__dict__.update(copy.deepcopy(before.__dict__))
        self._left = set(self._prescribed)
        self._open, self._waiting, self._lost = {}, {}, []
        self._said -= set(held)
        self._changed = True

    def leave(self, number: int) -> None:
        """A round is another version's to plan."""
        self._left.add(number)

    def adopt(self, planned: RoundPlanned) -> None:
        """Know a round that another version planned: what it drew is out of stock."""
        self._planned.add(planned.round)
        self._take_out({slot.state for step in planned.steps for slot in step.slots})

    def _take_out(self, drawn: set[str]) -> None:
        for stock in self._stock.values():
            if any(state in drawn for state, _ in stock.states):
                stock.states = deque(entry for entry in stock.states if entry[0] not in drawn)
        self._unretired |= drawn - self._retired
        self._retired -= drawn

    def _may_draw(self, drawn: set[str]) -> bool:
        return not drawn

    def _opened(self, plan: CampaignPlan) -> Iterator[tuple[Place, Draft]]:
        """The groups of every step that may be requested by now."""
        for number, round_ in sorted(self._open.items()):
            steps = round_.event.steps
            while round_.next_step < len(steps):
                step = steps[round_.next_step]
                behind = step.step - 1 - plan.lag
                cause, weights = round_.plan_id, round_.event.start_checkpoint
                if behind >= 0:
                    if (number, behind) not in self._trained:
                        break
                    _, cause, weights, healthy = self._trained[(number, behind)]
                    if not healthy or not self._goes_on(round_, behind, plan):
                        break
                round_.next_step += 1
                for slot in step.slots:
                    place = (number, step.step, slot.slot, 0)
                    yield from self._request(place, len(step.slots), slot, cause, weights, plan)

    def _goes_on(self, round_: Open, trained: int, plan: CampaignPlan) -> bool:  # noqa: ARG002
        """Whether a round goes on after a step was trained in good health."""
        return True

    def _request(
        self, place: Place, width: int, slot: PlannedSlot, cause: str, weights: str, plan: CampaignPlan
    ) -> Iterator[tuple[Place, Draft]]:
        """One try at a slot; the tries after it too, as far as this one is known to be lost."""
        number, step, at, attempt = place
        group = group_id(self._campaign, number, step, at, attempt)
        event, ordinal = group_requested(group, number, step, width, slot, attempt, weights, plan)
        draft = self._draft(event, cause, ordinal, number, key=group)
        yield place, draft
        asked = Requested(place, draft.id, width, slot, cause, weights)
        outcomes = self._early.pop(group, None)
        if outcomes is None:
            self._waiting[group] = asked
        elif not trainable(outcomes):
            yield from self._replace(asked, outcomes, plan)

    def _replace(
        self,
        asked: Requested,
        outcomes: Outcomes,  # noqa: ARG002
        plan: CampaignPlan,
    ) -> Iterator[tuple[Place, Draft]]:
        """What follows a group that cannot be trained."""
        yield from self._next_try(asked, plan)

    def _next_try(self, asked: Requested, plan: CampaignPlan) -> Iterator[tuple[Place, Draft]]:
        number, step, slot, attempt = asked.place
        if attempt + 1 < plan.group_attempts:
            place = (number, step, slot, attempt + 1)
            yield from self._request(place, asked.width, asked.slot, asked.cause, asked.weights, plan)

    def _replacements(self, plan: CampaignPlan) -> Iterator[tuple[Place, Draft]]:
        lost, self._lost = self._lost, []
        for asked, outcomes in lost:
            yield from self._replace(asked, outcomes, plan)

    def _forget(self) -> None:
        """Let go of rounds that are requested in full, and of their steps."""
        for number in [
            n for n, open_round in self._open.items() if open_round.next_step == len(open_round.event.steps)
        ]:
            del self._open[number]
        if self._planned:
            oldest = min(self._open, default=max(self._planned))
            for place in [place for place in self._trained if place[0] < oldest]:
                del self._trained[place]


class PlannerFollowerV1(PlannerFollower):
    """Of version 1: waits for no retirement."""

    version = PlannerV1.version

    def _may_draw(self, drawn: set[str]) -> bool:  # noqa: ARG002
        return True
