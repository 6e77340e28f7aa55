"""Keyed sketches of embeddings: whether two texts mean about the same, told from 1,024 signs under a secret projection.

SimHash (Charikar 2002): a bit is the side of a random plane on which a vector lies, so two sketches differ in a share of bits
that estimates the angle between the vectors over pi. The planes follow from the fingerprint key. Vectors come from outside:
this module knows no model. What a sketch keeps is the direction of a meaning, not its words; whoever holds the key can measure
how near any guess is, as with the other fingerprints.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bat_events.domain.leakage.document import walk
from bat_events.domain.leakage.keyed import subkey
from bat_events.domain.leakage.text import fold, masked, visible, words

Vectors = npt.NDArray[np.float64]
"""One row a text."""
Signs = npt.NDArray[np.uint8]
"""One row a text, 128 bytes of 8 bits each."""

BITS = 1024
CHECK = "meaning"
MINIMUM_WORDS = 8  # of a piece; shorter ones mean much the same everywhere
MAXIMUM_WORDS = 120  # of a piece; longer text is cut into several
_SENTENCES = re.compile(r"(?<=[.?!])\s+|\n+")


@dataclass(frozen=True, kw_only=True, eq=False)
class Meanings:
    """What the gate knows of the meaning of held-out text. `model` is the digest of the embedder's name."""

    key: bytes = field(repr=False)
    model: str
    dimensions: int
    similar: float
    sketches: Signs


def pieces(texts: Iterable[str]) -> list[str]:
    """The sentences and lines that say enough to be compared, each once (numbers do not make another one)."""
    found: dict[str, str] = {}
    for text in texts:
        for sentence in _SENTENCES.split(visible(text)):
            for piece in _cut(sentence.split()):
                found.setdefault(" ".join(masked(word) for word in words(fold(piece))), piece)
    return list(found.values())


def _cut(said: Sequence[str]) -> Iterator[str]:
    for at in range(0, len(said), MAXIMUM_WORDS):
        part = said[at : at + MAXIMUM_WORDS]
        if len(part) >= MINIMUM_WORDS:
            yield " ".join(part)


def document_texts(document: Mapping[str, object]) -> list[str]:
    """The texts of a document, in its own order. Raises ValueError, see `walk`."""
    return [one.value for one in walk(document) if isinstance(one.value, str)]


def sketch(vectors: Vectors, key: bytes) -> Signs:
    """The signs of each vector. Raises ValueError on vectors that are not finite or have no direction."""
    if vectors.ndim != 2 or not np.isfinite(vectors).all() or not (np.abs(vectors).sum(axis=1) > 0).all():
        raise ValueError("embeddings must be rows of finite numbers that are not all zero")
    sides = vectors @ _planes(key, vectors.shape[1]).T > 0
    return np.packbits(sides, axis=1)


def _planes(key: bytes, dimensions: int) -> Vectors:
    """Normals of the planes, each entry +1 or -1, from the key."""
    raw = hashlib.shake_256(subkey(key, f"planes of meaning {dimensions}")).digest(BITS * dimensions // 8 + 1)
    bits = np.unpackbits(np.frombuffer(raw, np.uint8))[: BITS * dimensions]
    planes: Vectors = (2.0 * bits.astype(np.float64) - 1.0).reshape(BITS, dimensions)
    return planes


def nearest(signs: Signs, known: Signs) -> npt.NDArray[np.float64]:
    """For each row the estimated cosine to the nearest known one; -1 where none is known."""
    best = np.full(len(signs), -1.0)
    for at in range(0, len(known), 256):  # a block at a time: rows x block x 128 bytes
        differing = np.bitwise_count(signs[:, None, :] ^ known[None, at : at + 256, :]).sum(axis=2, dtype=np.int64)
        best = np.maximum(best, np.cos(np.pi * differing.min(axis=1) / BITS))
    return best


def own_sketches(held: Vectors, shared: Vectors, key: bytes, similar: float) -> Signs:
    """Sketches of held-out pieces that no shared piece comes as near as `similar`: the others are met by chance."""
    signs = sketch(held, key)
    if len(shared) == 0:
        return signs
    return signs[nearest(signs, sketch(shared, key)) < similar]


def alike(vectors: Vectors, known: Meanings) -> npt.NDArray[np.float64]:
    """For each row the estimated cosine to the nearest held-out sentence; -1 where none is held out.

    Raises ValueError on vectors of another length than the published ones.
    """
    if vectors.shape[1] != known.dimensions:
        raise ValueError(
            f"embeddings of {vectors.shape[1]} numbers, but the published sketches are of {known.dimensions}"
        )
    return nearest(sketch(vectors, known.key), known.sketches)
