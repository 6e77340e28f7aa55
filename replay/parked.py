"""Which records a service left out of its fold at a cut, and which events it ignores: read from the dead-letter topic.

A letter is written no later than the first decision whose cut goes past its record, so it holds at every cut before which
the record stands. What a person decided about it holds at cuts that had read so far.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bat_events.codec import Fact
from bat_events.events.dead_letters import DeadLettered, Discarded, Redriven

Place = tuple[str, int, int]
"""(topic, partition, offset)."""


@dataclass(frozen=True, kw_only=True)
class Parked:
    """One record that a service parked last with this letter. `until` is the offset of a person's word about it."""

    letter: str
    until: int | None = None
    discarded: bool = False


def parked_by(letters: Sequence[Fact], service: str) -> dict[Place, Parked]:
    """What a service parked, by place; the last letter about a record counts."""
    found: dict[Place, Parked] = {}
    seen: set[str] = set()
    for fact in letters:
        event = fact.event
        if fact.id in seen or not isinstance(event, DeadLettered | Redriven | Discarded) or event.service != service:
            continue
        seen.add(fact.id)
        place = (event.topic, event.partition, event.offset)
        if isinstance(event, DeadLettered):
            if event.waits:
                found[place] = Parked(letter=fact.id)
        elif place in found and found[place].letter == event.dead_letter and found[place].until is None:
            found[place] = Parked(letter=event.dead_letter, until=fact.offset, discarded=isinstance(event, Discarded))
    return found


def ignored(letters: Sequence[Fact]) -> set[Place]:
    """Events that some service ignores by rule, or that a person discarded: they are no facts of the campaign."""
    found = set()
    for fact in letters:
        event = fact.event
        if isinstance(event, Discarded) or (isinstance(event, DeadLettered) and not event.waits):
            found.add((event.topic, event.partition, event.offset))
    return found
