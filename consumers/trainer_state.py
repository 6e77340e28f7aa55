"""What the trainer folds of one campaign: which step is due, on which groups, after which weights."""

from dataclasses import dataclass, field

from bat_events.codec import Fact
from bat_events.deciders.breaker import Breaker
from bat_events.deciders.controls import Controls
from bat_events.deciders.groups import GroupOutcomes
from bat_events.domain.grouping import group_id
from bat_events.events.bank import LeakageVerdict
from bat_events.events.base import Event
from bat_events.events.corpus import CorpusBuilt, CorpusScanned
from bat_events.events.plan import CampaignPlan
from bat_events.events.rollouts import RolloutCompleted
from bat_events.events.rounds import CampaignFinished, PlannedSlot, PlannedStep, RoundBroken, RoundPlanned
from bat_events.events.training import (
    CheckpointProduced,
    TrainingFailed,
    TrainingRewound,
    TrainingStepCompleted,
)


@dataclass
class TrainerState:
    """Folded inputs and own outputs. Rollouts are kept until their round's candidate is produced."""

    campaign: str
    controls: Controls = field(default_factory=Controls)
    groups: GroupOutcomes = field(default_factory=GroupOutcomes)
    rollouts: dict[str, dict[int, RolloutCompleted]] = field(default_factory=dict)
    planned: dict[int, tuple[str, RoundPlanned]] = field(default_factory=dict)
    broken: dict[tuple[int, int], RoundBroken] = field(default_factory=dict)
    produced: dict[int, CheckpointProduced] = field(default_factory=dict)
    steps: dict[tuple[int, int], TrainingStepCompleted] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    corpus: CorpusBuilt | None = None
    scanned: CorpusScanned | None = None
    finished: bool = False
    failed: bool = False
    breaker: Breaker = field(init=False)

    def __post_init__(self) -> None:
        self.breaker = Breaker(self.campaign)

    def apply(self, fact: Fact) -> None:
        """Fold an input. First what there is most of: each type that an event is not of takes time."""
        event = fact.event
        if isinstance(event, LeakageVerdict):  # stands on the topic of CorpusScanned
            return
        if isinstance(event, RolloutCompleted):
            if event.round not in self.produced:
                self.rollouts.setdefault(event.group, {}).setdefault(event.index, event)
            return
        self.controls.apply(fact)
        self.groups.apply(fact)
        self.breaker.apply(fact)
        if isinstance(event, RoundPlanned):
            self.planned.setdefault(event.round, (fact.id, event))
        elif isinstance(event, RoundBroken):
            self.broken.setdefault((event.round, event.step), event)
        elif isinstance(event, CorpusScanned):
            self.scanned = self.scanned or event
        elif isinstance(event, CampaignFinished):
            self.finished = True

    def learn(self, event: Event, _: str) -> None:
        """Fold an own output."""
        if isinstance(event, CheckpointProduced):
            if self.produced.setdefault(event.round, event) is event:
                self._forget(event.round)
        elif isinstance(event, TrainingStepCompleted):
            self.steps[(event.round, event.step)] = event
        elif isinstance(event, TrainingRewound):
            self.attempts[event.round] = event.attempt
            for place in [p for p in self.steps if p[0] == event.round and p[1] >= event.step]:
                del self.steps[place]
        elif isinstance(event, CorpusBuilt):
            self.corpus = self.corpus or event
        elif isinstance(event, TrainingFailed):
            self.failed = True

    @property
    def plan(self) -> CampaignPlan | None:
        """The campaign's settings."""
        return self.controls.plan

    @property
    def started_id(self) -> str | None:
        """The id of CampaignStarted."""
        return self.controls.started_id

    @property
    def closed(self) -> bool:
        """Whether nothing will be due any more (or not now, while paused)."""
        return self.finished or self.failed or not self.controls.open

    @property
    def cold_start_due(self) -> bool:
        """Whether the first weights are still to be made."""
        return 0 not in self.produced

    def open_round(self) -> int | None:
        """The planned round without a candidate."""
        return next((number for number in sorted(self.planned) if number not in self.produced), None)

    def current(self) -> tuple[str, RoundPlanned]:
        """The open round's plan. Raises LookupError when none is open."""
        number = self.open_round()
        if number is None:
            raise LookupError("no round is open")
        return self.planned[number]

    def due(self) -> int | str | None:
        """A step's number when it can be trained, a reason ("" for a whole round) when the round ends, else None."""
        number = self.open_round()
        if number is None or self.plan is None:
            return None
        planned = self.planned[number][1]
        done = [self.steps[(number, step.step)] for step in planned.steps if (number, step.step) in self.steps]
        if done and not done[-1].healthy:
            return f"step {done[-1].step}: " + "; ".join(done[-1].health)
        if len(done) == len(planned.steps):
            return ""
        step = planned.steps[len(done)]
        if self._breaks(number, step):
            word = self.broken.get((number, step.step))
            return None if word is None else broken_off(word)  # the planner says it, and has not yet
        ready = True
        for slot in step.slots:
            group = self.group_of(number, step.step, slot)
            if group == "":
                return f"step {step.step} slot {slot.slot}: {self.plan.group_attempts} groups could not be trained"
            ready = ready and group is not None
        return step.step if ready else None

    def _breaks(self, number: int, step: PlannedStep) -> bool:
        """Whether the planner breaks the round off in this step: judged here too, so that no step is trained meanwhile."""
        if self.plan is None or self.plan.breaker is None:
            return False
        wave = self.breaker.wave(number, step, self.plan.group_size)
        return wave is not None and wave.breaks(self.plan.breaker.max_missing)

    def group_of(self, number: int, step: int, slot: PlannedSlot) -> str | None:
        """The group to train in a slot: None while it is not settled, "" when every try was used up."""
        assert self.plan is not None
        for attempt in range(self.plan.group_attempts):
            group = group_id(self.campaign, number, step, slot.slot, attempt)
            rewards = self.groups.rewards(group, self.plan.group_size)
            if rewards is None:
                return None
            present = [index for index, reward in enumerate(rewards) if reward is not None]
            if len(present) >= 2:
                there = self.rollouts.get(group, {})
                return group if all(index in there for index in present) else None
        return ""

    def last_healthy(self) -> str:
        """The weights that the open round's candidate carries."""
        number, planned = self.current()[1].round, self.current()[1]
        weights = planned.start_checkpoint
        for step in planned.steps:
            event = self.steps.get((number, step.step))
            if event is None or not event.healthy:
                break
            weights = event.weights
        return weights

    def healthy_steps(self) -> int:
        """How many healthy steps the open round has."""
        number = self.current()[1].round
        return sum(1 for place, event in self.steps.items() if place[0] == number and event.healthy)

    def waiting(self) -> str:
        """What the trainer waits for, in words."""
        if self.cold_start_due and self.corpus is not None and self.scanned is None:
            return "waiting for the leakage gate to scan the cold-start corpus: nothing is trained on before"
        number = self.open_round()
        if number is None or self.plan is None:
            return "waiting for a round"
        planned = self.planned[number][1]
        done = sum(1 for place in self.steps if place[0] == number)
        if done >= len(planned.steps):
            return "waiting"
        slots = planned.steps[done].slots
        ready = sum(1 for slot in slots if self.group_of(number, done, slot))
        return f"round {number} step {done}: {ready} of {len(slots)} groups ready"

    def _forget(self, number: int) -> None:
        for group in [g for g, rows in self.rollouts.items() if any(r.round == number for r in rows.values())]:
            del self.rollouts[group]


def broken_off(event: RoundBroken) -> str:
    """Why a round was broken off, in words."""
    reasons = ", ".join(f"{reason.count} {reason.kind} ({reason.reason})" for reason in event.reasons)
    return (
        f"broken off: {event.missing} of {event.rollouts} rollouts of step {event.step} have no reward, "
        f"{event.max_missing:.0%} are allowed: {reasons}"
    )
