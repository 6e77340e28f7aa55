"""A set of event ids that costs 16 to 32 bytes an id, where Python's own set of strings costs 150.

Whether an id came before decides which of two events counts, so ids are kept whole: 128 bits, in two arrays, by open addressing.
"""

from array import array

_FIRST = 1 << 12


class IdSet:
    """Ids of 32 hex digits; the id of zeros, which is no event's, is never in it."""

    def __init__(self) -> None:
        self._grow(_FIRST)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, id_: str) -> bool:
        """Whether it is new."""
        whole = int(id_, 16)
        high, low = whole >> 64, whole & 0xFFFFFFFFFFFFFFFF
        at = low & self._mask
        highs, lows = self._high, self._low
        while True:
            there = lows[at]
            if there == low and highs[at] == high:
                return False
            if not there and not highs[at]:
                break
            at = (at + 1) & self._mask
        highs[at], lows[at] = high, low
        self._count += 1
        if 2 * self._count > self._mask:
            self._again()
        return True

    def __contains__(self, id_: str) -> bool:
        whole = int(id_, 16)
        high, low = whole >> 64, whole & 0xFFFFFFFFFFFFFFFF
        at = low & self._mask
        while True:
            there = self._low[at]
            if there == low and self._high[at] == high:
                return whole != 0
            if not there and not self._high[at]:
                return False
            at = (at + 1) & self._mask

    def _grow(self, size: int) -> None:
        self._mask = size - 1
        self._high = array("Q", bytes(8 * size))
        self._low = array("Q", bytes(8 * size))

    def _again(self) -> None:
        highs, lows = self._high, self._low
        self._grow(2 * len(lows))
        for high, low in zip(highs, lows, strict=True):
            if high or low:
                at = low & self._mask
                while self._low[at] or self._high[at]:
                    at = (at + 1) & self._mask
                self._high[at], self._low[at] = high, low
