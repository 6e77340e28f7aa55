"""What a worker runs: one effect for one event."""

from collections.abc import Sequence
from typing import Protocol

from bat_events.codec import Fact
from bat_events.deciders.interface import Draft


class Handler(Protocol):
    """What a worker does with one event."""

    name: str
    version: int
    topic: str
    outputs: tuple[str, ...]

    def wants(self, fact: Fact) -> bool:
        """Whether this event is work for this handler; others on its topic are passed over."""
        ...

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """The effect. Raises Retryable for faults that may pass, ImpossibleEvent for an event that contradicts the log,
        Unable where nothing can be handled here now, GivenUp for what a person must mend."""
        ...
