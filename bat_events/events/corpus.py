"""The cold-start corpus: what was made, and whether it may be trained on."""

from typing import ClassVar

from pydantic import Field

from bat_events.events.bank import LeakageCheck
from bat_events.events.base import Event
from bat_events.events.types import Digest, NonNegative, Seq


class CorpusBuilt(Event):
    """The trainer made the cold-start corpus; its rows are an artefact, for the leakage gate to scan."""

    TOPIC: ClassVar[str] = "training"
    corpus: Digest
    body: Digest
    rows: NonNegative


class CorpusScanned(Event):
    """The leakage gate's word on a corpus: cleared where every check passed on every row."""

    TOPIC: ClassVar[str] = "bank.verdict"
    corpus: Digest
    body: Digest
    rows: NonNegative
    rejected: NonNegative = Field(description="rows that some check failed")
    cleared: bool
    checks: Seq[LeakageCheck] = Field(
        description="each check over all rows; evidence names rows and places, never text"
    )
