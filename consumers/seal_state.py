"""What a notary has read: the leaves of each campaign since its last seal, and what the next seal is made of. Pure.

A round's seal is a function of the log, not of the order in which partitions are read: it takes each partition's records up
to, and without, the first that was written later than the record that ends the round (by the records' timestamps). The seal
at a campaign's end takes all that stands there when it is made.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from bat_events.domain.merkle import root_of
from bat_events.domain.sealing import FIRST_PREVIOUS, RULE, Leaves, Range, content_bytes, head_of
from bat_events.events.base import Event
from bat_events.events.seals import HeldoutRoundSealed, RoundSealed, SealedRange
from bat_events.log.belonging import campaign_of
from bat_events.log.interface import Partition, Record

Seal = RoundSealed | HeldoutRoundSealed


@dataclass(frozen=True, kw_only=True)
class Ending:
    """An event that ends a round, or (round None) the campaign. `until_ms` bounds what its seal takes."""

    campaign: str
    id: str
    round: int | None
    until_ms: int | None


@dataclass
class _Tail:
    """A partition of a campaign: how many records were met, and time and leaf of those that no seal holds yet."""

    leaves: Leaves
    met: int = 0
    sealed: int = 0
    open: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass
class _Chain:
    """A campaign's seals so far and what no seal holds yet."""

    salt: bytes
    number: int = 0
    head: str = FIRST_PREVIOUS.hex()
    tails: dict[Partition, _Tail] = field(default_factory=dict)
    closed: bool = False

    def tail(self, where: Partition) -> _Tail:
        """The tail of a partition."""
        if where not in self.tails:
            self.tails[where] = _Tail(leaves=Leaves(where[0], where[1], self.salt))
        return self.tails[where]

    def take(self, record: Record) -> None:
        """Count a record, and keep its leaf unless a seal holds it."""
        if self.closed:
            return
        tail = self.tail((record.topic, record.partition))
        if tail.met >= tail.sealed:
            content = content_bytes(record.key, record.value, record.headers, record.timestamp_ms)
            tail.open.append((record.timestamp_ms, tail.leaves.leaf(tail.met, content)))
        tail.met += 1


class SealState:
    """See the module. `salt` gives a campaign's salt when it is first met (held-out plane), or is None."""

    def __init__(self, seals: Sequence[tuple[str, Seal]], salt: Callable[[], bytes] | None) -> None:
        self._salt = salt
        self._chains: dict[str, _Chain] = {}
        self._nameless: list[Record] = []  # rare: what is no event of this project
        for campaign, seal in seals:
            self._learn(campaign, seal)

    def apply(self, record: Record) -> None:
        """Take the next record of its partition."""
        named = campaign_of(record.headers)
        if named is None:  # of every campaign, those to come too
            self._nameless.append(record)
            for chain in self._chains.values():
                chain.take(record)
            return
        campaign = named.decode("utf-8", "replace")
        if campaign.encode() == named:  # otherwise no campaign has that id
            self._chain(campaign).take(record)

    def seal(self, ending: Ending) -> Seal:
        """The seal that an ending asks for. Nothing changes until `made` is told of it."""
        chain = self._chain(ending.campaign)
        ranges = []
        for (topic, partition), tail in sorted(chain.tails.items()):
            count = _until(tail.open, ending.until_ms)
            if count:
                root = root_of([leaf for _, leaf in tail.open[:count]]).hex()
                ranges.append(Range(topic=topic, partition=partition, first=tail.sealed, count=count, root=root))
        return make_seal(
            campaign=ending.campaign,
            number=chain.number,
            round=ending.round,
            previous=chain.head,
            salt=chain.salt,
            ranges=ranges,
        )

    def leaves(self, campaign: str, seal: Seal) -> Iterator[tuple[Partition, int, bytes]]:
        """Partition, first ordinal and leaves of each range of a seal that `made` is not yet told of."""
        chain = self._chain(campaign)
        for part in seal.ranges:
            where = (part.topic, part.partition)
            yield where, part.first, b"".join(leaf for _, leaf in chain.tails[where].open[: part.count])

    def made(self, campaign: str, seal: Seal) -> None:
        """Learn that a seal was committed."""
        chain = self._chain(campaign)
        for part in seal.ranges:
            del chain.tails[(part.topic, part.partition)].open[: part.count]
        self._learn(campaign, seal)

    def _chain(self, campaign: str) -> _Chain:
        if campaign not in self._chains:
            chain = self._chains[campaign] = _Chain(salt=self._salt() if self._salt else b"")
            for record in self._nameless:
                chain.take(record)
        return self._chains[campaign]

    def _learn(self, campaign: str, seal: Seal) -> None:
        if campaign not in self._chains:
            salt = bytes.fromhex(seal.salt) if isinstance(seal, HeldoutRoundSealed) else b""
            self._chains[campaign] = _Chain(salt=salt)
        chain = self._chains[campaign]
        chain.number, chain.head = seal.number + 1, seal.head
        for part in seal.ranges:
            where = (part.topic, part.partition)
            tail = chain.tail(where)
            tail.sealed = part.first + part.count
        if seal.round is None:  # what comes later is of no seal: it need not be kept
            chain.closed = True
            for tail in chain.tails.values():
                tail.open.clear()


def _until(open_: Sequence[tuple[int, bytes]], until_ms: int | None) -> int:
    if until_ms is None:
        return len(open_)
    return next((at for at, (time, _) in enumerate(open_) if time > until_ms), len(open_))


def make_seal(
    *, campaign: str, number: int, round: int | None, previous: str, salt: bytes, ranges: Sequence[Range]
) -> Seal:
    """The event of a seal: of the held-out plane where there is a salt."""
    head = head_of(campaign=campaign, number=number, round=round, previous=previous, salt=salt.hex(), ranges=ranges)
    parts = tuple(
        SealedRange(topic=r.topic, partition=r.partition, first=r.first, count=r.count, root=r.root)
        for r in sorted(ranges)
    )
    if salt:
        return HeldoutRoundSealed(
            number=number, round=round, rule=RULE, salt=salt.hex(), previous=previous, ranges=parts, head=head
        )
    return RoundSealed(number=number, round=round, rule=RULE, previous=previous, ranges=parts, head=head)


def seal_type(*, heldout: bool) -> type[Event]:
    """The event of a plane's seals."""
    return HeldoutRoundSealed if heldout else RoundSealed
