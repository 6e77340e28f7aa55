"""What a decider is: a fold over facts and the events that must exist because of them.

`required` is a function of the set of facts folded, not of their order (given each partition's own order), and it only
grows with that set. So a decider can be restarted, replayed, or fed in any interleaving, and the same events come out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from bat_events.events.base import Event
from bat_events.events.envelope import Cost
from bat_events.events.fact import Fact
from bat_events.events.ids import event_id
from bat_events.frozen import filled


@dataclass(frozen=True, kw_only=True)
class Draft:
    """An event that must exist. Its id follows from campaign, cause, type and ordinal."""

    event: Event
    campaign: str
    cause: str
    ordinal: int
    key: str
    round: int | None = None
    cost: Cost | None = None
    version: int | None = None
    """Of the decider that made it, where that is not the one that the campaign began with."""
    topic: str | None = None
    """Where it stands, if not on its type's TOPIC: dead letters of the held-out plane."""

    @property
    def id(self) -> str:
        """The event's id. Kept: hashing it anew would cost more than all else that is done with a draft."""
        found: str | None = self.__dict__.get("_id")
        if found is None:
            found = self.__dict__["_id"] = event_id(
                campaign=self.campaign, cause=self.cause, type_name=self.event.type_name(), ordinal=self.ordinal
            )
        return found


def draft_of(event: Event, *, campaign: str, cause: str, ordinal: int, key: str, round_: int | None = None) -> Draft:
    """A draft at a seventh of the time, for those that are made by the ten thousand."""
    values = {
        "event": event,
        "campaign": campaign,
        "cause": cause,
        "ordinal": ordinal,
        "key": key,
        "round": round_,
        "cost": None,
        "version": None,
        "topic": None,
    }
    return filled(Draft, values)


class Decider(Protocol):
    """The rules of one service for one campaign."""

    name: ClassVar[str]
    version: ClassVar[int]
    inputs: ClassVar[tuple[str, ...]]
    outputs: ClassVar[tuple[str, ...]]

    def __init__(self, campaign: str) -> None: ...

    def apply(self, fact: Fact) -> None:
        """Fold one fact; facts of other types are ignored."""
        ...

    def required(self) -> Sequence[Draft]:
        """Every event that must exist now, in a fixed order (those already emitted may be among them)."""
        ...

    def state(self) -> Any:
        """The folded state as comparable data: equal for every interleaving of the same facts."""
        ...
