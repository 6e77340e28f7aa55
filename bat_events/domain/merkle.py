"""Merkle trees over hashed leaves, shaped as in RFC 6962: the left side of every node is the largest full tree that fits.

Leaves and nodes are told apart by their first byte, so that no node can be passed off as a leaf. Pure: the leaves come in as
32-byte hashes (domain/sealing.py says what is hashed).
"""

import hashlib
from collections.abc import Sequence

LEAF, NODE = b"\x00", b"\x01"
"""First byte of what is hashed for a leaf, and for a node of two children."""

HASH_BYTES = 32
EMPTY = hashlib.sha256(b"").digest()
"""The root of a tree without leaves."""

_sha256 = hashlib.sha256


class MerkleTree:
    """A tree that takes its leaves one by one and keeps only the roots of its full parts: log2(n) hashes."""

    def __init__(self) -> None:
        self.size = 0
        self._full: list[bytes] = []  # roots of full trees, the largest first: one per 1 in the size's binary form

    def add(self, leaf: bytes) -> None:
        """Take the next leaf's hash."""
        node, number = leaf, self.size
        full = self._full
        while number & 1:
            node = _sha256(NODE + full.pop() + node).digest()
            number >>= 1
        full.append(node)
        self.size += 1

    def root(self) -> bytes:
        """The root over the leaves so far; more may follow."""
        if not self._full:
            return EMPTY
        node = self._full[-1]
        for left in reversed(self._full[:-1]):
            node = _sha256(NODE + left + node).digest()
        return node


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root over all leaves."""
    tree = MerkleTree()
    for leaf in leaves:
        tree.add(leaf)
    return tree.root()


def inclusion_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The siblings from leaf `index` up to the root. Raises IndexError for a leaf that is not there."""
    if not 0 <= index < len(leaves):
        raise IndexError(f"leaf {index} of {len(leaves)}")
    if len(leaves) == 1:
        return []
    split = 1 << (len(leaves) - 1).bit_length() - 1
    if index < split:
        return [*inclusion_path(leaves[:split], index), root_of(leaves[split:])]
    return [*inclusion_path(leaves[split:], index - split), root_of(leaves[:split])]


def root_from_path(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root that leaf, place and siblings lead to; None where the path has not the length that they give."""
    if not 0 <= index < size:
        return None
    node, last = leaf, size - 1
    for sibling in path:
        if last == 0:
            return None
        if index & 1 or index == last:
            node = _sha256(NODE + sibling + node).digest()
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            node = _sha256(NODE + node + sibling).digest()
        index, last = index >> 1, last >> 1
    return node if last == 0 else None
