"""The seals of a campaign as a chain: each fits its own head, names the one before, and goes on where that ended."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bat_events.codec import Codec
from bat_events.domain.sealing import FIRST_PREVIOUS, RULE, Range, content_bytes, head_of
from bat_events.errors import DecodeError
from bat_events.events.seals import HeldoutRoundSealed, RoundSealed
from bat_events.log.heads import Head
from bat_events.log.interface import Partition, Record
from bat_events.replay.findings_of_seals import Finding, sha256_hex

Seal = RoundSealed | HeldoutRoundSealed


@dataclass(frozen=True, kw_only=True)
class SealOnLog:
    """A seal and its record."""

    event: Seal
    id: str
    ordinal: int
    record: Record


@dataclass(kw_only=True)
class Chain:
    """The seals of one plane, in order, up to the first that does not fit; `findings` say why it ends there."""

    topic: str
    campaign: str
    seals: list[SealOnLog] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def salt(self) -> bytes:
        """What stands before each leaf; empty on the open plane."""
        first = self.seals[0].event if self.seals else None
        return bytes.fromhex(first.salt) if isinstance(first, HeldoutRoundSealed) else b""

    def ranges(self) -> dict[Partition, list[Range]]:
        """The sealed ranges of each partition, in order."""
        found: dict[Partition, list[Range]] = {}
        for seal in self.seals:
            for part in ranges_of(seal.event):
                found.setdefault((part.topic, part.partition), []).append(part)
        return found


def ranges_of(seal: Seal) -> list[Range]:
    """The ranges of a seal."""
    return [Range(topic=r.topic, partition=r.partition, first=r.first, count=r.count, root=r.root) for r in seal.ranges]


def own_head(seal: Seal, campaign: str) -> str:
    """The head that a seal's own fields give."""
    return head_of(
        campaign=campaign,
        number=seal.number,
        round=seal.round,
        previous=seal.previous,
        salt=seal.salt if isinstance(seal, HeldoutRoundSealed) else "",
        ranges=ranges_of(seal),
    )


def read_chain(topic: str, campaign: str, records: Iterable[Record], codec: Codec) -> Chain:
    """The chain of the records of a seal topic (the campaign's, in order)."""
    chain = Chain(topic=topic, campaign=campaign)
    ends: dict[Partition, int] = {}
    previous, salt = FIRST_PREVIOUS.hex(), None
    for ordinal, record in enumerate(records):
        fault, seal, id_ = None, None, ""
        try:
            fact = codec.decode(record)
            id_ = fact.id
            seal = fact.event if isinstance(fact.event, RoundSealed | HeldoutRoundSealed) else None
        except DecodeError as error:
            fault = str(error)
        if seal is None:
            fault = fault or "it is no seal"
        else:
            own = seal.salt if isinstance(seal, HeldoutRoundSealed) else ""
            fault = _fault(seal, campaign, len(chain.seals), previous, ends, own if salt is None else salt)
            salt = own if salt is None else salt
        if fault is not None or seal is None:
            chain.findings.append(
                Finding(
                    kind="changed",
                    topic=topic,
                    partition=record.partition,
                    ordinal=ordinal,
                    id=id_,
                    what=f"seal: {fault}",
                )
            )
            break
        for part in seal.ranges:
            ends[(part.topic, part.partition)] = part.first + part.count
        previous = seal.head
        chain.seals.append(SealOnLog(event=seal, id=id_, ordinal=ordinal, record=record))
    return chain


def _fault(seal: Seal, campaign: str, number: int, previous: str, ends: dict[Partition, int], salt: str) -> str | None:
    if seal.rule != RULE:
        return f"it was made by rule {seal.rule}, and here is rule {RULE}: install the bat-events that made it"
    if seal.number != number:
        return f"it is number {seal.number} of its chain where number {number} is due"
    if seal.previous != previous:
        return "it does not name the head of the seal before"
    if isinstance(seal, HeldoutRoundSealed) and seal.salt != salt:
        return "it has another salt than the seals before"
    for part in seal.ranges:
        if part.first != ends.get((part.topic, part.partition), 0):
            return f"its range of {part.topic}[{part.partition}] does not begin where the seal before ended"
    if own_head(seal, campaign) != seal.head:
        return "its head is not the hash of what it says"
    return None


def check_heads(chain: Chain, heads: Sequence[Head], plane: str) -> None:
    """Hold a chain against heads that were kept elsewhere; what does not fit goes to the chain's findings.

    Heads that tell nothing of the campaign say nothing against it: they are of another log.
    """
    kept = {head.number: head for head in heads if head.campaign == chain.campaign and head.plane == plane}
    if not kept:
        return
    on_log = {seal.event.number: seal for seal in chain.seals}
    for number in sorted({*kept, *on_log}):
        head, seal = kept.get(number), on_log.get(number)
        fault = None
        if seal is None and head is not None:
            kind, fault = "missing", f"seal {number} (head {head.head}) is not on the log: it was cut off or replaced"
        elif head is None:
            kind, fault = (
                "added",
                f"seal {number} is not in the heads file: it was made elsewhere, or the file is older",
            )
        elif seal is not None and seal.event.head != head.head:
            kind, fault = "changed", f"seal {number} has head {seal.event.head}, the heads file says {head.head}"
        elif seal is not None and _record_hash(seal.record) != head.record:
            kind, fault = (
                "changed",
                f"the record of seal {number} has another key, header or time than when it was made",
            )
        if fault is not None:
            chain.findings.append(
                Finding(
                    kind=kind,
                    topic=chain.topic,
                    partition=0,
                    ordinal=seal.ordinal if seal else number,
                    id=seal.id if seal else (head.event if head else ""),
                    what=fault,
                )
            )
            return


def _record_hash(record: Record) -> str:
    return sha256_hex(content_bytes(record.key, record.value, record.headers, record.timestamp_ms))
