"""Inclusion proofs: that one event stood at one place of a sealed log, checked offline with a proof and a heads file.

A proof holds the event itself, the hashes beside its path up to the root of its partition's range, and the seal's ranges.
Leaf, root and head are computed anew from it; the head must be one of those that were kept elsewhere.
"""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bat_events.codec import Codec
from bat_events.domain.merkle import HASH_BYTES, inclusion_path, root_from_path
from bat_events.domain.sealing import RULE, Leaves, Range, content_bytes, head_of
from bat_events.log.heads import Head
from bat_events.log.interface import Partition, Record
from bat_events.log.topics import BY_NAME, SEAL_TOPIC
from bat_events.replay.archive_format import ArchiveError
from bat_events.replay.archive_reader import Archived, ArchiveReader
from bat_events.replay.seal_chain import SealOnLog, ranges_of, read_chain

FORMAT: Literal["bat-events-proof"] = "bat-events-proof"

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class ProvenRecord(_Part):
    """The event as it stood on the log; bytes in base64."""

    timestamp_ms: int
    key: str
    value: str
    headers: list[list[str]]  # [name, value]


class ProvenRange(_Part):
    """A range of the seal."""

    topic: str
    partition: Count
    first: Count
    count: Annotated[int, Field(ge=1)]
    root: Hash


class Proof(_Part):
    """See the module."""

    format: Literal["bat-events-proof"]
    version: Literal[1]
    rule: int
    campaign: str
    plane: Literal["training", "heldout"]
    event: str
    topic: str
    partition: Count
    ordinal: Count
    record: ProvenRecord
    path: list[Hash]
    number: Count
    round: Count | None
    previous: Hash
    salt: str
    ranges: list[ProvenRange]
    head: Hash


def prove(folder: Path, event_id: str) -> Proof:
    """The proof of an event of a sealed archive.

    Raises ArchiveError where the event is not there (or stands there twice), or no seal holds it, or the archive is changed.
    """
    archive = ArchiveReader(folder)
    where, archived = _find(archive, event_id)
    plane: Literal["training", "heldout"] = "heldout" if BY_NAME[where[0]].plane == "heldout" else "training"
    seal, part = _sealed_in(archive, plane, where, archived.ordinal, event_id)
    salt = getattr(seal.event, "salt", "")
    leaves = archive.leaves(*where)
    own = Leaves(*where, bytes.fromhex(salt)).leaf(archived.ordinal, archived.content())
    in_range = [leaves[HASH_BYTES * n : HASH_BYTES * (n + 1)] for n in range(part.first, part.first + part.count)]
    index = archived.ordinal - part.first
    path = inclusion_path(in_range, index)
    if root_from_path(own, index, part.count, path) != bytes.fromhex(part.root):
        raise ArchiveError(
            f"{folder}: {where[0]}[{where[1]}] is not as it was sealed: no proof. `bat-events log verify --archive` says where"
        )
    r = archived.record
    return Proof(
        format=FORMAT,
        version=1,
        rule=RULE,
        campaign=archive.manifest.campaign,
        plane=plane,
        event=event_id,
        topic=where[0],
        partition=where[1],
        ordinal=archived.ordinal,
        record=ProvenRecord(
            timestamp_ms=r.timestamp_ms,
            key=_text(r.key),
            value=_text(r.value),
            headers=[[name, _text(value)] for name, value in r.headers],
        ),
        path=[node.hex() for node in path],
        number=seal.event.number,
        round=seal.event.round,
        previous=seal.event.previous,
        salt=salt,
        ranges=[
            ProvenRange(topic=p.topic, partition=p.partition, first=p.first, count=p.count, root=p.root)
            for p in ranges_of(seal.event)
        ],
        head=seal.event.head,
    )


def parse_proof(text: bytes) -> Proof:
    """A proof from its JSON. Raises ArchiveError."""
    try:
        return Proof.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ArchiveError(f"no proof: {field}: {first['msg']}") from None


def check_proof(proof: Proof, heads: Sequence[Head]) -> str | None:
    """Why a proof does not hold; None where it does: the event stood there when the head was made."""
    if proof.rule != RULE:
        return f"it was made by rule {proof.rule}, and here is rule {RULE}"
    try:
        headers = tuple((name, _bytes(value)) for name, value in proof.record.headers)
        content = content_bytes(
            _bytes(proof.record.key), _bytes(proof.record.value), headers, proof.record.timestamp_ms
        )
        salt = bytes.fromhex(proof.salt)
    except ValueError as error:
        return f"its record is not readable: {error}"
    if next((value.decode("utf-8", "replace") for name, value in headers if name == "ce_id"), "") != proof.event:
        return "its record is not the event that it names"
    ranges = [Range(**part.model_dump()) for part in proof.ranges]
    part = next((r for r in ranges if (r.topic, r.partition) == (proof.topic, proof.partition)), None)
    if part is None or not part.first <= proof.ordinal < part.first + part.count:
        return "its seal does not hold that place"
    leaf = Leaves(proof.topic, proof.partition, salt).leaf(proof.ordinal, content)
    root = root_from_path(leaf, proof.ordinal - part.first, part.count, [bytes.fromhex(node) for node in proof.path])
    if root is None or root.hex() != part.root:
        return "record, place and path do not lead to the root of its range: one of them was changed"
    head = head_of(
        campaign=proof.campaign,
        number=proof.number,
        round=proof.round,
        previous=proof.previous,
        salt=proof.salt,
        ranges=ranges,
    )
    if head != proof.head:
        return "its seal's fields do not give the head that it names"
    kept = [h for h in heads if (h.campaign, h.plane, h.number) == (proof.campaign, proof.plane, proof.number)]
    if not any(h.head == head for h in kept):
        return f"the heads file does not hold head {head} as seal {proof.number} of campaign {proof.campaign}"
    return None


def _find(archive: ArchiveReader, event_id: str) -> tuple[Partition, Archived]:
    wanted, found = event_id.encode(), list[tuple[Partition, Archived]]()
    for where in archive.partitions:
        for ordinal, content, headers in archive.raw(*where):
            if content.find(wanted, headers) >= 0:
                archived = next(a for a in archive.records(*where) if a.ordinal == ordinal)
                if _names(archived.record, wanted):
                    found.append((where, archived))
                    break  # of a partition's records of one id the first counts
    if not found:
        raise ArchiveError(f"event {event_id} is not in {archive.folder}: give the whole id (32 hex digits)")
    if len(found) > 1:
        raise ArchiveError(f"event {event_id} stands in {len(found)} partitions of {archive.folder}")
    return found[0]


def _names(record: Record, wanted: bytes) -> bool:
    return next((value for name, value in record.headers if name == "ce_id"), None) == wanted


def _sealed_in(
    archive: ArchiveReader, plane: str, where: Partition, ordinal: int, event_id: str
) -> tuple[SealOnLog, Range]:
    topic = SEAL_TOPIC if plane == "training" else "heldout.seal"
    codec = Codec()
    for text in archive.schemas():
        codec.learn(text)
    records = (archived.record for archived in archive.records(topic, 0))
    for seal in read_chain(topic, archive.manifest.campaign, records, codec).seals:
        for part in ranges_of(seal.event):
            if (part.topic, part.partition) == where and part.first <= ordinal < part.first + part.count:
                return seal, part
    raise ArchiveError(
        f"event {event_id} ({where[0]}[{where[1]}] event {ordinal}) is held by no seal: it came after the last one"
    )


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
