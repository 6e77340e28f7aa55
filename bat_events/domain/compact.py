"""A map of digests and a set of ids that cost about their bytes, where Python's own cost some 150 more for each.

What must be known of every event or state of a campaign is kept in them: whole keys, so they err as little as Python's do.
"""

from array import array

_LATEST = 1 << 14
_FIRST = 3  # digits that choose a bucket
_HINT = 6  # digits that choose a bit: of a million ids, one in sixteen new ones is looked for in vain


class IdSet:
    """Ids of 32 hex digits, some 20 bytes each.

    The latest ones, which are asked for again and again, are a Python set; older ones are bytes, in buckets by their first
    digits. Most that is asked is whether a new id is there: a table of bits denies that at once for nearly all of them.
    """

    def __init__(self) -> None:
        self.latest: set[str] = set()
        self._buckets: list[bytearray] = []
        self._hints = bytearray()
        self._old = 0

    def __len__(self) -> int:
        return self._old + len(self.latest)

    def add(self, id_: str) -> bool:
        """Whether it is new."""
        if id_ in self.latest:
            return False
        if self._old:
            hint = int(id_[:_HINT], 16)
            if self._hints[hint >> 3] >> (hint & 7) & 1 and self._is_old(id_):
                return False
        self.latest.add(id_)
        if len(self.latest) >= _LATEST:
            self._settle()
        return True

    def __contains__(self, id_: str) -> bool:
        if id_ in self.latest:
            return True
        if not self._old:
            return False
        hint = int(id_[:_HINT], 16)
        return bool(self._hints[hint >> 3] >> (hint & 7) & 1) and self._is_old(id_)

    def _is_old(self, id_: str) -> bool:
        bucket = self._buckets[int(id_[:_FIRST], 16)]
        raw = bytes.fromhex(id_)
        at = bucket.find(raw)
        while at > 0 and at & 15:  # across two ids
            at = bucket.find(raw, at + 1)
        return at >= 0

    def _settle(self) -> None:
        """The latest ids become old ones."""
        if not self._old:
            self._hints = bytearray(16**_HINT // 8)
            self._buckets = [bytearray() for _ in range(16**_FIRST)]
        self._old += len(self.latest)
        buckets, hints = self._buckets, self._hints
        for id_ in self.latest:
            hint = int(id_[:_HINT], 16)
            hints[hint >> 3] |= 1 << (hint & 7)
            buckets[hint >> 4 * (_HINT - _FIRST)] += bytes.fromhex(id_)
        self.latest.clear()


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
