"""A map of digests that costs about its bytes, where Python's dict of bytes costs some 150 more for each.

What must be known of every event or state of a campaign is kept in it: whole keys, so it errs as little as a dict does.
"""

from array import array


class Table:
    """Keys of one width to values of one width, both as bytes. Keys have to be uniformly distributed, as digests are."""

    def __init__(self, key: int, value: int = 0) -> None:
        self._key, self._row = key, key + value
        self._rows = bytearray()
        self._count = 0
        self._slots = array("i", [-1]) * 64  # open addressing: a row's number, -1 where there is none

    def __len__(self) -> int:
        return self._count

    def put(self, key: bytes, value: bytes = b"") -> bool:
        """Keep a key's first value; whether the key is new."""
        slots, rows, row, width = self._slots, self._rows, self._row, self._key
        mask = len(slots) - 1
        at = int.from_bytes(key[-8:], "little") & mask
        while (found := slots[at]) >= 0:
            start = found * row
            if rows[start : start + width] == key:
                return False
            at = (at + 1) & mask
        slots[at] = self._count
        rows += key
        rows += value
        self._count += 1
        if 2 * self._count > mask:
            self._grow()
        return True

    def get(self, key: bytes) -> bytes | None:
        """A key's value; None where it has none."""
        slots, rows, row, width = self._slots, self._rows, self._row, self._key
        mask = len(slots) - 1
        at = int.from_bytes(key[-8:], "little") & mask
        while (found := slots[at]) >= 0:
            start = found * row
            if rows[start : start + width] == key:
                return bytes(rows[start + width : start + row])
            at = (at + 1) & mask
        return None

    def _grow(self) -> None:
        slots = array("i", [-1]) * (2 * len(self._slots))
        rows, row, width = self._rows, self._row, self._key
        mask = len(slots) - 1
        for number in range(self._count):
            end = number * row + width
            at = int.from_bytes(rows[end - min(8, width) : end], "little") & mask
            while slots[at] >= 0:
                at = (at + 1) & mask
            slots[at] = number
        self._slots = slots
