"""Field types that events share, and how strict they are.

Scalars are strict: 1.7 is no integer, True is no number, NaN is no score. Sequences accept lists and enums accept their
value, because that is how Avro and YAML hand them over; nothing is lost in either.
"""

from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict

T = TypeVar("T")


class FixedHex:
    """Marks a string that is lower-case hex in Python and an Avro `fixed` of `size` bytes on the wire."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size


class AvroDefault:
    """Marks a field that a later version added: `value` (as JSON) is what Avro's rules read of events without it."""

    def __init__(self, value: Any) -> None:
        self.value = value


Digest = Annotated[
    str,
    Field(pattern=r"^[0-9a-f]{64}$"),
    FixedHex("Digest", 32),
]
"""SHA-256 as 64 hex digits. A checkpoint's id is the digest of its folder's manifest."""

Id = Annotated[
    str,
    Field(pattern=r"^[0-9a-f]{32}$"),
    FixedHex("Id", 16),
]
"""An id of 16 bytes as 32 hex digits: events, states, groups, rollouts."""

PublicKey = Annotated[
    str,
    Field(pattern=r"^[0-9a-f]{64}$"),
    FixedHex("PublicKey", 32),
]
"""An Ed25519 public key as 64 hex digits."""

Signature = Annotated[
    str,
    Field(pattern=r"^[0-9a-f]{128}$"),
    FixedHex("Signature", 64),
]
"""An Ed25519 signature as 128 hex digits."""

Seq = Annotated[tuple[T, ...], Strict(False)]
"""A sequence: a tuple in Python, an array on the wire."""

E = TypeVar("E", bound=StrEnum)
Choice = Annotated[E, Strict(False)]
"""A closed enum: the member in Python, a symbol on the wire."""

NonNegative = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Unit = Annotated[float, Field(ge=0.0, le=1.0)]
"""A score or share in [0, 1]."""


class Record(BaseModel):
    """A record nested in an event: strict, frozen, no unknown fields, finite numbers only."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)
