"""The parts of an event's schema as columns: each reads its values of many bodies, and makes an Arrow array of them.

A value's checks are those of the event's model. What a read gave is raw (numbers, places in the bytes); lists gather their items
over many reads and are put in order before an Arrow array is made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from bat_events.audit.columnar.scan import Longs, Scan, fixed, fixed_texts, hex_of, texts

Raw = Any
Check = Callable[[Any], Any]
"""Values -> which of them the model refuses."""


class Node(Protocol):
    """See the module. `arrow` must be given the bytes that were read."""

    def read(self, scan: Scan, rows: Longs) -> Raw: ...

    def take(self, raw: Raw, order: Longs) -> Raw: ...

    def join(self, raws: Sequence[Raw]) -> Raw: ...

    def arrow(self, data: Any, raw: Raw) -> Any: ...


class _Flat:
    """A node whose raw is one array."""

    def take(self, raw: Raw, order: Longs) -> Raw:
        """See Node."""
        return raw[order]

    def join(self, raws: Sequence[Raw]) -> Raw:
        """See Node."""
        return np.concatenate(raws)


@dataclass(frozen=True)
class Long(_Flat):
    """A whole number."""

    refused: Check | None = None

    def read(self, scan: Scan, rows: Longs) -> Raw:
        """See Node."""
        values = scan.long(rows)
        if self.refused is not None:
            scan.fail(rows, self.refused(values))
        return values

    def arrow(self, data: Any, raw: Raw) -> Any:  # noqa: ARG002
        """See Node."""
        return pa.array(raw)


@dataclass(frozen=True)
class Double(_Flat):
    """A finite number."""

    refused: Check | None = None

    def read(self, scan: Scan, rows: Longs) -> Raw:
        """See Node."""
        start = scan.skip(rows, np.full(len(rows), 8))
        values = fixed(scan.data, start, 8).view("<f8").reshape(-1).copy()
        scan.fail(rows, ~np.isfinite(values))
        if self.refused is not None:
            scan.fail(rows, self.refused(values))
        return values

    def arrow(self, data: Any, raw: Raw) -> Any:  # noqa: ARG002
        """See Node."""
        return pa.array(raw)


class Flag(_Flat):
    """True or false."""

    def read(self, scan: Scan, rows: Longs) -> Raw:
        """See Node."""
        values = scan.data[scan.skip(rows, np.ones(len(rows), np.int64))]
        scan.fail(rows, values > 1)
        return values

    def arrow(self, data: Any, raw: Raw) -> Any:  # noqa: ARG002
        """See Node."""
        return pa.array(raw.astype(bool))


@dataclass(frozen=True)
class Hex(_Flat):
    """Fixed bytes, shown as hex digits."""

    size: int

    def read(self, scan: Scan, rows: Longs) -> Raw:
        """See Node."""
        return scan.skip(rows, np.full(len(rows), self.size))

    def arrow(self, data: Any, raw: Raw) -> Any:
        """See Node."""
        return fixed_texts(hex_of(fixed(data, raw, self.size)))


class Length(_Flat):
    """Packed bytes, of which only the number is kept."""

    def read(self, scan: Scan, rows: Longs) -> Raw:
        """See Node."""
        sizes = scan.long(rows)
        scan.skip(rows, sizes)
        return sizes

    def arrow(self, data: Any, raw: Raw) -> Any:  # noqa: ARG002
        """See Node."""
        return pa.array(raw)


@dataclass(frozen=True)
class Symbol(_Flat):
    """A closed enum."""

    symbols: tuple[str, ...]

    def read(self, scan: Scan, rows: Longs) -> Raw:
        """See Node."""
        values = scan.long(rows)
        wrong = (values < 0) | (values >= len(self.symbols))
        scan.fail(rows, wrong)
        values[wrong] = 0
        return values

    def arrow(self, data: Any, raw: Raw) -> Any:  # noqa: ARG002
        """See Node."""
        return pa.array(self.symbols, pa.string()).take(pa.array(raw))


class Text:
    """A text; whether it is UTF-8 is looked at when all is read."""

    def read(self, scan: Scan, rows: Longs) -> Raw:
        """See Node."""
        return scan.text(rows)

    def take(self, raw: Raw, order: Longs) -> Raw:
        """See Node."""
        return raw[0][order], raw[1][order]

    def join(self, raws: Sequence[Raw]) -> Raw:
        """See Node."""
        return np.concatenate([raw[0] for raw in raws]), np.concatenate([raw[1] for raw in raws])

    def arrow(self, data: Any, raw: Raw) -> Any:
        """See Node."""
        return texts(data, *raw)


@dataclass(frozen=True)
class Maybe:
    """A value or null. Raw: whether each is there, and the raw of those that are."""

    inner: Node

    def read(self, scan: Scan, rows: Longs) -> Raw:
        """See Node."""
        branch = scan.long(rows)
        scan.fail(rows, (branch != 0) & (branch != 1))
        there = branch == 1
        return there, self.inner.read(scan, rows[there])

    def take(self, raw: Raw, order: Longs) -> Raw:
        """See Node."""
        there, inner = raw
        kept = there[order]
        place = np.cumsum(there) - 1
        return kept, self.inner.take(inner, place[order[kept]])

    def join(self, raws: Sequence[Raw]) -> Raw:
        """See Node."""
        return np.concatenate([raw[0] for raw in raws]), self.inner.join([raw[1] for raw in raws])

    def arrow(self, data: Any, raw: Raw) -> Any:
        """See Node."""
        there, inner = raw
        values = self.inner.arrow(data, inner)
        if there.all():
            return values
        return values.take(pa.array(np.cumsum(there) - 1, mask=~there))


@dataclass(frozen=True)
class Items:
    """A list. Raw: how many items each has, and the raw of all items in order."""

    inner: Node

    def read(self, scan: Scan, rows: Longs) -> Raw:
        """See Node. Only what this project writes: all items in one block."""
        counts = scan.long(rows)
        wrong = (counts < 0) | (counts > scan.ends[rows] - scan.at[rows])
        if wrong.any():
            scan.fail(rows, wrong)
            counts[wrong] = 0
        found, owners = [self.inner.read(scan, rows[:0])], [np.zeros(0, np.int64)]
        left = np.flatnonzero(counts)
        filled, number = left, 0
        while left.size:
            found.append(self.inner.read(scan, rows[left]))
            owners.append(left)
            number += 1
            left = left[counts[left] > number]
            left = left[~scan.bad[rows[left]] & (scan.at[rows[left]] <= scan.ends[rows[left]])]
        if filled.size:
            scan.fail(rows[filled], scan.long(rows[filled]) != 0)
        owner = np.concatenate(owners)
        counts = np.bincount(owner, minlength=len(rows))  # of a list that was not understood fewer were read
        return counts, self.inner.take(self.inner.join(found), np.argsort(owner, kind="stable"))

    def take(self, raw: Raw, order: Longs) -> Raw:
        """See Node."""
        counts, inner = raw
        ends = np.cumsum(counts)
        kept = counts[order]
        index = np.repeat(ends[order] - counts[order], kept)
        index += np.arange(kept.sum()) - np.repeat(np.cumsum(kept) - kept, kept)
        return kept, self.inner.take(inner, index)

    def join(self, raws: Sequence[Raw]) -> Raw:
        """See Node."""
        return np.concatenate([raw[0] for raw in raws]), self.inner.join([raw[1] for raw in raws])

    def arrow(self, data: Any, raw: Raw) -> Any:
        """See Node."""
        counts, inner = raw
        offsets = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        return pa.ListArray.from_arrays(pa.array(offsets), self.inner.arrow(data, inner))


@dataclass(frozen=True)
class Fields:
    """A record."""

    names: tuple[str, ...]
    nodes: tuple[Node, ...]

    def read(self, scan: Scan, rows: Longs) -> Raw:
        """See Node."""
        return [node.read(scan, rows) for node in self.nodes]

    def take(self, raw: Raw, order: Longs) -> Raw:
        """See Node."""
        return [node.take(part, order) for node, part in zip(self.nodes, raw, strict=True)]

    def join(self, raws: Sequence[Raw]) -> Raw:
        """See Node."""
        return [node.join(parts) for node, *parts in zip(self.nodes, *raws, strict=True)]

    def arrow(self, data: Any, raw: Raw) -> Any:
        """See Node."""
        return pa.StructArray.from_arrays(self.columns(data, raw), list(self.names))

    def columns(self, data: Any, raw: Raw) -> list[Any]:
        """The Arrow array of each field."""
        return [node.arrow(data, part) for node, part in zip(self.nodes, raw, strict=True)]
