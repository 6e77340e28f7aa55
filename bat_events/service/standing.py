"""What a consumer group keeps beside a partition's committed offset: how many dead letters it wrote, and a try that may kill it.

The note is read by whoever gets the partition next. A record that kills its consumer leaves the try behind, so tries are
counted over deaths; see WorkerLog.mark.
"""

import re
from dataclasses import dataclass

from bat_events.log.interface import Partition

_FORM = re.compile(r"^letters=(\d{1,18})(?:;try=(\d{1,18}):(\d{1,9}))?$", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Note:
    """`tried` is the offset that was being handled for the `tries`-th time; None where nothing is known to be."""

    letters: int = 0
    tried: int | None = None
    tries: int = 0

    def __str__(self) -> str:
        if self.tried is None:
            return f"letters={self.letters}" if self.letters else ""
        return f"letters={self.letters};try={self.tried}:{self.tries}"

    def tries_of(self, offset: int) -> int:
        """How often this record was begun with and not ended."""
        return self.tries if self.tried == offset else 0

    @classmethod
    def parse(cls, text: str) -> "Note":
        """What stands in a note; nothing is known where it is no such text (another tool's, or none)."""
        match = _FORM.match(text)
        if match is None:
            return cls()
        letters, tried, tries = match.groups()
        return cls(letters=int(letters), tried=None if tried is None else int(tried), tries=int(tries or 0))


class Standing:
    """What the last owners of this process's partitions left."""

    def __init__(self) -> None:
        self._notes: dict[Partition, Note] = {}
        self._untried: set[Partition] = set()

    def gain(self, where: Partition, offset: int, text: str) -> tuple[int, Note]:
        """Learn of a partition that was assigned; gives its committed offset and note."""
        note = Note.parse(text)
        self._notes[where] = note
        self._untried.add(where)
        return offset, note

    def first(self, where: Partition) -> bool:
        """Whether nothing was handled here since it was assigned, so that the next record may have ended the last owner."""
        if where not in self._untried:
            return False
        self._untried.discard(where)
        return True

    def tries(self, where: Partition, offset: int) -> int:
        """How often a record was begun with and not ended."""
        return self._notes.get(where, Note()).tries_of(offset)

    def forget(self, where: Partition) -> None:
        """The record that was tried is parked."""
        self._notes.pop(where, None)
