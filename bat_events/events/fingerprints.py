"""What the gate is told of held-out text, beside HeldoutFingerprintsPublished: numbers and sealed blocks, never text.

Sealed bytes stand in blocks of 32, the last one filled with zeros: nothing of open length or kind crosses the boundary.
"""

from typing import ClassVar

from pydantic import Field

from bat_events.events.base import Event
from bat_events.events.types import Digest, NonNegative, Positive, Seq, Unit


class SharedTextDeclared(Event):
    """Which task text both planes share by design: it is left out of the fingerprints, and held out from nobody."""

    TOPIC: ClassVar[str] = "boundary.fingerprint"
    rule_version: NonNegative
    seed: NonNegative = Field(
        description="the practice instances that were read follow from it, so anyone can read them again"
    )
    instances: NonNegative
    texts: Seq[Digest] = Field(description="SHA-256 of each distinct shared text in UTF-8, in order")
    shingles: Seq[Digest] = Field(description="keyed 64-bit hashes of its runs of 3 words, little-endian, sealed")
    shingle_count: NonNegative


class HeldoutNgramsPublished(Event):
    """Keyed hashes of runs of 8 words, and keyed MinHash sketches, of what is held out and not shared."""

    TOPIC: ClassVar[str] = "boundary.fingerprint"
    rule_version: NonNegative
    windows: Seq[Digest] = Field(description="keyed 64-bit hashes, sorted, little-endian, sealed")
    window_count: NonNegative
    sketches: Seq[Digest] = Field(description="128 minima of 32 bits a text, little-endian, sealed")
    sketch_count: NonNegative


class HeldoutMeaningsPublished(Event):
    """Keyed sketches of what held-out sentences mean, for the gate's optional check; never text, never a vector."""

    TOPIC: ClassVar[str] = "boundary.fingerprint"
    rule_version: NonNegative
    model: Digest = Field(description="SHA-256 of the embedding model's name")
    dimensions: Positive = Field(description="numbers in one of its vectors")
    similar: Unit = Field(description="estimated cosine from which a text is too near, rounded to 1e-4")
    sketches: Seq[Digest] = Field(description="1,024 signs under a keyed projection a sentence, sealed")
    sketch_count: NonNegative
