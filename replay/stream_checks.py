"""Recorded facts held against each other while a log streams by, and the window of facts that later ones name.

A fact stays until what it causes was checked: a request until its state, a state until its verdict, a rollout until its
reward. What an update of weights was made of, and the digest of a state's workspace, stay until the round after it: a
rewound step is made of it again.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from bat_events.codec import Fact
from bat_events.deciders.groups import GroupOutcomes
from bat_events.domain.grouping import group_id
from bat_events.events.bank import (
    LeakageVerdict,
    StateAdmitted,
    StateRetired,
    StateSynthesized,
    SynthesisFailed,
    SynthesisRequested,
)
from bat_events.events.boundary import EvaluationReported
from bat_events.events.campaign import CampaignStarted
from bat_events.events.rollouts import (
    IsolationBreached,
    RewardScored,
    RewardWithheld,
    RolloutCompleted,
    RolloutFailed,
)
from bat_events.events.rounds import CampaignFinished, EvaluationRequested, GroupRequested, PlannedStep, RoundPlanned
from bat_events.events.training import CheckpointProduced, TrainingStepCompleted
from bat_events.log.topics import BY_NAME
from bat_events.replay.evaluation import NAME as REPORTS
from bat_events.replay.evaluation import report_sides
from bat_events.replay.findings import Side
from bat_events.replay.identity import NAME as IDENTITY
from bat_events.replay.identity import pinned_versions
from bat_events.replay.lines import Line
from bat_events.replay.practice import SAME, STEPS, own_sides, step_sides
from bat_events.replay.receipts import BREACHES, CHAINS, PROOFS, breach_sides, chain_sides, proof_sides
from bat_events.replay.scores import NAME as EVIDENCE
from bat_events.replay.scores import Scores
from bat_events.replay.stream_walk import Mismatch

_CAUSES = frozenset(
    {SynthesisRequested, StateSynthesized, GroupRequested, RolloutCompleted, RoundPlanned, EvaluationRequested}
)
_RELEASES = frozenset({StateSynthesized, SynthesisFailed, LeakageVerdict, RewardScored, RewardWithheld})
"""What ends the need for its cause."""
_QUIET = frozenset({SynthesisRequested, StateSynthesized, SynthesisFailed, LeakageVerdict, StateAdmitted, StateRetired})
"""Most of a log, of which nothing else is kept."""
_RULE = "bat-event-id/1"
_REPEATS = {kind: (name, attrgetter(*fields)) for kind, (name, fields) in SAME.items()}


class Window:
    """The facts that others may still name (see Known), and what was trained on lately."""

    def __init__(self, campaign: str, started: Fact) -> None:
        self.campaign, self.started = campaign, started
        self.outcome: str | None = None
        event = started.event
        assert isinstance(event, CampaignStarted)
        self.plan = event.plan
        self.outcomes = GroupOutcomes()
        self.rollouts: dict[tuple[str, int], str] = {}
        self.workspaces: dict[str, str] = {}  # state -> digest of its workspace
        self.breached: dict[str, RolloutCompleted] = {}
        self._facts: dict[str, Fact] = {started.id: started}
        self._rounds: dict[int, list[str]] = {}  # round -> ids and groups to let go of
        self._reports: list[EvaluationReported] = []

    def fact(self, id_: str) -> Fact | None:
        """See Known."""
        return self._facts.get(id_)

    def reports(self) -> Iterator[EvaluationReported]:
        """See Known."""
        return iter(self._reports)

    def take(self, fact: Fact) -> None:
        """A fact that was checked, or is a decision that was."""
        event = fact.event
        kind = type(event)
        if kind in _RELEASES:
            self._facts.pop(fact.envelope.cause, None)
        if kind in _CAUSES:
            self._facts[fact.id] = fact
        if isinstance(event, StateSynthesized):
            self.workspaces[event.state] = event.workspace_digest
        if kind in _QUIET:
            return
        if isinstance(event, GroupRequested | RoundPlanned):
            self._rounds.setdefault(event.round, []).append(fact.id)
        elif isinstance(event, RolloutCompleted):
            self.rollouts[(event.group, event.index)] = event.rollout
            if any(receipt.end == "breach" for receipt in event.receipts or ()):
                self.breached[event.rollout] = event
        elif isinstance(event, RewardScored | RewardWithheld | RolloutFailed):
            self.outcomes.apply(fact)
        elif isinstance(event, EvaluationReported):
            self._reports.append(event)
        elif isinstance(event, CampaignFinished):
            self.outcome = event.outcome
        elif isinstance(event, CheckpointProduced):
            self._let_go(event.round - 1)

    def _let_go(self, last: int) -> None:
        """Forget what rounds up to this one were made of."""
        for number in [number for number in self._rounds if number <= last]:
            for id_ in self._rounds.pop(number):
                fact = self._facts.pop(id_, None)
                if fact is not None and isinstance(fact.event, GroupRequested):
                    self.outcomes.forget(fact.event.group)
                    self.workspaces.pop(fact.event.state, None)
                    for index in range(fact.event.size):
                        self.breached.pop(self.rollouts.pop((fact.event.group, index), ""), None)


@dataclass(frozen=True, slots=True)
class _Step:
    """An update that waits for its groups to end: `tries` are the groups of each slot, in order of attempt."""

    event: TrainingStepCompleted
    planned: Fact | None
    tries: list[list[str]]


class Checks:
    """Counts what was checked; the first fact that does not follow is a Mismatch."""

    def __init__(self, window: Window, scores: Scores) -> None:
        self.counts: dict[str, int] = {}
        self.signers: dict[str, int] = {}  # see check_receipts
        self.scores = scores
        self._window = window
        self._pinned = {name: str(version) for name, version in pinned_versions(window.started).items()}
        self._steps: list[_Step] = []

    def identity(self, line: Line, type_name: str) -> None:
        """See identity.py. That the cause is on the log is known: what is checked has passed after it."""
        text = f"{_RULE}\n{line.campaign}\n{line.cause}\n{type_name}\n{line.ordinal}"
        writer, _, version = line.logic.partition("/")
        if (
            line.id != hashlib.sha256(text.encode()).hexdigest()[:32]
            or writer != BY_NAME[line.topic].writer
            or line.subject != line.key.decode(errors="replace")
            or self._pinned.get(writer, version) != version
        ):
            raise Mismatch("an id, a cause or a writer does not fit")
        self._count(IDENTITY)

    def decision(self, line: Line) -> None:
        """What `identity` says of a decision whose version, cause, type and ordinal are the rules' own, and so its id."""
        if line.logic.partition("/")[0] != BY_NAME[line.topic].writer:
            raise Mismatch("a writer does not fit")
        self._count(IDENTITY)

    def fact(self, fact: Fact) -> None:
        """Check a fact against those that are there."""
        kind = type(fact.event)
        repeats = _REPEATS.get(kind)
        if repeats is not None:
            name, fields = repeats
            cause = self._window.fact(fact.envelope.cause)
            try:
                same = cause is not None and fields(fact.event) == fields(cause.event)
            except AttributeError:
                same = False
            if not same:
                raise Mismatch(f"{name}: a fact is not of its cause")
            self._hold(name, own_sides(fact))
            self._receipts(fact, cause)
        elif isinstance(fact.event, IsolationBreached):
            self._hold(BREACHES, breach_sides(fact.event, self._window.breached.get(fact.event.rollout)))
        elif isinstance(fact.event, EvaluationReported):
            self._hold(REPORTS, report_sides(fact, fact.event, self._window))
        elif isinstance(fact.event, TrainingStepCompleted):
            planned = self._window.fact(fact.envelope.cause)
            step = None
            if planned is not None and isinstance(planned.event, RoundPlanned):
                step = next((part for part in planned.event.steps if part.step == fact.event.step), None)
            self._steps.append(_Step(fact.event, planned, self._tries(fact.event, step)))

    def _receipts(self, fact: Fact, cause: Fact | None) -> None:
        event = fact.event
        if isinstance(event, RolloutCompleted) and event.receipts is not None:
            self._hold(CHAINS, chain_sides(event, self._window.workspaces.get(event.state)))
            if event.signer is not None:
                self.signers[event.signer] = self.signers.get(event.signer, 0) + 1
        elif isinstance(event, RewardScored):
            sides = proof_sides(event, cause, self._window)
            if sides is not None:
                self._hold(PROOFS, sides)
            again = self.scores.sides(event, cause)
            if again is not None:
                self._hold(EVIDENCE, again)

    def steps(self, *, all_: bool = False) -> None:
        """Check the updates whose groups have all ended by now; with `all_` the others as well."""
        waiting, self._steps = self._steps, []
        for entry in waiting:
            if all_ or self._settled(entry):
                plan = None if entry.planned is None else entry.planned.event
                window = self._window
                self._hold(STEPS, step_sides(entry.event, plan, window, window.outcomes, window.rollouts))
            else:
                self._steps.append(entry)

    def _tries(self, event: TrainingStepCompleted, step: PlannedStep | None) -> list[list[str]]:
        campaign, attempts = self._window.campaign, range(self._window.plan.group_attempts)
        slots = () if step is None else step.slots
        return [[group_id(campaign, event.round, event.step, slot.slot, n) for n in attempts] for slot in slots]

    def _settled(self, entry: "_Step") -> bool:
        size, outcomes = self._window.plan.group_size, self._window.outcomes
        for tries in entry.tries:
            for group in tries:
                if outcomes.rewards(group, size) is None:
                    return False
                if not outcomes.untrainable(group, size):
                    break
        return True

    def _hold(self, name: str, sides: list[Side]) -> None:
        for _, recorded, recomputed in sides:
            if recorded != recomputed:
                raise Mismatch(f"{name}: a fact does not follow")
        self._count(name)

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
