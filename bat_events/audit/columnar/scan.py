"""Reading many Avro bodies side by side: one position per body, moved by every read.

A read never fails: it marks a body as not understood, and the codec then reads that one alone. A body is understood only if its
last read ends exactly where it ends.
"""

from typing import Any

import numpy as np
import pyarrow as pa

Longs = Any
"""An array of int64."""

PADDING = 1 << 16
"""Zero bytes behind the data, so that a read past the end of the last body still reads something."""

_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)


def padded(parts: list[bytes]) -> Any:
    """The bytes one after another, ready to be scanned."""
    return np.frombuffer(b"".join((*parts, bytes(PADDING))), np.uint8)


class Scan:
    """The bodies that begin at `starts` and end at `ends` in `data`. `bad` says which are not understood."""

    def __init__(self, data: Any, starts: Longs, ends: Longs) -> None:
        self.data, self.ends = data, ends
        self.at = starts.copy()
        self.bad = np.zeros(len(starts), bool)
        self._texts: list[tuple[Longs, Longs, Longs]] = []

    def fail(self, rows: Longs, where: Any) -> None:
        """The bodies of these rows, where `where` is true, are not understood."""
        self.bad[rows[where]] = True

    def long(self, rows: Longs) -> Longs:
        """The next long of each row's body."""
        at = self.at[rows]
        byte = self.data[at]
        at += 1
        value = (byte & 0x7F).astype(np.uint64)
        more = np.flatnonzero(byte & 0x80)
        shift = 7
        while more.size:
            byte = self.data[at[more]]
            at[more] += 1
            if shift == 63:
                self.fail(rows[more], byte > 1)
            value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            more = more[(byte & 0x80) != 0]
            shift += 7
            if shift > 63:
                self.fail(rows[more], np.ones(len(more), bool))
                break
        self.at[rows] = at
        return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)

    def skip(self, rows: Longs, sizes: Longs) -> Longs:
        """Pass over so many bytes; returns where they begin. Sizes that cannot be become 0, in place."""
        start = self.at[rows]
        wrong = (sizes < 0) | (sizes > self.ends[rows] - start)
        if wrong.any():
            self.fail(rows, wrong)
            sizes[wrong] = 0
        self.at[rows] = start + sizes
        return start

    def text(self, rows: Longs) -> tuple[Longs, Longs]:
        """The next string: (where it begins, how long it is)."""
        sizes = self.long(rows)
        start = self.skip(rows, sizes)
        self._texts.append((rows, start, sizes))
        return start, sizes

    def finish(self) -> None:
        """After the last read: marks bodies that do not end where they should, and those with text that is not UTF-8."""
        self.bad |= self.at != self.ends
        if not self._texts:
            return
        rows, starts, sizes = (np.concatenate(parts) for parts in zip(*self._texts, strict=True))
        found, _ = gathered(self.data, starts, sizes)
        high = np.flatnonzero(found > 0x7F)
        if high.size:
            bounds = np.cumsum(sizes)
            for number in np.unique(np.searchsorted(bounds, high, "right")):
                raw = self.data[starts[number] : starts[number] + sizes[number]].tobytes()
                if not is_utf8(raw):
                    self.bad[rows[number]] = True


def is_utf8(raw: bytes) -> bool:
    """Whether Python reads these bytes as a text."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def gathered(data: Any, starts: Longs, sizes: Longs) -> tuple[Any, Any]:
    """The bytes of pieces one after another, and the offsets of the pieces (one more than there are)."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if len(sizes) and (sizes == sizes[0]).all():
        return fixed(data, starts, int(sizes[0])).reshape(-1), offsets
    index = np.repeat(starts - offsets[:-1], sizes)
    index += np.arange(offsets[-1])
    return data[index], offsets


def fixed(data: Any, starts: Longs, size: int) -> Any:
    """Pieces of one size, as rows of a table of bytes."""
    every = np.ndarray(len(data) - size + 1, f"V{size}", data, strides=(1,))  # the piece that begins at each byte
    return every[starts].view(np.uint8).reshape(len(starts), size)


def hex_of(table: Any) -> Any:
    """Rows of bytes as rows of hex digits."""
    return _HEX[table].view(np.uint8).reshape(len(table), 2 * table.shape[1])


def text_array(found: Any, offsets: Any) -> Any:
    """An Arrow array of texts from their bytes one after another; they must be UTF-8."""
    if offsets[-1] > 2**31 - 1:
        raise OverflowError("more than 2 GiB of text in one batch")
    return pa.StringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(found))
    )


def texts(data: Any, starts: Longs, sizes: Longs) -> Any:
    """An Arrow array of the texts at these places."""
    return text_array(*gathered(data, starts, sizes))


def fixed_texts(table: Any) -> Any:
    """An Arrow array of texts from rows of ASCII bytes."""
    return text_array(table.reshape(-1), np.arange(len(table) + 1, dtype=np.int64) * table.shape[1])
