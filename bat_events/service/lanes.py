"""What a reactor leaves out of its fold: records that are no events, and those of their key behind them, until a person decides.

A fold must be a function of a cut. It is, because what is left out follows from two things that a cut names: the records
before it, and how far the dead-letter topic was read. The letter is written no later than the first decision whose cut goes
past the record, so replay knows it too. Waiting records stay in memory only: a reactor reads its inputs again at its start.
"""

from collections import deque
from collections.abc import Iterator

from bat_events.codec import Codec, Fact
from bat_events.deciders.dead_letters import Letter, LetterState
from bat_events.deciders.interface import Draft
from bat_events.errors import DecodeError
from bat_events.log.interface import Record
from bat_events.service.dead_letters import Cause, DeadLetterBox, cause_of, key_of

_Lane = tuple[str, int, str]


class Lanes:
    """See the module. `drafts` are to be written with the next commit, then `wrote` is to be called."""

    def __init__(self, box: DeadLetterBox, codec: Codec) -> None:
        self._box, self._codec = box, codec
        self._waiting: dict[_Lane, deque[Record]] = {}
        self.drafts: list[Draft] = []

    def take(self, record: Record) -> Fact | None:
        """The fact to fold; None where the record is parked, discarded, or waits behind one that is parked."""
        lane = self._waiting.get(_lane(record)) if self._waiting else None
        if lane is not None:
            lane.append(record)
            return None
        fact = self._read(record)
        if isinstance(fact, Fact):
            return fact
        if fact:  # it waits
            self._waiting[_lane(record)] = deque([record])
        return None

    def go_on(self) -> Iterator[tuple[Fact, Record]]:
        """The facts to fold now that the dead-letter topic was read on, and their records, in the order of their lanes."""
        for key in sorted(self._waiting):
            lane = self._waiting[key]
            while lane:
                fact = self._read(lane[0])
                if isinstance(fact, Fact):
                    yield fact, lane[0]
                elif fact:
                    break
                lane.popleft()
            if not lane:
                del self._waiting[key]

    def park(self, record: Record, cause: Cause, error: str, *, fact: Fact | None = None) -> None:
        """Leave a record out from now on. What is behind it waits from the next start on."""
        self._add(self._box.park(record, cause, error, fact=fact, attempts=1))

    def ignore(self, fact: Fact, cause: Cause, error: str) -> None:
        """Say once that an event does not count by rule."""
        where = (self._box.service, fact.topic, fact.partition, fact.offset)
        if self._box.letters.of(where) is None:
            self._add(self._box.ignore(fact, cause, error))

    def settle(self, letter: Letter) -> None:
        """Say that a letter was taken further."""
        self._add(self._box.settle(letter))

    def wrote(self) -> None:
        """The drafts were committed."""
        self.drafts = []

    def _read(self, record: Record) -> Fact | bool:
        """The fact; or whether the record waits (True) or is done with (False)."""
        letter = self._box.of(record)
        if letter is not None and letter.event.waits:
            if letter.state is LetterState.DISCARDED:
                return False
            if letter.state is LetterState.PARKED:
                return True
        try:
            fact = self._codec.decode(record)
        except DecodeError as error:
            self._add(self._box.park(record, cause_of(error), str(error)))
            return True
        if letter is not None and letter.state is LetterState.REDRIVEN:
            self.settle(letter)
        return fact

    def _add(self, draft: Draft) -> None:
        """The box knows it at once: until it is committed nothing else is, and what is not committed is drafted again."""
        self.drafts.append(draft)
        self._box.wrote([draft])


def _lane(record: Record) -> _Lane:
    return record.topic, record.partition, key_of(record)
