"""The three filters that the skills use, in numpy alone.

They equal scipy.ndimage's of the same names to rounding (a test compares them). Importing scipy.ndimage takes several times
as long as numpy, and every sandbox imports this library once.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Image = NDArray[np.float64]

_TRUNCATE = 4.0  # standard deviations at which the Gaussian is cut off


def grey_opening(image: Image, size: int) -> Image:
    """Erosion, then dilation, by a square of `size` pixels; the image is mirrored at its edges."""
    low = _windows(image, size, size // 2).min(axis=(-2, -1))
    return np.asarray(_windows(low, size, size - 1 - size // 2).max(axis=(-2, -1)))


def gaussian_filter(image: Image, sigma: float) -> Image:
    """Gaussian smoothing of `sigma` pixels; the edge pixels are repeated outwards."""
    radius = int(_TRUNCATE * sigma + 0.5)
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    weights /= weights.sum()
    smooth = image
    for axis in (0, 1):
        pad = [(0, 0), (0, 0)]
        pad[axis] = (radius, radius)
        smooth = sliding_window_view(np.pad(smooth, pad, mode="edge"), 2 * radius + 1, axis=axis) @ weights
    return np.asarray(smooth)


def laplace(image: Image) -> Image:
    """Second differences over rows plus those over columns; the edge pixels are repeated outwards."""
    wide = np.pad(image, 1, mode="edge")
    centre = wide[1:-1, 1:-1]
    rows = wide[:-2, 1:-1] - 2.0 * centre + wide[2:, 1:-1]
    columns = wide[1:-1, :-2] - 2.0 * centre + wide[1:-1, 2:]
    return np.asarray(rows + columns)


def _windows(image: Image, size: int, before: int) -> NDArray[np.float64]:
    edge = (before, size - 1 - before)
    return sliding_window_view(np.pad(image, (edge, edge), mode="symmetric"), (size, size))
