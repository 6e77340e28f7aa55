"""Seals of the log, and what an import says about the records that it wrote."""

from typing import ClassVar

from pydantic import Field

from bat_events.events.base import Event
from bat_events.events.types import Digest, NonNegative, Positive, Record, Seq


class SealedRange(Record):
    """The records of one partition between the seal before and this one; a partition without any is left out."""

    topic: str
    partition: NonNegative
    first: NonNegative = Field(description="ordinal of the first record among the campaign's records of the partition")
    count: Positive
    root: Digest = Field(description="Merkle root over the records' leaves")


class RoundSealed(Event):
    """What stood on the open topics when a round was over. Not a function of its cause: it hashes times too."""

    TOPIC: ClassVar[str] = "seal"
    number: NonNegative = Field(description="place in the campaign's chain of seals, from 0")
    round: NonNegative | None = Field(description="the round that is over; null for the seal at the campaign's end")
    rule: Positive = Field(description="version of the rule for leaves, roots and heads")
    previous: Digest = Field(description="head of the seal before; zeros in the first")
    ranges: Seq[SealedRange] = Field(description="in order of topic and partition")
    head: Digest = Field(description="hash over all of this: fixes the campaign's log up to here")


class HeldoutRoundSealed(Event):
    """The same for the held-out plane's topics. The salt keeps a root from confirming what somebody guesses."""

    TOPIC: ClassVar[str] = "heldout.seal"
    number: NonNegative = Field(description="place in the campaign's chain of held-out seals, from 0")
    round: NonNegative | None = Field(description="the round that is over; null for the seal at the campaign's end")
    rule: Positive = Field(description="version of the rule for leaves, roots and heads")
    salt: Digest = Field(description="32 random bytes before each leaf, the same in all seals of a campaign")
    previous: Digest = Field(description="head of the seal before; zeros in the first")
    ranges: Seq[SealedRange] = Field(description="in order of topic and partition")
    head: Digest = Field(description="hash over all of this: fixes the campaign's held-out log up to here")


class OffsetRun(Record):
    """Records that follow one another without a gap in the log that they came from."""

    offset: NonNegative = Field(description="of the first one, there")
    count: Positive


class StoodThere(Record):
    """Where a record of another campaign stood in the log that was exported: place, id and time, no content."""

    offset: NonNegative
    id: str = Field(description="its ce_id")
    time: str = Field(description="its ce_time")


class RecordsImported(Event):
    """An import wrote these records of one partition. Cuts on the log name the offsets that the records had before."""

    TOPIC: ClassVar[str] = "import"
    archive: Digest = Field(description="the archive's manifest")
    topic: str
    partition: NonNegative
    first: NonNegative = Field(description="ordinal of the first record among the campaign's records of the partition")
    runs: Seq[OffsetRun]
    others: Seq[StoodThere] = Field(description="other campaigns' records before the last of these")
