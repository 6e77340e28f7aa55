"""Products that never came from work: flat ones, copies of the input, one case's output for another.

Thresholds are far from what any choice of the published steps leaves, right or wrong (tests/unit/benchmark holds that).
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
DEVIATION = 0.02
"""Standard deviation up to which a product is flat: one pixel of a mask has 0.031."""
SAME = 0.9999
"""Correlation from which two images are one up to brightness and contrast."""


def flat(product: Array) -> bool:
    """Whether there is nothing in it."""
    return float(product.std()) <= DEVIATION


def copies_input(product: Array, raw: NDArray[np.uint8]) -> bool:
    """Whether it is one of the nine stored frames up to brightness and contrast, however turned, mirrored or shifted."""
    wanted = np.fft.rfft2(_centred(product))
    for frame in raw:
        straight = _centred(frame.astype(np.float64))
        turned = [np.rot90(straight, quarter) for quarter in range(4)]
        for image in (*turned, *(quarter.T for quarter in turned)):
            # The correlation at every shift at once.
            found = np.fft.irfft2(wanted * np.conj(np.fft.rfft2(image)), s=product.shape)
            if float(np.abs(found).max()) >= SAME:
                return True
    return False


def repeated(products: Mapping[str, Array]) -> set[str]:
    """The names whose product is another name's too, up to brightness and contrast."""
    names = sorted(products)
    centred = {name: _centred(products[name]) for name in names}
    found: set[str] = set()
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            if abs(float((centred[first] * centred[second]).sum())) >= SAME:
                found |= {first, second}
    return found


def _centred(product: Array) -> Array:
    """Mean 0 and length 1, so that a product of two is their correlation; all 0 where it is constant."""
    away = product - product.mean()
    length = float(np.sqrt((away * away).sum()))
    return away / length if length > 0 else np.zeros_like(away)
