"""One byte sequence for one value: canonical JSON, and the digests, ids, seeds and shuffles that derive from it.

Everything that must come out the same on every machine and in every replay goes through here. Hash inputs carry a
version tag, so that a later change of the rules cannot collide with ids made under the old ones.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

VERSION = "bat-events/1"

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
Item = TypeVar("Item")

_quoted = json.encoder.encode_basestring
_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical_json(value: Json) -> bytes:
    """UTF-8 JSON with sorted keys and no spaces (docs/rules.md).

    Tuples are written as lists. Raises ValueError on NaN, infinity, a lone surrogate, a key that is not a string or a
    value that JSON does not have: `json` alone would write keys 1 and "1" alike, and NaN as a word no reader takes.
    """
    plain = value if _is_plain(value) else _plain(value, "$")
    return _JSON.encode(plain).encode("utf-8")


def digest(value: Json) -> str:
    """SHA-256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def identifier(kind: str, *parts: Json) -> str:
    """An id of 32 hex digits: equal for equal `kind` and `parts`, different (in practice) for any others."""
    text = _flat(parts)
    if text is None:
        return digest([VERSION, kind, parts])[:32]
    return hashlib.sha256(f'["{VERSION}",{_quoted(kind)},{text}]'.encode()).hexdigest()[:32]


def seed63(kind: str, *parts: Json) -> int:
    """A seed in [0, 2**63), fit for a signed 64-bit field."""
    text = _flat(parts)
    if text is None:
        return int(digest([VERSION, "seed", kind, parts])[:16], 16) >> 1
    return int(hashlib.sha256(f'["{VERSION}","seed",{_quoted(kind)},{text}]'.encode()).hexdigest()[:16], 16) >> 1


def shuffled(items: Iterable[Item], *seed: Json) -> list[Item]:
    """The items in an order that depends on their given order and `seed` only: sorted by the hash of (seed, position)."""
    pool = list(items)
    prefix = canonical_json([VERSION, "shuffle", seed])
    keys = [hashlib.sha256(prefix + b"#%d" % position).digest() for position in range(len(pool))]
    return [pool[position] for position in sorted(range(len(pool)), key=keys.__getitem__)]


def _flat(parts: Sequence[Json]) -> str | None:
    """Canonical JSON of words and whole numbers, which nearly all ids are made of; None for anything else."""
    found = []
    for part in parts:
        if type(part) is int:
            found.append(str(part))
        elif isinstance(part, str) and part.isascii():
            found.append(_quoted(part))
        else:
            return None
    return f"[{','.join(found)}]"


def _is_plain(value: object) -> bool:
    """Whether `json` writes the value as `_plain` would have it: what nearly all values are, and quick to see."""
    kind = type(value)
    if kind is str:
        return value.isascii()  # type: ignore[attr-defined,no-any-return]
    if kind is int or value is None:
        return True
    if kind is list or kind is tuple:
        return all(map(_is_plain, value))  # type: ignore[call-overload]
    if isinstance(value, str):
        return value.isascii()
    if isinstance(value, bool):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and key.isascii() for key in value) and all(map(_is_plain, value.values()))
    return False


def _plain(value: object, where: str) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"canonical JSON: {value} at {where} is not a finite number; leave it out or give null")
        return value
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise ValueError(f"canonical JSON: the text at {where} holds a lone surrogate and has no UTF-8")
        return str(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"canonical JSON: key {key!r} at {where} is not a string")
        return {_plain(key, where): _plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise ValueError(f"canonical JSON: {type(value).__name__} at {where} has no JSON form")
