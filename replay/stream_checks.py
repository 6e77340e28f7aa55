"""Recorded facts held against each other while a log streams by, and the window of facts that later ones name.

A fact stays until what it causes was checked: a request until its state, a state until its verdict, a rollout until its
reward. What an update of weights was made of stays until the round after it: a rewound step is made of it again. Digests of
states' workspaces stay, as bytes: a state may be drawn in any later round.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import cast

from bat_events.codec import Fact
from bat_events.deciders.groups import GroupOutcomes
from bat_events.domain.compact import Table
from bat_events.domain.grouping import group_id
from bat_events.events.bank import LeakageVerdict, StateSynthesized, SynthesisFailed, SynthesisRequested
from bat_events.events.base import Event
from bat_events.events.boundary import EvaluationReported
from bat_events.events.campaign import CampaignForked, CampaignStarted
from bat_events.events.rollouts import (
    IsolationBreached,
    RewardScored,
    RewardShadowed,
    RewardWithheld,
    RolloutCompleted,
    RolloutFailed,
)
from bat_events.events.rounds import CampaignFinished, EvaluationRequested, GroupRequested, RoundPlanned
from bat_events.events.training import CheckpointProduced, TrainingStepCompleted
from bat_events.log.topics import BY_NAME
from bat_events.replay.evaluation import NAME as REPORTS
from bat_events.replay.evaluation import report_sides
from bat_events.replay.findings import Side
from bat_events.replay.identity import NAME as IDENTITY
from bat_events.replay.identity import pinned_versions
from bat_events.replay.lines import Line
from bat_events.replay.practice import OWN, SAME, STEPS, step_sides
from bat_events.replay.receipts import BREACHES, CHAINS, PROOFS, breach_sides, chain_sides, proof_sides
from bat_events.replay.scores import NAME as EVIDENCE
from bat_events.replay.scores import Scores
from bat_events.replay.stream_walk import Mismatch

_REPEATS = {kind: (name, itemgetter(*fields)) for kind, (name, fields) in SAME.items()}


def _mark(event: RolloutCompleted | RewardShadowed) -> bytes:
    """A digest of what a RewardShadowed repeats from its rollout."""
    return hashlib.sha256("\n".join(map(str, _REPEATS[RewardShadowed][1](event.__dict__))).encode()).digest()


class Window:
    """The facts that others may still name (see Known), and what was trained on lately."""

    def __init__(self, campaign: str, started: Fact) -> None:
        self.campaign, self.started = campaign, started
        self.forks: tuple[CampaignForked, ...] = ()  # a fork is replayed in memory
        self.outcome: str | None = None
        event = started.event
        assert isinstance(event, CampaignStarted)
        self.plan = event.plan
        self.outcomes = GroupOutcomes()
        self.rollouts: dict[tuple[str, int], str] = {}
        self._workspaces = Table(16, 32)  # state -> digest of its workspace
        self._judged = Table(
            16, 32
        )  # rollouts that have a reward -> what a second judge, who may come much later, repeats
        self.breached: dict[str, RolloutCompleted] = {}
        self.facts: dict[str, Fact] = {started.id: started}
        self._rounds: dict[int, list[str]] = {}  # round -> ids and groups to let go of
        self._reports: list[EvaluationReported] = []
        self._takes: dict[type[Event], Callable[[Fact], None]] = {
            SynthesisRequested: self._named,
            EvaluationRequested: self._named,
            StateSynthesized: self._synthesized,
            SynthesisFailed: self._released,
            LeakageVerdict: self._released,
            GroupRequested: self._practised,
            RoundPlanned: self._practised,
            RolloutCompleted: self._rolled_out,
            RolloutFailed: self.outcomes.apply,
            RewardScored: self._rewarded,
            RewardWithheld: self._rewarded,
        }

    def fact(self, id_: str) -> Fact | None:
        """See Known."""
        return self.facts.get(id_)

    def workspace(self, state: str) -> str | None:
        """The digest of a state's workspace."""
        found = self._workspaces.get(bytes.fromhex(state))
        return None if found is None else found.hex()

    def is_of_cause(self, fact: Fact) -> bool:
        """Whether a fact repeats what its cause says; of a rollout also after its reward has passed."""
        cause, event = self.facts.get(fact.envelope.cause), fact.event
        if cause is None and isinstance(event, RewardShadowed):
            return self._judged.get(bytes.fromhex(fact.envelope.cause)) == _mark(event)
        try:
            fields = _REPEATS[type(event)][1]
            return cause is not None and fields(event.__dict__) == fields(cause.event.__dict__)
        except KeyError:  # the cause is an event without such a field
            return False

    def reports(self) -> Iterator[EvaluationReported]:
        """See Known."""
        return iter(self._reports)

    def take(self, fact: Fact) -> None:
        """A fact that was checked, or is a decision that was."""
        take = self._takes.get(type(fact.event))
        if take is not None:
            take(fact)
        elif isinstance(event := fact.event, EvaluationReported):
            self._reports.append(event)
        elif isinstance(event, CampaignFinished):
            self.outcome = event.outcome
        elif isinstance(event, CheckpointProduced):
            self._let_go(event.round - 1)

    def _named(self, fact: Fact) -> None:
        self.facts[fact.envelope.id] = fact

    def _released(self, fact: Fact) -> None:
        """It ends the need for its cause."""
        self.facts.pop(fact.envelope.cause, None)

    def _synthesized(self, fact: Fact) -> None:
        event, envelope = cast("StateSynthesized", fact.event), fact.envelope
        self.facts.pop(envelope.cause, None)
        self.facts[envelope.id] = fact
        self._workspaces.put(bytes.fromhex(event.state), bytes.fromhex(event.workspace_digest))

    def _practised(self, fact: Fact) -> None:
        event = cast("GroupRequested | RoundPlanned", fact.event)
        self.facts[fact.id] = fact
        self._rounds.setdefault(event.round, []).append(fact.id)

    def _rolled_out(self, fact: Fact) -> None:
        event = cast("RolloutCompleted", fact.event)
        self.facts[fact.envelope.id] = fact
        self.rollouts[(event.group, event.index)] = event.rollout
        if event.receipts and any(receipt.end == "breach" for receipt in event.receipts):
            self.breached[event.rollout] = event

    def _rewarded(self, fact: Fact) -> None:
        cause = self.facts.pop(fact.envelope.cause, None)
        if cause is not None and isinstance(cause.event, RolloutCompleted):
            self._judged.put(bytes.fromhex(cause.id), _mark(cause.event))
        self.outcomes.apply(fact)

    def _let_go(self, last: int) -> None:
        """Forget what rounds up to this one were made of."""
        for number in [number for number in self._rounds if number <= last]:
            for id_ in self._rounds.pop(number):
                fact = self.facts.pop(id_, None)
                if fact is not None and isinstance(fact.event, GroupRequested):
                    self.outcomes.forget(fact.event.group)
                    for index in range(fact.event.size):
                        self.breached.pop(self.rollouts.pop((fact.event.group, index), ""), None)


