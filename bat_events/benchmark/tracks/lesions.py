"""Lesions put into real tissue: their masks are known exactly, and so is every answer about them.

Tissue is dimmed, lesions are brighter than anything in it. Where an answer turns on a boundary (a quadrant, a grid cell, large
or small), the lesion keeps a margin from it, so that a sound restoration gives one answer and not two.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bat_events.benchmark.skills.medskills import answers
from bat_events.benchmark.tracks.rules import Array

LESION, TISSUE_LOW, TISSUE_SPAN = 0.85, 0.05, 0.55
PARTS = f"parts that touch by edges are one lesion, under {answers.SMALLEST} pixels none"
LARGE_AXES, SMALL_AXES = (5.6, 3.5), (3.3, 2.0)  # pixels: half axes of an ellipse
_MARGIN = 0.9  # pixels between a centre and the nearest line of the grid
_GAP = 2  # pixels between lesions, and between a lesion and the edge


@dataclass(frozen=True)
class Painted:
    """An image with lesions in it, the mask of all of them, and the lesions as the published rules read the mask."""

    image: Array
    mask: Array
    found: list[answers.Lesion]


def paint(image: Array, masks: list[Array]) -> Painted:
    """The tissue of `image`, dimmed, with these lesions."""
    mask = np.asarray(np.max(masks, axis=0))
    painted = np.where(mask > 0, LESION, TISSUE_LOW + TISSUE_SPAN * image)
    return Painted(painted, mask, answers.lesions(mask))


def irregular(radius: float, size: int, rng: np.random.Generator) -> Array:
    """One lesion of irregular outline."""
    centre = rng.uniform(radius + 2, size - radius - 2, size=2)
    rows, columns = np.indices((size, size))
    angle = np.arctan2(rows - centre[0], columns - centre[1])
    first, second = rng.uniform(0, 2 * np.pi, size=2)
    edge = radius * (1 + 0.18 * np.cos(2 * angle + first) + 0.1 * np.cos(3 * angle + second))
    return np.asarray(np.hypot(rows - centre[0], columns - centre[1]) < edge, dtype=np.float64)


def several(larges: int, smalls: int, size: int, rng: np.random.Generator) -> list[Array]:
    """Up to that many upright ellipses, apart from each other; the first large one always finds room."""
    masks: list[Array] = []
    taken = np.zeros((size, size), dtype=bool)
    for axes in [LARGE_AXES] * larges + [SMALL_AXES] * smalls:
        for _ in range(40):
            mask = _ellipse(axes, size, rng)
            if mask is not None and not (mask.astype(bool) & taken).any():
                masks.append(mask)
                taken |= _widened(mask.astype(bool))
                break
    return masks


def _ellipse(axes: tuple[float, float], size: int, rng: np.random.Generator) -> Array | None:
    """An upright ellipse, tall or wide; None where its centre is too near to a line of the grid."""
    half_rows, half_columns = axes if rng.integers(2) else axes[::-1]
    row = rng.uniform(half_rows + _GAP, size - half_rows - _GAP)
    column = rng.uniform(half_columns + _GAP, size - half_columns - _GAP)
    if any(min(at % 8, 8 - at % 8) < _MARGIN for at in (row, column)):
        return None
    rows, columns = np.indices((size, size)) + 0.5
    inside = ((rows - row) / half_rows) ** 2 + ((columns - column) / half_columns) ** 2 < 1
    return np.asarray(inside, dtype=np.float64)


def _widened(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask and everything within the gap of it, in rows and columns."""
    wide = mask.copy()
    for shift in range(1, _GAP + 1):
        wide[shift:] |= mask[:-shift]
        wide[:-shift] |= mask[shift:]
    across = wide.copy()
    for shift in range(1, _GAP + 1):
        across[:, shift:] |= wide[:, :-shift]
        across[:, :-shift] |= wide[:, shift:]
    return across


def zero_or_one(output: Array) -> bool:
    """The published values of a mask."""
    return bool(np.isin(output, (0.0, 1.0)).all())
