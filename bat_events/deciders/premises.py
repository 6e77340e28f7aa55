"""Which well-formed events count: those that can be true of their campaign, once what they rest on is there.

A reactor reads its topics in any interleaving, so a reward may arrive before its rollout. To judge an event by what has
arrived would make a fold depend on timing. Therefore the rule is one of sets, never of order:
  impossible   its ids are not those that its campaign makes. It is never folded, whatever else is on the log
  unfounded    what it rests on, of a topic that this service reads, is not among the facts. It is held, and folded as soon
               as that is there, in whatever order the two came
So every interleaving of the same records folds the same facts, and replay does too. A campaign that pins `premises/1` is
folded by this rule; older ones are folded as they were.
"""

from collections.abc import Collection, Iterator
from typing import ClassVar, get_args

from bat_events.domain.compact import Table
from bat_events.domain.grouping import group_id, rollout_id, state_id
from bat_events.events.bank import (
    LeakageVerdict,
    StateAdmitted,
    StateRefused,
    StateSynthesized,
    SynthesisFailed,
    SynthesisRequested,
)
from bat_events.events.boundary import EvaluationReported
from bat_events.events.campaign import CampaignStarted
from bat_events.events.fact import Fact
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted, RolloutFailed
from bat_events.events.rounds import GroupRequested
from bat_events.events.training import CheckpointProduced

_ATTEMPTS = 1000  # of a slot; no plan has more

Premise = tuple[str, str, str, str]
"""(campaign, topic, type, what identifies it there)."""

_OfBank = SynthesisRequested | StateSynthesized | SynthesisFailed | LeakageVerdict | StateAdmitted | StateRefused
_OfGroup = RolloutCompleted | RolloutFailed | RewardScored | RewardWithheld

_CONCERNED = frozenset(
    {
        *get_args(_OfBank),
        *get_args(_OfGroup),
        GroupRequested,
        CheckpointProduced,
        EvaluationReported,
        CheckpointPromoted,
        CheckpointHeld,
    }
)
"""Events of which this rule says anything."""


def impossible(fact: Fact) -> str | None:
    """Why this event cannot be true of its campaign, in words; None where nothing in it says so."""
    event, campaign = fact.event, fact.envelope.campaign
    if isinstance(event, _OfBank):
        made = state_id(campaign, event.focus, event.track, event.outcome, event.ordinal)
        if event.state != made:
            cell = f"{event.focus} {event.track} {event.outcome} {event.ordinal}"
            return f"state {event.state} is not the one of {cell} in campaign {campaign}"
    elif isinstance(event, GroupRequested):
        if event.group != group_id(campaign, event.round, event.step, event.slot, event.attempt):
            return f"group {event.group} is not the one of its place in campaign {campaign}"
    elif isinstance(event, _OfGroup):
        if event.rollout != rollout_id(event.group, event.index):
            return f"rollout {event.rollout} is not number {event.index} of group {event.group}"
        tries = (group_id(campaign, event.round, event.step, event.slot, attempt) for attempt in range(_ATTEMPTS))
        if event.group not in tries:
            return f"group {event.group} is of no try at its place in campaign {campaign}"
    return None


def _given(fact: Fact) -> Premise | None:
    """What others may rest on, where this fact is there."""
    event, campaign = fact.event, fact.envelope.campaign
    if isinstance(event, RolloutCompleted):
        return campaign, "rollout", "RolloutCompleted", event.rollout
    if isinstance(event, StateSynthesized):
        return campaign, "bank.state", "StateSynthesized", event.state
    if isinstance(event, CheckpointProduced):
        return campaign, "training", "CheckpointProduced", f"{event.round} {event.checkpoint}"
    if isinstance(event, EvaluationReported):
        return campaign, "boundary.report", "EvaluationReported", f"{event.round} {event.checkpoint}"
    return None


def _needed(fact: Fact) -> Premise | None:
    """What this fact rests on, beside its own ids."""
    event, campaign = fact.event, fact.envelope.campaign
    if isinstance(event, RewardScored | RewardWithheld):
        return campaign, "rollout", "RolloutCompleted", event.rollout
    if isinstance(event, LeakageVerdict):
        return campaign, "bank.state", "StateSynthesized", event.state
    if isinstance(event, EvaluationReported):
        return campaign, "training", "CheckpointProduced", f"{event.round} {event.checkpoint}"
    if isinstance(event, CheckpointPromoted | CheckpointHeld):
        return campaign, "boundary.report", "EvaluationReported", f"{event.round} {event.checkpoint}"
    return None


class _There:
    """Premises that are there. Those that name a state or a rollout are as many as these, and kept as bytes."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], Table] = {}
        self._others: set[Premise] = set()

    def add(self, premise: Premise) -> bool:
        """Whether it is new."""
        campaign, _, kind, what = premise
        if kind not in _OF_IDS:
            new = premise not in self._others
            self._others.add(premise)
            return new
        table = self._ids.get((campaign, kind))
        if table is None:
            table = self._ids[(campaign, kind)] = Table(16)
        return table.put(bytes.fromhex(what))

    def __contains__(self, premise: Premise) -> bool:
        campaign, _, kind, what = premise
        if kind not in _OF_IDS:
            return premise in self._others
        table = self._ids.get((campaign, kind))
        return table is not None and table.get(bytes.fromhex(what)) is not None


_OF_IDS = frozenset({"RolloutCompleted", "StateSynthesized"})


class Premises:
    """The rule for one service, over all campaigns of its namespace; see the module."""

    NAME: ClassVar[str] = "premises"
    VERSION: ClassVar[int] = 1

    def __init__(self, inputs: Collection[str]) -> None:
        self._inputs = frozenset(inputs)
        self._there = _There()
        self._held: dict[Premise, list[Fact]] = {}
        self._refused: list[tuple[Fact, str]] = []

    def take(self, fact: Fact) -> list[Fact]:
        """The facts that count now that this one has come: none, itself, or itself and those that rested on it."""
        if type(fact.event) not in _CONCERNED:
            return [fact]
        reason = impossible(fact)
        if reason is not None:
            self._refused.append((fact, reason))
            return []
        need = _needed(fact)
        if need is not None and need[1] in self._inputs and need not in self._there:
            self._held.setdefault(need, []).append(fact)
            return []
        found = [fact]
        given = _given(fact)
        if given is not None and self._there.add(given):
            for waiting in self._held.pop(given, ()):
                found += self.take(waiting)
        return found

    def refused(self) -> list[tuple[Fact, str]]:
        """Impossible facts, each with why."""
        return self._refused

    def held(self) -> Iterator[tuple[Fact, str]]:
        """Facts that do not count yet, each with what it lacks."""
        for (campaign, topic, name, what), facts in self._held.items():
            for fact in facts:
                yield fact, f"campaign {campaign} has no {name} of {what} on {topic}"


def pins(started: CampaignStarted) -> bool:
    """Whether a campaign is folded by this rule."""
    return any(part.name == Premises.NAME and part.version == Premises.VERSION for part in started.logic)
