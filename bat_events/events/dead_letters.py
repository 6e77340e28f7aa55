"""What services could not take further, by reference, and what became of it.

None of these holds a byte of the record that it is about: topic, partition and offset say where that stands. An error's
text may quote what it choked on, so the held-out plane has a topic of its own for all four.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from bat_events.events.base import Event
from bat_events.events.types import Digest, Id, NonNegative

MAXIMUM_TEXT = 500
"""Characters of an error or a reason."""

Text = Annotated[str, Field(max_length=MAXIMUM_TEXT)]


class DeadLettered(Event):
    """A record that one service could not take further."""

    TOPIC: ClassVar[str] = "dead-letter"
    HELDOUT_TOPIC: ClassVar[str | None] = "heldout.dead-letter"
    service: str = Field(description="the consumer group that says so: each service parks for itself")
    topic: str = Field(description="of the record, without namespace")
    partition: NonNegative
    offset: NonNegative
    cause: str = Field(
        description="bad_envelope, unknown_schema, bad_body, too_large, impossible, unfounded, retries_exhausted, "
        "handler_failed, kills_consumer, or behind: nothing is wrong with it, but an earlier record of its key waits"
    )
    error: Text
    attempts: NonNegative = Field(description="how often the service tried, deaths included; 0 where it did not")
    value_bytes: NonNegative
    value_digest: Digest = Field(description="SHA-256 of the record's value")
    event: Id | None = Field(description="the event's id where the record is one")
    event_type: str | None = Field(description="the ce_type header, where it can be read")
    waits: bool = Field(
        description="whether later records of its key wait for it; false where it is ignored by rule and nothing waits"
    )


class Redriven(Event):
    """A person says that the service shall try a dead letter again, and then what waits behind it, in order."""

    TOPIC: ClassVar[str] = "dead-letter"
    HELDOUT_TOPIC: ClassVar[str | None] = "heldout.dead-letter"
    dead_letter: Id = Field(description="the DeadLettered")
    service: str
    topic: str
    partition: NonNegative
    offset: NonNegative
    reason: Text


class Discarded(Event):
    """A person says that a dead letter is never handled, and that what waits behind it goes on."""

    TOPIC: ClassVar[str] = "dead-letter"
    HELDOUT_TOPIC: ClassVar[str | None] = "heldout.dead-letter"
    dead_letter: Id = Field(description="the DeadLettered")
    service: str
    topic: str
    partition: NonNegative
    offset: NonNegative
    reason: Text


class DeadLetterSettled(Event):
    """The service has taken a dead letter further after all: in the transaction with what came of it."""

    TOPIC: ClassVar[str] = "dead-letter"
    HELDOUT_TOPIC: ClassVar[str | None] = "heldout.dead-letter"
    dead_letter: Id = Field(description="the DeadLettered")
    service: str
    topic: str
    partition: NonNegative
    offset: NonNegative
