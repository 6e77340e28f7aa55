"""An event as it was read: what deciders fold."""

from dataclasses import dataclass

from bat_events.events.base import Event
from bat_events.events.envelope import Envelope


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A decoded event with its envelope and where it stands in the log.

    `event` is in the newest version of its type; the envelope's type and digests are those of the bytes on the log.
    """

    event: Event
    envelope: Envelope
    topic: str  # without namespace
    partition: int
    offset: int
    earlier: Event | None = None  # as it was written, where that was in an earlier version

    @property
    def written(self) -> Event:
        """The event as it was written: for who looks at the wire, not at the meaning."""
        return self.event if self.earlier is None else self.earlier

    @property
    def id(self) -> str:
        """The event's id."""
        return self.envelope.id
