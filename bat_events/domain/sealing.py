"""What a seal covers and how it is hashed (docs/archive.md gives the same rule in words).

A leaf stands for one record at its place in its campaign: topic, partition, ordinal, key, value, headers, timestamp. No
offset: an import numbers records anew. A seal's ranges are the records of each partition between the seal before and its
own cut; its head hashes them together with the head before, so a chain of heads fixes the whole log. Pure.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bat_events.domain.canonical import Json, canonical_json
from bat_events.domain.merkle import HASH_BYTES, LEAF

RULE = 1
"""Version of everything in this module; a seal names the one that it was made by."""

FIRST_PREVIOUS = bytes(HASH_BYTES)
"""What the first seal of a campaign names as the head before it."""

_HEAD = b"\x02"
_sha256 = hashlib.sha256

Headers = Sequence[tuple[str, bytes]]


def long_bytes(number: int) -> bytes:
    """A whole number as Avro has it: zigzag, seven bits a byte, the lowest first."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_LONGS = [long_bytes(number) for number in range(4096)]
_NAMES: dict[str, bytes] = {}  # header name -> its bytes with their length before them
_MOST_NAMES = 1000


def _length(content: bytes) -> bytes:
    size = len(content)
    return _LONGS[size] if size < 4096 else long_bytes(size)


def _name(name: str) -> bytes:
    raw = name.encode()
    made = _length(raw) + raw
    if len(_NAMES) < _MOST_NAMES:
        _NAMES[name] = made
    return made


def content_bytes(key: bytes, value: bytes, headers: Headers, timestamp_ms: int) -> bytes:
    """Timestamp, key, value and headers as one byte string: the Avro encoding that stands in an archive too."""
    parts = [long_bytes(timestamp_ms), _length(key), key, _length(value), value]
    if headers:
        parts.append(long_bytes(len(headers)))
        for name, raw in headers:
            parts += (_NAMES.get(name) or _name(name), _length(raw), raw)
    parts.append(b"\x00")
    return b"".join(parts)


class Leaves:
    """Leaf hashes of one partition of a campaign. `salt` (held-out plane only) keeps roots from confirming guesses."""

    def __init__(self, topic: str, partition: int, salt: bytes = b"") -> None:
        raw = topic.encode()
        self._prefix = b"".join(
            (LEAF, bytes((RULE, len(salt))), salt, len(raw).to_bytes(2, "big"), raw, partition.to_bytes(4, "big"))
        )

    def leaf(self, ordinal: int, content: bytes) -> bytes:
        """The leaf of the record that stands at `ordinal`, with that content."""
        return _sha256(self._prefix + ordinal.to_bytes(8, "big") + content).digest()


@dataclass(frozen=True, kw_only=True, order=True)
class Range:
    """The records [first, first + count) of a partition, and the root over their leaves."""

    topic: str
    partition: int
    first: int
    count: int
    root: str  # hex


def head_of(
    *,
    campaign: str,
    number: int,
    round: int | None,
    previous: str,
    salt: str,
    ranges: Iterable[Range],
) -> str:
    """A seal's head, in hex: the chain up to and with it. `previous` and `salt` are hex."""
    body: Json = {
        "rule": RULE,
        "campaign": campaign,
        "number": number,
        "round": round,
        "salt": salt,
        "ranges": [[r.topic, r.partition, r.first, r.count, r.root] for r in sorted(ranges)],
    }
    return _sha256(_HEAD + bytes.fromhex(previous) + canonical_json(body)).hexdigest()
