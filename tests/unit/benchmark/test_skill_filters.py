"""The skill library's own filters are scipy's, to rounding."""

import numpy as np
import pytest
from scipy import ndimage

from bat_events.benchmark.skills.medskills import filters


@pytest.mark.parametrize("seed", range(5))
def test_filters_equal_scipys(seed: int) -> None:
    image = np.random.default_rng(seed).normal(size=(32, 32))
    for size in (1, 2, 3, 4):
        np.testing.assert_array_equal(filters.grey_opening(image, size), ndimage.grey_opening(image, size=(size, size)))
    expected = ndimage.gaussian_filter(image, 1.2, mode="nearest")
    np.testing.assert_allclose(filters.gaussian_filter(image, 1.2), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(filters.laplace(image), ndimage.laplace(image, mode="nearest"), rtol=0, atol=1e-12)
