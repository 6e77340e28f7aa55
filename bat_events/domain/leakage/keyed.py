"""Keyed hashes of words and of runs of words, and the seal under which they cross the boundary.

A word is hashed by keyed BLAKE2b, a run of words by a sum of its words' hashes with secret odd multipliers modulo 2^64
(multilinear hashing, Carter and Wegman). Such sums of overlapping runs are related, so they are never published bare: they
cross under a seal, which is deterministic (equal content, equal bytes) and tells nothing but a length without the key.
"""

import hashlib
import hmac
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bat_events.domain.leakage.text import encoded

Hashes = npt.NDArray[np.uint64]

MINIMUM_KEY = 16  # bytes
RUN = 8  # words in a window of the longest common run
SHINGLE = 3  # words in a shingle of a sketch
PAIR = 2  # neighbouring words, which tell new text from shared text
SEAL_BYTES = 16  # that a seal adds in front of the content


def subkey(key: bytes, purpose: str) -> bytes:
    """A key of 32 bytes for one purpose. Raises ValueError on a key of fewer than 16 bytes."""
    if len(key) < MINIMUM_KEY:
        raise ValueError("the fingerprint key has fewer than 16 bytes: a short key can be guessed")
    return hmac.digest(key, purpose.encode(), "sha256")


@dataclass
class Hasher:
    """Hashes under one key."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        self._word_key = subkey(self.key, "words")
        # HMAC-SHA256 with its two keyed halves kept: three times as fast as a new one for each text.
        exact_key = subkey(self.key, "exact").ljust(64, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in exact_key))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in exact_key))
        self._multipliers = {
            size: np.frombuffer(hashlib.shake_256(subkey(self.key, f"run of {size}")).digest(8 * size), dtype="<u8")
            | np.uint64(1)
            for size in (RUN, SHINGLE, PAIR)
        }

    def word(self, word: str) -> bytes:
        """64 bits of keyed BLAKE2b."""
        return hashlib.blake2b(encoded(word), digest_size=8, key=self._word_key).digest()

    def exact(self, normal: str) -> str:
        """HMAC-SHA256 of a normalised text, 64 hex digits."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(encoded(normal))
        outer.update(inner.digest())
        return outer.hexdigest()

    def runs(self, hashes: Hashes, size: int) -> Hashes:
        """The hash of each run of `size` words: n word hashes give n - size + 1."""
        count = len(hashes) - size + 1
        if count <= 0:
            return np.zeros(0, dtype=np.uint64)
        multipliers = self._multipliers[size]
        total: Hashes = hashes[:count] * multipliers[0]
        part = np.empty(count, dtype=np.uint64)
        for place in range(1, size):
            np.multiply(hashes[place : place + count], multipliers[place], out=part)
            total += part
        return total


def seal(content: bytes, key: bytes) -> bytes:
    """The content enciphered under a keystream from its own keyed digest, which stands before it (synthetic IV)."""
    tag = hmac.digest(subkey(key, "seal tag"), content, "sha256")[:SEAL_BYTES]
    return tag + _mixed(content, tag, key)


def unseal(sealed: bytes, key: bytes) -> bytes:
    """The inverse of `seal`. Raises ValueError where the key is another or the bytes were changed."""
    tag = sealed[:SEAL_BYTES]
    content = _mixed(sealed[SEAL_BYTES:], tag, key)
    if not hmac.compare_digest(tag, hmac.digest(subkey(key, "seal tag"), content, "sha256")[:SEAL_BYTES]):
        raise ValueError("held-out fingerprints do not open: they were sealed under another key, or bytes were changed")
    return content


def _mixed(content: bytes, tag: bytes, key: bytes) -> bytes:
    stream = hashlib.shake_256(subkey(key, "seal stream") + tag).digest(len(content))
    mixed: bytes = (np.frombuffer(content, np.uint8) ^ np.frombuffer(stream, np.uint8)).tobytes()
    return mixed
