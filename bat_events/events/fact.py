"""An event as it was read: what deciders fold."""

from dataclasses import dataclass

from bat_events.events.base import Event
from bat_events.events.envelope import Envelope


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A decoded event with its envelope and where it stands in the log."""

    event: Event
    envelope: Envelope
    topic: str  # without namespace
    partition: int
    offset: int

    @property
    def id(self) -> str:
        """The event's id."""
        return self.envelope.id
