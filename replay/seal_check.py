"""One partition against its sealed ranges: roots from raw bytes, and the first event that differs where a root does not fit.

A root alone says that something differs. Where leaf hashes are there whose root is the sealed one, they say which event:
they cannot have been changed together with it. Without them the events are asked whether they fit themselves.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bat_events.domain.merkle import HASH_BYTES, MerkleTree, root_of
from bat_events.domain.sealing import Leaves, Range
from bat_events.replay.archive_raw import Raw
from bat_events.replay.findings_of_seals import Finding
from bat_events.replay.self_check import faults, id_of

_CHUNK = HASH_BYTES * 4096


@dataclass(kw_only=True)
class Checked:
    """How a partition stands: `first_wrong` is the first range whose root does not fit."""

    records: int = 0
    sealed: int = 0
    first_wrong: Range | None = None
    leaf_differs: int | None = None
    """The first ordinal whose leaf is not the one of the list that came along."""
    leaf_kind: str = ""
    """How: changed, added (the list has no leaf for it) or missing (the list has one leaf more)."""
    gap: int | None = None
    """The first ordinal that no row has, though later ones are there."""


def check_partition(
    rows: Iterable[Raw], hashes: Leaves, ranges: Sequence[Range], listed: Iterator[bytes] | None, *, fill: bool
) -> Checked:
    """Read the rows once. `listed` are the leaf hashes that came along, in chunks; with `fill` they stand for rows that were left
    out (an archive of one round).
    """
    found = Checked(sealed=sum(part.count for part in ranges))
    roots = _Roots(ranges)
    leaf_of, take = hashes.leaf, roots.take
    leaves = _each(listed) if listed is not None else None
    at = 0
    for ordinal, content, _ in rows:
        while at < ordinal:
            known = next(leaves, None) if leaves is not None else None
            if not fill and found.gap is None:
                found.gap = at
            take((known if fill else None) or bytes(HASH_BYTES))
            at += 1
        leaf = leaf_of(ordinal, content)
        if leaves is not None and (known := next(leaves, None)) != leaf and found.leaf_differs is None:
            found.leaf_differs, found.leaf_kind = ordinal, "added" if known is None else "changed"
        take(leaf)
        at += 1
    if leaves is not None:
        for known in leaves:
            if fill:
                take(known)
                at += 1
            elif found.leaf_differs is None:
                found.leaf_differs, found.leaf_kind = at, "missing"
    found.records, found.first_wrong = at, roots.first_wrong or roots.current
    return found


class _Roots:
    """The roots of ranges that follow one another, leaf by leaf. `current` is the range that leaves are missing in."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        self._due = iter(ranges)
        self.first_wrong: Range | None = None
        self._next()

    def take(self, leaf: bytes) -> None:
        current = self.current
        if current is None:
            return
        tree = self._tree
        tree.add(leaf)
        if tree.size == current.count:
            if tree.root().hex() != current.root and self.first_wrong is None:
                self.first_wrong = current
            self._next()

    def _next(self) -> None:
        self.current: Range | None = next(self._due, None)
        self._tree = MerkleTree()


def _each(chunks: Iterator[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for at in range(0, len(chunk), HASH_BYTES):
            yield chunk[at : at + HASH_BYTES]


def locate(
    topic: str, partition: int, wrong: Range, rows: Iterable[Raw], hashes: Leaves, leaves: bytes | None, total: int
) -> Finding:
    """The first event of a range that is not as it was sealed. `total`: how many records all seals hold; `leaves`: the list
    that came along, trusted only as far as its root is the sealed one.
    """
    here = {ordinal: content for ordinal, content, _ in rows if wrong.first <= ordinal < wrong.first + wrong.count + 1}
    sealed = _trusted(leaves, wrong)
    if sealed is None:
        return _asked(topic, partition, wrong, here, total)
    for place, leaf in enumerate(sealed):
        ordinal = wrong.first + place
        content = here.get(ordinal)
        if content is None:
            what = f"record {ordinal} of {total} that were sealed is not there"
            return Finding(kind="missing", topic=topic, partition=partition, ordinal=ordinal, what=what)
        if hashes.leaf(ordinal, content) != leaf:
            kind, what = _how(ordinal, place, here, sealed, hashes, wrong)
            id_ = "" if kind == "missing" else id_of(content)
            if kind == "changed":
                what = "; ".join(faults(topic, partition, content)) or what
            return Finding(kind=kind, topic=topic, partition=partition, ordinal=ordinal, id=id_, what=what)
    return Finding(
        kind="changed",
        topic=topic,
        partition=partition,
        ordinal=wrong.first,
        what="the range's root is not the sealed one",
    )


def _trusted(leaves: bytes | None, wrong: Range) -> list[bytes] | None:
    if leaves is None:
        return None
    part = leaves[HASH_BYTES * wrong.first : HASH_BYTES * (wrong.first + wrong.count)]
    sealed = [part[at : at + HASH_BYTES] for at in range(0, len(part), HASH_BYTES)]
    return sealed if len(sealed) == wrong.count and root_of(sealed).hex() == wrong.root else None


def _how(
    ordinal: int, place: int, here: dict[int, bytes], sealed: list[bytes], hashes: Leaves, wrong: Range
) -> tuple[str, str]:
    """Whether the record that was sealed here is gone, moved or changed."""
    content = here[ordinal]
    later_place = next(
        (p for p in range(place + 1, len(sealed)) if hashes.leaf(wrong.first + p, content) == sealed[p]), None
    )
    moved_to = next((o for o in sorted(here) if o > ordinal and hashes.leaf(ordinal, here[o]) == sealed[place]), None)
    if later_place is not None and moved_to is not None:
        return (
            "reordered",
            f"it was sealed at place {wrong.first + later_place}; what was sealed here stands at {moved_to}",
        )
    if later_place is not None:
        gone = later_place - place
        return "missing", f"{gone} record{'s' if gone > 1 else ''} that stood here {'are' if gone > 1 else 'is'} gone"
    if moved_to is not None:
        return "added", f"it was never sealed; what was sealed here stands at {moved_to}"
    return "changed", "its headers or its timestamp differ"


def _asked(topic: str, partition: int, wrong: Range, here: dict[int, bytes], total: int) -> Finding:
    """Without trusted leaves: the first event of the range that does not fit itself."""
    seen: set[str] = set()
    for ordinal in range(wrong.first, wrong.first + wrong.count):
        content = here.get(ordinal)
        if content is None:
            what = f"records from {ordinal} on are not there: {total} were sealed"
            return Finding(kind="missing", topic=topic, partition=partition, ordinal=ordinal, what=what)
        found, id_ = faults(topic, partition, content), id_of(content)
        if found:
            return Finding(
                kind="changed", topic=topic, partition=partition, ordinal=ordinal, id=id_, what="; ".join(found)
            )
        if id_ in seen:
            what = "an event of this id stands before it in the same range: it may have been added"
            return Finding(kind="added", topic=topic, partition=partition, ordinal=ordinal, id=id_, what=what)
        seen.add(id_)
    last = wrong.first + wrong.count - 1
    what = (
        f"one or more of the records {wrong.first} to {last} were changed, added, removed or reordered; each fits itself, "
        "and no trusted leaf hashes are here to say which"
    )
    return Finding(kind="changed", topic=topic, partition=partition, ordinal=wrong.first, what=what)
