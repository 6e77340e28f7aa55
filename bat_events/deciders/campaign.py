"""A campaign as people ask about it: what each round practised, what came of it, where it stands. A fold, no decider."""

from dataclasses import dataclass, field
from datetime import datetime

from bat_events.deciders.controls import Controls
from bat_events.deciders.dead_letters import BEHIND, DeadLetters, Letter, OnDeadLetters
from bat_events.domain.vocabulary import Stage
from bat_events.events.boundary import EvaluationReported
from bat_events.events.fact import Fact
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted, TargetStagePrescribed
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted, RolloutFailed
from bat_events.events.rounds import CampaignFinished, GroupRequested, RoundPlanned
from bat_events.events.training import CheckpointProduced, ColdStartCompleted, TrainingFailed, TrainingStepCompleted

TOPICS = (
    "campaign",
    "round",
    "curriculum",
    "group",
    "rollout",
    "reward",
    "training",
    "boundary.report",
    "promotion",
    "dead-letter",
)


@dataclass
class RoundView:
    """One round. Fields are None until their event is there."""

    number: int
    target: Stage | None = None
    corrective: bool = False
    steps_planned: int = 0
    steps: dict[int, TrainingStepCompleted] = field(default_factory=dict)
    groups: int = 0
    rollouts: int = 0
    failed: int = 0
    rewards: int = 0
    withheld: int = 0
    produced: CheckpointProduced | None = None
    report: EvaluationReported | None = None
    decision: CheckpointPromoted | CheckpointHeld | None = None


@dataclass
class CampaignView:
    """Folds one campaign's facts, in any order."""

    campaign: str
    controls: Controls = field(default_factory=Controls)
    rounds: dict[int, RoundView] = field(default_factory=dict)
    cold_start: ColdStartCompleted | None = None
    failed: TrainingFailed | None = None
    finished: CampaignFinished | None = None
    newest: datetime | None = None
    counts: dict[str, int] = field(default_factory=dict)
    letters: DeadLetters = field(default_factory=DeadLetters)

    def apply(self, fact: Fact) -> None:
        """Fold one fact of this campaign."""
        self.controls.apply(fact)
        event = fact.event
        if isinstance(event, OnDeadLetters):
            self.letters.apply(fact.id, event, key=fact.envelope.subject, campaign=fact.envelope.campaign)
            return
        name = type(event).__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        if self.newest is None or fact.envelope.time > self.newest:
            self.newest = fact.envelope.time
        if isinstance(event, ColdStartCompleted):
            self.cold_start = event
        elif isinstance(event, TrainingFailed):
            self.failed = event
        elif isinstance(event, CampaignFinished):
            self.finished = event
        elif isinstance(event, TargetStagePrescribed):
            view = self._round(event.round)
            view.target, view.corrective = event.target_stage, event.corrective
        elif isinstance(event, RoundPlanned):
            self._round(event.round).steps_planned = len(event.steps)
        elif isinstance(event, TrainingStepCompleted):
            self._round(event.round).steps[event.step] = event
        elif isinstance(event, CheckpointProduced):
            self._round(event.round).produced = event
        elif isinstance(event, EvaluationReported):
            self._round(event.round).report = event
        elif isinstance(event, CheckpointPromoted | CheckpointHeld):
            self._round(event.round).decision = event
        else:
            self._count(fact)

    def _count(self, fact: Fact) -> None:
        event = fact.event
        if isinstance(event, GroupRequested):
            self._round(event.round).groups += 1
        elif isinstance(event, RolloutCompleted):
            self._round(event.round).rollouts += 1
        elif isinstance(event, RolloutFailed):
            self._round(event.round).failed += 1
        elif isinstance(event, RewardScored):
            self._round(event.round).rewards += 1
        elif isinstance(event, RewardWithheld):
            self._round(event.round).withheld += 1

    def _round(self, number: int) -> RoundView:
        return self.rounds.setdefault(number, RoundView(number))

    @property
    def state(self) -> str:
        """One word."""
        if self.finished is not None:
            return self.finished.outcome
        if self.controls.started is None:
            return "unknown"
        if self.controls.cancelled_id is not None:
            return "cancelling"
        return "paused" if self.controls.paused else "open"

    def halted(self) -> list[Letter]:
        """Parked records under the campaign's own key: services that wait for them wait with the whole campaign."""
        return [letter for letter in self.letters.open() if letter.event.waits and letter.key == self.campaign]

    def doing(self) -> str:
        """What the campaign is at, in words."""
        if self.state != "open":
            return self.state
        if halted := self.halted():
            places = ", ".join(dict.fromkeys(letter.place for letter in halted if letter.event.cause != BEHIND))
            return f"halted by {places}"
        if self.cold_start is None:
            return "cold start"
        if 0 not in self.rounds or self.rounds[0].decision is None:
            return "first evaluation"
        view = self.rounds[max(self.rounds)]
        if view.produced is not None and view.decision is None:
            return f"round {view.number}: evaluating"
        if view.steps_planned:
            return f"round {view.number}: step {len(view.steps)} of {view.steps_planned}, target {view.target}"
        return f"round {view.number + 1}: planning"
