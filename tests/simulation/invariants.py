"""What must hold whatever happens: some of it at every commit, the rest when a run has come to rest. Test-only.

A name in INVARIANTS is what a failing run says, and what a planted bug must be caught by.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bat_events.codec import Codec, Fact
from bat_events.deciders.campaign import CampaignView
from bat_events.errors import DecodeError
from bat_events.events.bank import LeakageVerdict, StateSynthesized
from bat_events.events.dead_letters import DeadLettered, DeadLetterSettled
from bat_events.events.ids import event_id
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted, RolloutFailed
from bat_events.events.rounds import CampaignFinished, GroupAbandoned, GroupRequested, RoundBroken
from bat_events.events.seals import HeldoutRoundSealed, RoundSealed
from bat_events.events.training import CheckpointProduced, TrainingStepCompleted
from bat_events.log.interface import Partition, Record
from tests.simulation.memory_broker import Broker, Transaction

OFFSETS = "offsets never pass unprocessed work"
TRAINED = "each group is trained at most once"
ACCOUNTED = "every group is accounted for"
VERDICT = "one verdict per state"
DECISION = "one promotion decision per candidate"
BEST = "best-so-far never falls"
MISSING = "missing is not zero"
ORDER = "the work of a key is done in order"
CAUSE = "same cause, same event"
ONCE = "a reactor writes nothing twice"
UNDONE = "nothing is left undone"
SEALS = "seals follow one another"
SAME = "the end is that of the undisturbed run"
LOUD = "a service ends for a reason that it names"
INVARIANTS = (
    OFFSETS,
    TRAINED,
    ACCOUNTED,
    VERDICT,
    DECISION,
    BEST,
    MISSING,
    ORDER,
    CAUSE,
    ONCE,
    UNDONE,
    SEALS,
    SAME,
    LOUD,
)
_UNCOUNTED = ("seal", "heldout.seal", "dead-letter", "heldout.dead-letter")  # these follow what happened, rightly


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: str, what: str) -> None:
        assert invariant in INVARIANTS
        self.invariant = invariant
        super().__init__(f"{invariant}: {what}")


Wants = Callable[[Fact], bool]


@dataclass
class Watch:
    """Held against every commit. `workers` maps a consumer group to what is work for it, `reactors` are the others."""

    broker: Broker
    codec: Codec
    workers: Mapping[str, Wants]
    reactors: frozenset[str]
    handed_out: Callable[[str], Mapping[Partition, int]] = lambda _: {}
    ids: dict[str, tuple[str, str]] = field(default_factory=dict)  # id -> topic and body digest
    places: dict[str, tuple[Partition, int, str]] = field(default_factory=dict)  # id -> place, offset, key
    done: dict[str, set[str]] = field(
        default_factory=lambda: defaultdict(set)
    )  # group -> causes with committed outputs
    letters: set[tuple[str, str, int, int]] = field(default_factory=set)
    _last: dict[tuple[str, Partition, str], int] = field(default_factory=dict)

    def commit(self, name: str, transaction: Transaction) -> None:
        """A transaction is about to be committed. Raises Violation."""
        group = name.split(".", 1)[0]
        fresh: list[Fact] = []
        for where, offsets in transaction.written.items():
            for offset in offsets:
                record = self.broker.part(where).slots[offset]
                assert record is not None
                fact = self._decoded(record)
                if fact is not None:
                    fresh.append(fact)
        for fact in fresh:
            self._written(group, fact)
        for (owner, where), (offset, _) in transaction.offsets.items():
            self.passed(owner, where, offset)

    def _written(self, group: str, fact: Fact) -> None:
        envelope, event = fact.envelope, fact.event
        made = event_id(
            campaign=envelope.campaign, cause=envelope.cause, type_name=event.type_name(), ordinal=envelope.ordinal
        )
        if fact.id != made:
            raise Violation(CAUSE, f"{_said(fact)} has an id that does not follow from its cause")
        known = self.ids.get(fact.id)
        if known is not None and known[1] != envelope.body_digest:
            raise Violation(CAUSE, f"{_said(fact)} was written with another body before")
        if isinstance(event, DeadLettered | DeadLetterSettled):
            self.letters.add((event.service, event.topic, event.partition, event.offset))
            self.ids.setdefault(fact.id, (fact.topic, envelope.body_digest))
            return
        if known is not None and group in self.reactors:
            twice = TRAINED if isinstance(event, TrainingStepCompleted) else ONCE
            raise Violation(twice, f"{group} writes {_said(fact)} a second time")
        if group in self.workers:
            if known is None:
                self._in_order(group, fact)
            self.done[group].add(envelope.cause)
        self.ids.setdefault(fact.id, (fact.topic, envelope.body_digest))
        self.places.setdefault(fact.id, ((fact.topic, fact.partition), fact.offset, envelope.subject))

    def _in_order(self, group: str, fact: Fact) -> None:
        where, offset, key = self.places.get(fact.envelope.cause, (("", 0), 0, ""))
        lane = (group, where, key)
        if offset < self._last.get(lane, 0):
            raise Violation(ORDER, f"{group} answers {where}@{offset} of key {key} after {self._last[lane]}")
        self._last[lane] = offset

    def passed(self, group: str, where: Partition, offset: int) -> None:
        """A group is about to commit an offset. Raises Violation."""
        before = self.broker.offsets.get((group, where), 0)
        part = self.broker.part(where)
        if any(part.slots[place] is not None and place not in part.aborted for place in range(offset, before)):
            raise Violation(OFFSETS, f"{group} goes back in {where[0]}[{where[1]}] from {before} to {offset}")
        if offset > part.stable:
            raise Violation(OFFSETS, f"{group} commits {offset} of {where[0]}[{where[1]}], which ends at {part.stable}")
        if group in self.reactors:
            read = self.handed_out(group).get(where, 0)
            if offset > read:
                raise Violation(OFFSETS, f"{group} commits {offset} of {where[0]}[{where[1]}] and has read to {read}")
            return
        for place in range(before, offset):
            record = part.slots[place]
            if record is None or place in part.aborted or (group, where[0], where[1], place) in self.letters:
                continue
            fact = self._decoded(record)
            if fact is None or (self.workers[group](fact) and fact.id not in self.done[group]):
                said = f"{where[0]}[{where[1]}]@{place}"
                raise Violation(OFFSETS, f"{group} commits {offset} and has neither answered nor parked {said}")

    def _decoded(self, record: Record) -> Fact | None:
        try:
            return self.codec.decode(record)
        except DecodeError:
            return None


def first_facts(broker: Broker, codec: Codec) -> list[Fact]:
    """The first committed event of each id, partition by partition in order."""
    found: dict[str, Fact] = {}
    for where in sorted(broker.records):
        for record in broker.records[where]:
            try:
                fact = codec.decode(record)
            except DecodeError:
                continue
            found.setdefault(fact.id, fact)
    return list(found.values())


def digest_of(facts: Sequence[Fact]) -> str:
    """What a campaign ended as: ids and body digests of the first committed events, the seals' places, and what people are
    shown of each round."""
    lines = [
        f"{f.topic} {f.id} {getattr(f.event, 'number', '') if f.topic in _UNCOUNTED else f.envelope.body_digest}"
        for f in facts
        if "dead-letter" not in f.topic
    ]
    view = CampaignView(facts[0].envelope.campaign)
    for fact in sorted(facts, key=lambda f: (f.topic, f.id)):
        if fact.topic not in _UNCOUNTED:
            view.apply(fact)
    shown = [
        (
            r.number,
            r.target,
            sorted(r.steps),
            r.groups,
            r.rollouts,
            r.failed,
            r.rewards,
            r.withheld,
            _outcome(r.decision),
        )
        for _, r in sorted(view.rounds.items())
    ]
    return hashlib.sha256("\n".join([*sorted(lines), view.state, repr(shown)]).encode()).hexdigest()


def differences(facts: Sequence[Fact], expected: Sequence[Fact]) -> str:
    """What one run has and the other lacks, in words."""

    def named(side: Sequence[Fact]) -> dict[tuple[str, str], str]:
        return {
            (f.id, "" if f.topic in _UNCOUNTED else f.envelope.body_digest): f"{_said(f)} on {f.topic}"
            for f in side
            if "dead-letter" not in f.topic
        }

    here, there = named(facts), named(expected)
    more = [text for key, text in here.items() if key not in there]
    less = [text for key, text in there.items() if key not in here]
    return f"only here: {more[:5]}; only undisturbed: {less[:5]}"


def check_end(facts: Sequence[Fact]) -> None:
    """Everything that holds of the facts of a campaign that has come to its end. Raises Violation."""
    _unique(VERDICT, facts, LeakageVerdict, lambda e: e.state)
    _unique(DECISION, facts, CheckpointPromoted | CheckpointHeld, lambda e: (e.round, e.checkpoint))
    _unique(CAUSE, facts, RolloutCompleted | RolloutFailed, lambda e: e.rollout)
    _unique(CAUSE, facts, RewardScored | RewardWithheld, lambda e: e.rollout)
    _unique(CAUSE, facts, TrainingStepCompleted, lambda e: (e.round, e.step, e.attempt))
    _all_there(VERDICT, _keys(facts, StateSynthesized, "state"), _keys(facts, LeakageVerdict, "state"))
    decided = _keys(facts, CheckpointPromoted | CheckpointHeld, "round")
    _all_there(DECISION, _keys(facts, CheckpointProduced, "round"), decided)
    _trained(facts)
    _best(facts)
    _seals(facts)
    if not _of(facts, CampaignFinished):
        raise Violation(UNDONE, "the campaign did not finish")


def _trained(facts: Sequence[Fact]) -> None:
    rewards = {f.event.rollout: f.event.reward for f in _of(facts, RewardScored)}
    trained: dict[str, int] = defaultdict(int)
    for fact in _of(facts, TrainingStepCompleted):
        for group in fact.event.groups:
            trained[group.group] += 1
            for row in group.rollouts:
                if rewards.get(row.rollout) != row.reward:
                    raise Violation(
                        MISSING,
                        f"rollout {row.rollout} was trained with reward {row.reward}, and was given {rewards.get(row.rollout)}",
                    )
    twice = [group for group, times in trained.items() if times > 1]
    if twice:
        raise Violation(TRAINED, f"groups {twice} were trained in more than one step")
    asked = _of(facts, GroupRequested)
    if set(trained) - {f.event.group for f in asked}:
        raise Violation(ACCOUNTED, "a group was trained that nobody asked for")
    abandoned = {f.event.group for f in _of(facts, GroupAbandoned)}
    broken = {(f.event.round, f.event.step) for f in _of(facts, RoundBroken)}
    for fact in asked:
        group = fact.event
        ends = (group.group in trained) + (group.group in abandoned)
        if ends != 1 and (group.round, group.step) not in broken:
            raise Violation(ACCOUNTED, f"group {group.group} of round {group.round} came to {ends} ends")


def _best(facts: Sequence[Fact]) -> None:
    best = -1.0
    for fact in sorted(_of(facts, CheckpointPromoted | CheckpointHeld), key=lambda f: f.event.round):
        if fact.event.best_overall < best:
            raise Violation(BEST, f"round {fact.event.round}: {fact.event.best_overall} after {best}")
        best = fact.event.best_overall


def _seals(facts: Sequence[Fact]) -> None:
    for kind in (RoundSealed, HeldoutRoundSealed):
        head: Any = None
        for number, fact in enumerate(sorted(_of(facts, kind), key=lambda f: f.event.number)):
            if fact.event.number != number or (head is not None and fact.event.previous != head):
                raise Violation(SEALS, f"{kind.__name__} {fact.event.number} does not follow {number - 1}")
            head = fact.event.head


def _unique(invariant: str, facts: Sequence[Fact], kind: Any, key: Callable[[Any], object]) -> None:
    found: dict[object, Fact] = {}
    for fact in _of(facts, kind):
        first = found.setdefault(key(fact.event), fact)
        if first is not fact:
            raise Violation(invariant, f"{_said(first)} and {_said(fact)} are about the same")


def _all_there(invariant: str, wanted: Iterable[object], found: set[object]) -> None:
    lacking = [one for one in wanted if one not in found]
    if lacking:
        raise Violation(invariant, f"none for {lacking[:5]}")


def _keys(facts: Sequence[Fact], kind: Any, name: str) -> set[object]:
    return {getattr(fact.event, name) for fact in _of(facts, kind)}


def _of(facts: Sequence[Fact], kind: Any) -> list[Any]:
    return [fact for fact in facts if isinstance(fact.event, kind)]


def _outcome(decision: Any) -> object:
    return None if decision is None else (type(decision).__name__, decision.checkpoint, decision.best_so_far)


def _said(fact: Fact) -> str:
    return f"{fact.event.type_name()} {fact.id[:8]}"
