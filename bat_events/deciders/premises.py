"""Which well-formed events count: those that can be true of their campaign, once what they rest on is there.

A reactor reads its topics in any interleaving, so a reward may arrive before its rollout. To judge an event by what has
arrived would make a fold depend on timing. Therefore the rule is one of sets, never of order:
  impossible   its ids are not those that its campaign makes. It is never folded, whatever else is on the log
  unfounded    what it rests on, of a topic that this service reads, is not among the facts. It is held, and folded as soon
               as that is there, in whatever order the two came
So every interleaving of the same records folds the same facts, and replay does too. A campaign that pins `premises/1` is
folded by this rule; older ones are folded as they were.
"""

from collections.abc import Callable, Collection, Iterator
from operator import attrgetter
from typing import Any, ClassVar

from bat_events.domain.compact import IdSet
from bat_events.domain.grouping import group_id, rollout_id, state_id
from bat_events.events.bank import (
    LeakageVerdict,
    StateAdmitted,
    StateRefused,
    StateSynthesized,
    SynthesisFailed,
    SynthesisRequested,
)
from bat_events.events.base import Event
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


def impossible(fact: Fact) -> str | None:
    """Why this event cannot be true of its campaign, in words; None where nothing in it says so."""
    fault = _FAULTS.get(type(fact.event))
    return None if fault is None else fault(fact.event, fact.envelope.campaign)


def _of_bank(event: Any, campaign: str) -> str | None:
    made = state_id(campaign, event.focus, event.track, event.outcome, event.ordinal)
    if event.state == made:
        return None
    cell = f"{event.focus} {event.track} {event.outcome} {event.ordinal}"
    return f"state {event.state} is not the one of {cell} in campaign {campaign}"


def _of_request(event: Any, campaign: str) -> str | None:
    if event.group == group_id(campaign, event.round, event.step, event.slot, event.attempt):
        return None
    return f"group {event.group} is not the one of its place in campaign {campaign}"


def _of_group(event: Any, campaign: str) -> str | None:
    if event.rollout != rollout_id(event.group, event.index):
        return f"rollout {event.rollout} is not number {event.index} of group {event.group}"
    for attempt in range(_ATTEMPTS):
        if event.group == group_id(campaign, event.round, event.step, event.slot, attempt):
            return None
    return f"group {event.group} is of no try at its place in campaign {campaign}"


_FAULTS: dict[type[Event], Callable[[Any, str], str | None]] = {
    **dict.fromkeys((SynthesisRequested, StateSynthesized, SynthesisFailed, LeakageVerdict), _of_bank),
    **dict.fromkeys((StateAdmitted, StateRefused), _of_bank),
    GroupRequested: _of_request,
    **dict.fromkeys((RolloutCompleted, RolloutFailed, RewardScored, RewardWithheld), _of_group),
}

_state: Callable[[Any], str] = attrgetter("state")
_rollout: Callable[[Any], str] = attrgetter("rollout")


def _checkpoint(event: Any) -> str:
    return f"{event.round} {event.checkpoint}"


_Rule = tuple[str, str, Callable[[Any], str]]
"""Topic, type, and how an event names the one that is meant."""

_COMPLETED: _Rule = ("rollout", "RolloutCompleted", _rollout)
_SYNTHESIZED: _Rule = ("bank.state", "StateSynthesized", _state)
_PRODUCED: _Rule = ("training", "CheckpointProduced", _checkpoint)
_REPORTED: _Rule = ("boundary.report", "EvaluationReported", _checkpoint)

_GIVEN: dict[type[Event], _Rule] = {
    RolloutCompleted: _COMPLETED,
    StateSynthesized: _SYNTHESIZED,
    CheckpointProduced: _PRODUCED,
    EvaluationReported: _REPORTED,
}
"""What others may rest on, where such a fact is there."""

_NEEDED: dict[type[Event], _Rule] = {
    RewardScored: _COMPLETED,
    RewardWithheld: _COMPLETED,
    LeakageVerdict: _SYNTHESIZED,
    EvaluationReported: _PRODUCED,
    CheckpointPromoted: _REPORTED,
    CheckpointHeld: _REPORTED,
}
"""What such a fact rests on, beside its own ids."""

_CONCERNED = frozenset({*_FAULTS, *_GIVEN, *_NEEDED})
"""Events of which this rule says anything."""


class _There:
    """Premises that are there. Those that name a state or a rollout are as many as these, and kept as bytes."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], IdSet] = {}
        self._others: set[Premise] = set()

    def add(self, premise: Premise) -> bool:
        """Whether it is new."""
        campaign, _, kind, what = premise
        if kind not in _OF_IDS:
            new = premise not in self._others
            self._others.add(premise)
            return new
        ids = self._ids.get((campaign, kind))
        if ids is None:
            ids = self._ids[(campaign, kind)] = IdSet()
        return ids.add(what)

    def __contains__(self, premise: Premise) -> bool:
        campaign, _, kind, what = premise
        if kind not in _OF_IDS:
            return premise in self._others
        ids = self._ids.get((campaign, kind))
        return ids is not None and what in ids


_OF_IDS = frozenset({"RolloutCompleted", "StateSynthesized"})


class Premises:
    """The rule for one service, over all campaigns of its namespace; see the module."""

    NAME: ClassVar[str] = "premises"
    VERSION: ClassVar[int] = 1

    def __init__(self, inputs: Collection[str]) -> None:
        self._needed = {kind: rule for kind, rule in _NEEDED.items() if rule[0] in inputs}
        self._there = _There()
        self._held: dict[Premise, list[Fact]] = {}
        self._refused: list[tuple[Fact, str]] = []

    def take(self, fact: Fact) -> list[Fact]:
        """The facts that count now that this one has come: none, itself, or itself and those that rested on it."""
        event = fact.event
        kind = type(event)
        if kind not in _CONCERNED:
            return [fact]
        campaign = fact.envelope.campaign
        fault = _FAULTS.get(kind)
        reason = None if fault is None else fault(event, campaign)
        if reason is not None:
            self._refused.append((fact, reason))
            return []
        needed = self._needed.get(kind)
        if needed is not None:
            topic, name, what = needed
            need = (campaign, topic, name, what(event))
            if need not in self._there:
                self._held.setdefault(need, []).append(fact)
                return []
        given = _GIVEN.get(kind)
        if given is None:
            return [fact]
        topic, name, what = given
        gives = (campaign, topic, name, what(event))
        if not self._there.add(gives) or not self._held:
            return [fact]
        found = [fact]
        for waiting in self._held.pop(gives, ()):
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
