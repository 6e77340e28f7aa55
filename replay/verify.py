"""Is the record as it was sealed? Checks a campaign against its seals, its seals against each other and against kept heads.

It hashes raw bytes and decodes no event but the seals and, where something differs, the events at that place. It cannot
write, and it says what it did not check.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bat_events.codec import Codec
from bat_events.domain.sealing import Leaves, Range
from bat_events.log.heads import Head
from bat_events.log.interface import Partition, Record
from bat_events.log.topics import BY_NAME, SEAL_TOPIC
from bat_events.replay.archive_raw import Raw
from bat_events.replay.findings_of_seals import Finding
from bat_events.replay.seal_chain import Chain, check_heads, read_chain
from bat_events.replay.seal_check import Checked, check_partition, locate

Say = Callable[[str], None]


class SealedLog(Protocol):
    """A campaign's log to be checked."""

    @property
    def name(self) -> str: ...

    @property
    def campaign(self) -> str: ...

    @property
    def partial(self) -> bool:
        """Whether records were left out on purpose (an archive of one round): their leaf hashes stand for them."""
        ...

    def partitions(self) -> Sequence[Partition]: ...

    def schemas(self) -> Mapping[str, bytes]:
        """Digest -> text of the writers' schemas."""
        ...

    def seals(self, topic: str) -> Iterable[Record]:
        """The campaign's records of a seal topic, in order."""
        ...

    def rows(self, where: Partition) -> Iterable[Raw]:
        """The campaign's records of a partition, by ordinal."""
        ...

    def leaves(self, where: Partition) -> Iterator[bytes] | None:
        """The leaf hashes of all records that came along, in chunks; None where there are none."""
        ...

    def kept(self, where: Partition) -> bytes | None:
        """Leaf hashes by ordinal for saying which event differs, as many as there are; None where there are none."""
        ...


@dataclass(frozen=True, kw_only=True)
class PlaneResult:
    """One plane's seals: how many, and the records that they hold."""

    plane: str
    seals: int
    head: str | None
    sealed: int
    unsealed: int
    heads_checked: bool


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What a check came to. `findings` are in the order of topics, partitions and ordinals, files first."""

    name: str
    campaign: str
    planes: tuple[PlaneResult, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return not self.findings


def verify(log: SealedLog, heads: Sequence[Head] | None, say: Say, *, codec: Codec | None = None) -> Verification:
    """Check a log. `heads` are those that were kept elsewhere; None: the seals are only held against each other. `codec` learns
    the log's schemas; None: a new one.

    Raises LogError where the log cannot be read.
    """
    codec = codec or Codec()
    known = {schema.digest for schema in codec.schemas()}
    for digest, text in log.schemas().items():
        if digest not in known:
            codec.learn(text)
    there = set(log.partitions())
    planes, findings, notes = [], [], []
    for plane, topic in (("training", SEAL_TOPIC), ("heldout", "heldout.seal")):
        places = sorted(where for where in there if (BY_NAME[where[0]].plane == "heldout") == (plane == "heldout"))
        if not places:
            notes.append(f"the {plane} plane's topics are not here: nothing is said about them")
            continue
        chain = read_chain(topic, log.campaign, log.seals(topic), codec)
        if heads is not None:
            check_heads(chain, heads, plane)
        result, found = _plane(log, plane, chain, places, say)
        findings += chain.findings + found
        kept = heads is not None and any(h.campaign == log.campaign and h.plane == plane for h in heads)
        planes.append(
            PlaneResult(
                plane=plane,
                seals=len(chain.seals),
                head=chain.seals[-1].event.head if chain.seals else None,
                sealed=sum(c.sealed for c in result.values()),
                unsealed=sum(max(0, c.records - c.sealed) for c in result.values()),
                heads_checked=kept,
            )
        )
        notes += _notes(plane, chain, result, kept=kept, asked=heads is not None)
    return Verification(
        name=log.name, campaign=log.campaign, planes=tuple(planes), findings=tuple(findings), notes=tuple(notes)
    )


def _plane(
    log: SealedLog, plane: str, chain: Chain, places: Sequence[Partition], say: Say
) -> tuple[dict[Partition, Checked], list[Finding]]:
    ranges = chain.ranges()
    findings: list[Finding] = []
    result: dict[Partition, Checked] = {}
    for number, where in enumerate(sorted({*places, *ranges}), 1):
        topic, partition = where
        due = ranges.get(where, [])
        if where not in places:
            what = f"{due[0].count} records and more were sealed, and the partition is not here"
            findings.append(Finding(kind="missing", topic=topic, partition=partition, ordinal=0, what=what))
            continue
        result[where], found = _partition(log, where, due, chain.salt if plane == "heldout" else b"")
        findings += found
        say(f"{plane} {number}/{len(places)} {topic}[{partition}]: {result[where].records:,} records")
    return result, findings


def _partition(log: SealedLog, where: Partition, ranges: Sequence[Range], salt: bytes) -> tuple[Checked, list[Finding]]:
    topic, partition = where
    hashes = Leaves(topic, partition, salt)
    checked = check_partition(log.rows(where), hashes, ranges, log.leaves(where), fill=log.partial)
    found: list[Finding] = []
    if checked.first_wrong is not None:
        leaves = log.kept(where)
        total = sum(part.count for part in ranges)
        found.append(locate(topic, partition, checked.first_wrong, log.rows(where), hashes, leaves, total))
    elif checked.gap is not None:
        what = "no record has this ordinal, though later ones are there"
        found.append(Finding(kind="missing", topic=topic, partition=partition, ordinal=checked.gap, what=what))
    elif checked.leaf_differs is not None:
        what = "no seal holds it, but the leaf hashes that came along have another record here, or none"
        found.append(
            Finding(kind=checked.leaf_kind, topic=topic, partition=partition, ordinal=checked.leaf_differs, what=what)
        )
    return checked, found


def _notes(plane: str, chain: Chain, result: Mapping[Partition, Checked], *, kept: bool, asked: bool) -> Iterator[str]:
    unsealed = {where: c.records - c.sealed for where, c in result.items() if c.records > c.sealed}
    if not chain.seals:
        yield f"{plane}: no seal is on the log: nothing can be said about its {sum(unsealed.values()):,} records"
    elif unsealed:
        listed = ", ".join(f"{topic}[{number}] {count:,}" for (topic, number), count in sorted(unsealed.items()))
        yield f"{plane}: unsealed, after the last seal: {listed}"
    if chain.seals and not asked:
        yield (
            f"{plane}: no heads file was given: who could write the log could have made the seals anew. Give the heads that "
            "were kept elsewhere with --heads"
        )
    elif chain.seals and not kept:
        yield f"{plane}: the heads file holds no head of this campaign's {plane} plane"
