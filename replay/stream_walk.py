"""One decider version, walked forward as its log streams by.

Facts come in as they are read; those before the next recorded cut are folded at once, later ones wait. When all inputs before
that cut are there, the follower says what is newly required, and the decisions recorded at that cut must be exactly that:
no more, no fewer, with the same bytes. Anything else is a Mismatch, and says only that: decisions.py finds out what it is.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping

from bat_events.codec import Codec, Fact, schema_for
from bat_events.deciders.incremental import follow
from bat_events.deciders.interface import Decider, Draft
from bat_events.deciders.premises import Premises, pins
from bat_events.errors import ConfigurationError
from bat_events.events.campaign import CampaignStarted
from bat_events.log.interface import Partition
from bat_events.replay.cuts import within
from bat_events.replay.line_facts import fact_of
from bat_events.replay.lines import Line
from bat_events.replay.source import ReplayError


class Mismatch(Exception):
    """The log is not what its rules and facts give, or too strange to tell while it streams by."""


class StreamWalker:
    """Folds one decider version's inputs and holds its decisions against what is required."""

    def __init__(self, kind: type[Decider], campaign: str, started: CampaignStarted) -> None:
        self.kind, self.logic, self._source = kind, f"{kind.name}/{kind.version}", f"bat/{kind.name}"
        self.next_cut: Mapping[Partition, int] | None = {}
        """The cut of the next recorded decision; None where there is none."""
        self.decisions = 0
        self.seen_later: set[str] = set()  # decisions that are newer than what is compared
        self._follower = follow(kind, campaign)
        self._premises = Premises(kind.inputs) if pins(started) else None
        self._folded: dict[Partition, int] = {}
        self._waiting: dict[Partition, deque[tuple[Line, Fact | None, bool]]] = {}
        self._required: dict[str, Draft] = {}
        self._owed: set[str] = set()
        self._newest = ""

    def limit(self, where: Partition) -> int | None:
        """Up to which offset of an input the next decision needs it; None: all of it may come."""
        return None if self.next_cut is None else self.next_cut.get(where, 0)

    def take(self, where: Partition, line: Line, fact: Fact | None, *, again: bool = False) -> None:
        """An input record, in the order of its partition. `fact` is None for one that the decider does not fold.

        `again`: its id came before, so that it counts as a position only.
        """
        if self.next_cut is None or line.offset < self.next_cut.get(where, 0):
            self._fold(where, line, fact, again)
        else:
            self._waiting.setdefault(where, deque()).append((line, fact, again))

    def move(self, cut: Mapping[Partition, int] | None) -> None:
        """The next recorded decision has this cut; None: there is no further one."""
        if cut is not None:
            if not within(self._folded, cut):
                raise Mismatch("cuts of one decider only grow")
            if any(topic not in self.kind.inputs for topic, _ in cut):
                raise Mismatch("a cut names what is no input")
        self.next_cut = cut
        for where, waiting in self._waiting.items():
            end = None if cut is None else cut.get(where, 0)
            while waiting and (end is None or waiting[0][0].offset < end):
                self._fold(where, *waiting.popleft())

    def _fold(self, where: Partition, line: Line, fact: Fact | None, again: bool) -> None:
        self._folded[where] = line.offset + 1
        if not again and line.moment > self._newest:
            self._newest = line.moment
        if fact is not None:
            try:
                if self._premises is None:
                    self._follower.apply(fact)
                else:
                    for counting in self._premises.take(fact):
                        self._follower.apply(counting)
            except ConfigurationError as error:
                raise ReplayError(str(error)) from None

    def ask(self) -> None:
        """All inputs before the next cut are folded: what is required there?"""
        assert self.next_cut is not None
        if self._folded != {**self._folded, **self.next_cut}:
            raise Mismatch("no record stands before a cut")
        self._required = self._fresh()

    def decided(self, line: Line, fact_of_line: Callable[[Line], Fact]) -> Fact:
        """A decision recorded at the cut that was asked about. Its fact, as the rules made it or as it was recorded."""
        draft = self._required.pop(line.id, None)
        if draft is None:
            raise Mismatch("a decision that is not required at its cut")
        self.decisions += 1
        if line.logic != (self.logic if draft.version is None else f"{self.kind.name}/{draft.version}"):
            raise Mismatch("decided by another version")
        key, event = draft.key, draft.event
        if (
            line.moment != self._newest
            or line.cause != draft.cause
            or line.ordinal != draft.ordinal
            or line.subject != key
            or line.key != key.encode()
            or line.round != draft.round
            or line.source != self._source
        ):
            raise Mismatch("a decision in another envelope")
        if line.schema_digest != schema_for(type(event)).digest:
            fact = fact_of_line(line)
            if fact.event.model_dump(mode="json") != event.model_dump(mode="json"):
                raise Mismatch("another decision, in an earlier version")
            return fact
        value = line.value
        if (
            value != Codec.encode_body(event)
            or line.topic != event.TOPIC
            or line.body_digest != hashlib.sha256(value).hexdigest()
        ):
            fact_of_line(line)  # says what is wrong with the record, if that is no event
            raise Mismatch("another decision")
        return fact_of(line, event)

    def settle(self) -> None:
        """Every decision that was recorded at this cut was given: what is still required must be newer than what is compared."""
        self._owed.update(self._required)

    def rest(self) -> list[Draft]:
        """After the end of the log: what is required and was not decided."""
        if not self._owed <= self.seen_later:
            raise Mismatch("a decision is missing at a cut")
        self.move(None)
        return [draft for id_, draft in self._fresh().items() if id_ not in self.seen_later]

    def _fresh(self) -> dict[str, Draft]:
        try:
            return {draft.id: draft for draft in self._follower.fresh()}
        except Exception as error:
            raise Mismatch("the rules refuse the recorded facts") from error
