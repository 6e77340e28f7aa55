"""Folding a decider's inputs to a recorded cut.

A cut names, per input partition, the next offset that had not been folded. Folding partition after partition gives the
state that the live decider had, in whatever order it read, because a decider's state does not depend on that order.
"""

from bisect import bisect_left
from collections.abc import Mapping
from datetime import datetime

from bat_events.deciders.incremental import Follower, follow
from bat_events.deciders.interface import Decider, Draft
from bat_events.deciders.premises import Premises, pins
from bat_events.events.campaign import CampaignStarted
from bat_events.events.envelope import Cut
from bat_events.log.interface import Partition
from bat_events.replay.index import LETTERS, Entry, Index
from bat_events.replay.parked import parked_by

Position = Mapping[Partition, int]


def position_of(cut: Cut) -> dict[Partition, int]:
    """A cut as partition -> next offset, without the partitions of which nothing was folded."""
    return {(topic, number): offset for topic, parts in cut.items() for number, offset in parts.items() if offset > 0}


def within(earlier: Position, later: Position) -> bool:
    """Whether everything before `earlier` is also before `later`."""
    return all(later.get(where, 0) >= offset for where, offset in earlier.items())


def flaw(kind: type[Decider], position: Position, index: Index) -> str | None:
    """Why this cannot be a cut of that decider over this log, in words; None where it can."""
    for (topic, number), offset in sorted(position.items()):
        if topic not in (*kind.inputs, LETTERS):
            return f"{topic} is no input of {kind.name}/{kind.version}"
        entries = index.partitions.get((topic, number), [])
        at = bisect_left(entries, offset - 1, key=lambda entry: entry.offset)
        if at == len(entries) or entries[at].offset != offset - 1:
            end = entries[-1].offset + 1 if entries else 0
            return f"{topic}[{number}] is cut at {offset}, but no record stands before that (the log ends at {end})"
    return None


class Fold:
    """A decider with the inputs that it has folded so far."""

    def __init__(self, kind: type[Decider], index: Index) -> None:
        self._kind, self._index = kind, index
        self._parked = parked_by(index.letters, kind.name)
        self._by_premises = isinstance(index.started.event, CampaignStarted) and pins(index.started.event)
        self._reset()

    def _reset(self) -> None:
        self._follower: Follower = follow(self._kind, self._index.campaign, self._index.copied)
        self._required: dict[str, Draft] = {}
        self.position: dict[Partition, int] = {}
        self.newest: datetime | None = None
        self._next: dict[Partition, int] = {}  # list index of the next entry
        self._ids: set[str] = set()
        self._premises = Premises(self._kind.inputs)
        self._waiting: set[tuple[Partition, bytes]] = set()  # keys of which a record is parked

    def to(self, position: Position) -> None:
        """Fold up to a position; begins anew where that lies before what was folded, or lets parked records go on."""
        if not within(self.position, position) or (self._parked and _read(self.position) != _read(position)):
            self._reset()
        for where in sorted(position):
            if where[0] == LETTERS:
                self.position[where] = position[where]
                continue
            entries = self._index.partitions.get(where, [])
            at = self._next.get(where, 0)
            while at < len(entries) and entries[at].offset < position[where]:
                entry = entries[at]
                at += 1
                if self._left_out(where, entry, _read(position)):
                    continue
                if entry.id in self._ids:  # the first committed event of an id wins
                    continue
                self._ids.add(entry.id)
                if self.newest is None or entry.time > self.newest:
                    self.newest = entry.time
                if entry.fact is not None:
                    for fact in self._premises.take(entry.fact) if self._by_premises else (entry.fact,):
                        self._follower.apply(fact)
            self._next[where] = at
            self.position[where] = position[where]

    def required(self) -> dict[str, Draft]:
        """What must exist by id: what became required at this position or at an earlier one that was asked about."""
        self._required.update((draft.id, draft) for draft in self._follower.fresh())
        return self._required

    def _left_out(self, where: Partition, entry: Entry, read: int) -> bool:
        """Whether the service had parked this record, had discarded it, or let it wait behind another of its key."""
        lane = (where, entry.key)
        if lane in self._waiting:
            return True
        letter = self._parked.get((*where, entry.offset))
        decided = letter is not None and letter.until is not None and letter.until < read
        if letter is not None and decided and letter.discarded:
            return True
        if (letter is not None and not decided) or not entry.event:
            self._waiting.add(lane)
            return True
        return False

    def to_end(self) -> None:
        """Fold everything that the log has of this decider's inputs."""
        inputs = {w: e[-1].offset + 1 for w, e in self._index.partitions.items() if w[0] in self._kind.inputs and e}
        letters = self._index.partitions.get((LETTERS, 0))
        if self._parked and letters:
            inputs[(LETTERS, 0)] = letters[-1].offset + 1
        self.to({where: max(offset, self.position.get(where, 0)) for where, offset in inputs.items()})


def _read(position: Position) -> int:
    """How far the dead-letter topic was read at a position."""
    return position.get((LETTERS, 0), 0)
