"""MinHash sketches of keyed shingles: near copies of whole texts, whatever was changed in them here and there.

A sketch is 128 minima over permutations of the shingles' hashes (rensa's R-MinHash); the share of equal minima estimates
the Jaccard similarity of two sets, with a standard deviation of sqrt(j (1 - j) / 128). Shingles that shared text holds
are left out on both sides, so two instances of one template are not alike for that.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import rensa

from bat_events.domain.leakage.keyed import Hashes

Sketches = npt.NDArray[np.uint32]
"""One row a text, 128 columns."""

PERMUTATIONS = 128
SIMILAR = 0.25  # estimated Jaccard similarity from which a text is a near copy
MINIMUM_SHINGLES = 24  # of a text's own; fewer estimate nothing
_SEED = 20260101  # public: what hides the text is the key of the shingles


def sketches(texts: Sequence[Hashes]) -> Sketches:
    """A sketch of each text's shingles."""
    if not texts:
        return np.zeros((0, PERMUTATIONS), dtype=np.uint32)
    offsets = np.cumsum([0, *(len(text) for text in texts)]).astype(np.uint64)
    matrix = rensa.RMinHash.digest_matrix_from_flat_token_hashes(np.concatenate(texts), offsets, PERMUTATIONS, _SEED)
    return np.array(matrix.to_rows(), dtype=np.uint32)


def similarity(shingles: Hashes, known: Sketches) -> float:
    """The highest estimated similarity with a known sketch; 0 where there is too little to compare."""
    if len(known) == 0 or len(shingles) < MINIMUM_SHINGLES:
        return 0.0
    return float((sketches([shingles]) == known).mean(axis=1).max())