@dataclass(frozen=True, slots=True)
class _Step:
    """An update that waits for its groups to end."""

    event: TrainingStepCompleted
    planned: Fact | None
    slots: Sequence[int]


class Checks:
    """Counts what was checked; the first fact that does not follow is a Mismatch."""

    def __init__(self, window: Window, scores: Scores) -> None:
        self.counts: Counter[str] = Counter()
        self.signers: dict[str, int] = {}  # see check_receipts
        self.scores = scores
        self._window = window
        self._pinned = {name: str(version) for name, version in pinned_versions(window.started).items()}
        self._steps: list[_Step] = []
        self._may_write: dict[tuple[str, str], tuple[bool, bool]] = {}
        self._checks: dict[type[Event], Callable[[Fact], None]] = {
            **dict.fromkeys(SAME, self._repeated),
            IsolationBreached: self._breached,
            EvaluationReported: self._reported,
            TrainingStepCompleted: self._trained,
        }

    def identity(self, line: Line, *, made: bool) -> None:
        """See identity.py; `made`: its id is as it has to be. That the cause is on the log is known: this has passed after it."""
        if not made or line.subject != line.key.decode(errors="replace") or not all(self._writes(line)):
            raise Mismatch("an id, a cause or a writer does not fit")
        self.counts[IDENTITY] += 1

    def decision(self, line: Line) -> None:
        """What `identity` says of a decision whose version, cause, type and ordinal are the rules' own, and so its id."""
        if not self._writes(line)[0]:
            raise Mismatch("a writer does not fit")
        self.counts[IDENTITY] += 1

    def _writes(self, line: Line) -> tuple[bool, bool]:
        """Whether the topic is this writer's, and whether its version is the pinned one."""
        known = self._may_write.get((line.topic, line.logic))
        if known is None:
            writer, _, version = line.logic.partition("/")
            known = (writer == BY_NAME[line.topic].writer, self._pinned.get(writer, version) == version)
            self._may_write[(line.topic, line.logic)] = known
        return known

    def fact(self, fact: Fact) -> None:
        """Check a fact against those that are there."""
        check = self._checks.get(type(fact.event))
        if check is not None:
            check(fact)

    def _repeated(self, fact: Fact) -> None:
        event = fact.event
        name = _REPEATS[type(event)][0]
        if not self._window.is_of_cause(fact):
            raise Mismatch(f"{name}: a fact is not of its cause")
        own = OWN.get(type(event))
        self._hold(name, () if own is None else own(fact))
        if type(event) is RolloutCompleted:
            self._chained(event)
        elif type(event) is RewardScored:
            self._proven(event, self._window.fact(fact.envelope.cause))

    def _chained(self, event: RolloutCompleted) -> None:
        if event.receipts is not None:
            self._hold(CHAINS, chain_sides(event, self._window.workspace(event.state)))
            if event.signer is not None:
                self.signers[event.signer] = self.signers.get(event.signer, 0) + 1

    def _proven(self, event: RewardScored, rollout: Fact | None) -> None:
        sides = proof_sides(event, rollout, self._window)
        if sides is not None:
            self._hold(PROOFS, sides)
        again = self.scores.sides(event, rollout)
        if again is not None:
            self._hold(EVIDENCE, again)

    def _breached(self, fact: Fact) -> None:
        event = cast("IsolationBreached", fact.event)
        self._hold(BREACHES, breach_sides(event, self._window.breached.get(event.rollout)))

    def _reported(self, fact: Fact) -> None:
        self._hold(REPORTS, report_sides(fact, cast("EvaluationReported", fact.event), self._window))

    def _trained(self, fact: Fact) -> None:
        event = cast("TrainingStepCompleted", fact.event)
        planned = self._window.fact(fact.envelope.cause)
        step = None
        if planned is not None and isinstance(planned.event, RoundPlanned):
            step = next((part for part in planned.event.steps if part.step == event.step), None)
        self._steps.append(_Step(event, planned, () if step is None else [slot.slot for slot in step.slots]))

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

    def _settled(self, entry: "_Step") -> bool:
        plan, outcomes, event = self._window.plan, self._window.outcomes, entry.event
        size = plan.group_size
        for slot in entry.slots:
            for attempt in range(plan.group_attempts):
                group = group_id(self._window.campaign, event.round, event.step, slot, attempt)
                if outcomes.rewards(group, size) is None:
                    return False
                if not outcomes.untrainable(group, size):
                    break
        return True

    def _hold(self, name: str, sides: Sequence[Side]) -> None:
        for _, recorded, recomputed in sides:
            if recorded != recomputed:
                raise Mismatch(f"{name}: a fact does not follow")
        self.counts[name] += 1
