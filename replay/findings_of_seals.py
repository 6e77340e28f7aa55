"""What a check against seals finds: one event, or a file, and what differs as far as it can be known."""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Finding:
    """`kind`: changed, missing, added, reordered, or file (an archive's file, the manifest included)."""

    kind: str
    what: str
    topic: str = ""
    partition: int = 0
    ordinal: int | None = None
    id: str = ""

    def line(self) -> str:
        """For people."""
        if not self.topic:
            return f"{self.kind}: {self.what}"
        place = f"{self.topic}[{self.partition}]"
        number = "" if self.ordinal is None else f" event {self.ordinal}"
        return f"{self.kind}: {place}{number}{f', id {self.id}' if self.id else ''}: {self.what}"


def sha256_hex(content: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()
