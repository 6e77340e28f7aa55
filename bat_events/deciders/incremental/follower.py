"""What a follower is, and the one that works with every decider: it asks in full and leaves out what was there before."""

from collections.abc import Sequence
from typing import Protocol

from bat_events.deciders.interface import Decider, Draft
from bat_events.events.fact import Fact


class Follower(Protocol):
    """A decider version that says each draft once."""

    @property
    def version(self) -> int:
        """That of its decider."""
        ...

    def apply(self, fact: Fact) -> None:
        """Fold one fact, whose id was not folded before."""
        ...

    def fresh(self) -> Sequence[Draft]:
        """What is required now and was at no earlier call, in the order of `required`."""
        ...


class PlainFollower:
    """For deciders that require few events: the gate's and the teacher's are as many as there are rounds."""

    def __init__(self, decider: Decider) -> None:
        self.version: int = decider.version
        self._decider = decider
        self._said: set[str] = set()
        self._changed = False

    def apply(self, fact: Fact) -> None:
        """See Follower.apply."""
        self._decider.apply(fact)
        self._changed = True

    def fresh(self) -> Sequence[Draft]:
        """See Follower.fresh."""
        if not self._changed:
            return []
        self._changed = False
        found = [draft for draft in self._decider.required() if draft.id not in self._said]
        self._said.update(draft.id for draft in found)
        return found
