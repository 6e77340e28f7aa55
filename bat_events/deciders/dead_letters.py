"""What stands on a plane's dead-letter topic: which records are parked, by whom, and what may go on. A fold, no decider.

A letter is one record that one service parked. A lane is the records of one key in one partition, for one service: they
are taken further strictly in order, so whatever comes behind a letter that waits has to wait too.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from bat_events.events.base import Event
from bat_events.events.dead_letters import DeadLettered, DeadLetterSettled, Discarded, Redriven

BEHIND = "behind"
"""The cause of a record with which nothing is wrong."""

Partition = tuple[str, int]

Reference = tuple[str, str, int, int]
"""(service, topic, partition, offset)."""

Lane = tuple[str, str, int, str]
"""(service, topic, partition, key)."""


class LetterState(StrEnum):
    """Where a letter stands."""

    PARKED = "parked"
    REDRIVEN = "redriven"  # asked for, not taken further yet
    SETTLED = "settled"
    DISCARDED = "discarded"


@dataclass
class Letter:
    """One parked record. `id` and `event` are the newest DeadLettered about it."""

    id: str
    event: DeadLettered
    key: str
    campaign: str
    state: LetterState = LetterState.PARKED
    asked: str | None = None  # the id of the Redriven
    history: list[tuple[str, Event]] = field(default_factory=list)

    @property
    def open(self) -> bool:
        """Whether nothing has become of it yet."""
        return self.state in (LetterState.PARKED, LetterState.REDRIVEN)

    @property
    def reference(self) -> Reference:
        """Whose record it is, and where that stands."""
        return reference(self.event)

    @property
    def place(self) -> str:
        """Where the record stands, as messages show it."""
        return f"{self.event.topic}[{self.event.partition}]@{self.event.offset}"

    @property
    def lane(self) -> Lane:
        """What waits with it."""
        return self.event.service, self.event.topic, self.event.partition, self.key


OnDeadLetters = DeadLettered | Redriven | Discarded | DeadLetterSettled


def reference(event: OnDeadLetters) -> Reference:
    """Whose record it is, and where that stands."""
    return event.service, event.topic, event.partition, event.offset


class DeadLetters:
    """Folds the topic in its order; the first event of an id counts. What refers to no open letter changes nothing."""

    def __init__(self) -> None:
        self._letters: dict[Reference, Letter] = {}
        self._lanes: dict[Lane, list[Letter]] = {}
        self._written: dict[tuple[str, Partition], int] = {}
        self._ids: set[str] = set()
        self.resolutions: dict[str, int] = {}
        """Service -> how many of its letters a person decided about."""

    def apply(self, id_: str, event: Event, *, key: str, campaign: str) -> None:
        """Fold one event; others than those of events.dead_letters are ignored."""
        if id_ in self._ids or not isinstance(event, OnDeadLetters):
            return
        self._ids.add(id_)
        if isinstance(event, DeadLettered):
            self._park(id_, event, key, campaign)
        letter = self._letters.get(reference(event))
        if letter is None:
            return
        letter.history.append((id_, event))
        if isinstance(event, DeadLettered | DeadLetterSettled):
            place = (event.service, (event.topic, event.partition))
            self._written[place] = self._written.get(place, 0) + 1
        if isinstance(event, DeadLettered) or event.dead_letter != letter.id or not letter.open:
            return
        if isinstance(event, DeadLetterSettled):
            self._close(letter, LetterState.SETTLED)
        elif letter.state is LetterState.PARKED:
            self.resolutions[event.service] = self.resolutions.get(event.service, 0) + 1
            if isinstance(event, Redriven):
                letter.state, letter.asked = LetterState.REDRIVEN, id_
            else:
                self._close(letter, LetterState.DISCARDED)

    def _park(self, id_: str, event: DeadLettered, key: str, campaign: str) -> None:
        known = self._letters.get(reference(event))
        letter = Letter(id=id_, event=event, key=key, campaign=campaign)
        if known is not None:
            letter.history = known.history
            if known.open and known.event.waits:
                self._lanes[known.lane].remove(known)
        self._letters[letter.reference] = letter
        if event.waits:
            lane = self._lanes.setdefault(letter.lane, [])
            lane.append(letter)
            lane.sort(key=lambda other: other.event.offset)

    def _close(self, letter: Letter, state: LetterState) -> None:
        letter.state = state
        if letter.event.waits:
            lane = self._lanes[letter.lane]
            lane.remove(letter)
            if not lane:
                del self._lanes[letter.lane]

    def all(self) -> list[Letter]:
        """Every letter, by service, topic, partition and offset."""
        return [self._letters[where] for where in sorted(self._letters)]

    def open(self) -> list[Letter]:
        """The letters of which nothing has become yet."""
        return [letter for letter in self.all() if letter.open]

    def of(self, where: Reference) -> Letter | None:
        """The letter about one record of one service."""
        return self._letters.get(where)

    def lane(self, lane: Lane) -> list[Letter]:
        """The open letters that wait in a lane, in order."""
        return self._lanes.get(lane, [])

    def due(self, service: str, partitions: Collection[Partition]) -> Iterator[Letter]:
        """The letters of these partitions that may be taken further now: at the head of their lane, and asked for or sound."""
        for (owner, topic, partition, _), letters in list(self._lanes.items()):
            if owner != service or (topic, partition) not in partitions or not letters:
                continue
            head = letters[0]
            if head.state is LetterState.REDRIVEN or head.event.cause == BEHIND:
                yield head

    def written(self, service: str, where: Partition) -> int:
        """How many events a service has written here about a partition: whoever takes it over must have read as many."""
        return self._written.get((service, where), 0)
