"""Segmentation: find the bright lesion that was put into each image. Scored by Dice."""

import numpy as np

from bat_events.benchmark.metrics import dice
from bat_events.benchmark.tracks.rules import Array, TrackRules
from bat_events.domain.vocabulary import Track

_RADIUS = (4.0, 5.5, 7.0)  # pixels, by detail
_LESION, _TISSUE_LOW, _TISSUE_SPAN = 0.85, 0.05, 0.55


def _subject(image: Array, place: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Real tissue as background, dimmed, with one lesion of irregular outline whose mask is known exactly."""
    radius, size = _RADIUS[place], image.shape[0]
    centre = rng.uniform(radius + 2, size - radius - 2, size=2)
    rows, columns = np.indices(image.shape)
    angle = np.arctan2(rows - centre[0], columns - centre[1])
    first, second = rng.uniform(0, 2 * np.pi, size=2)
    edge = radius * (1 + 0.18 * np.cos(2 * angle + first) + 0.1 * np.cos(3 * angle + second))
    mask = np.hypot(rows - centre[0], columns - centre[1]) < edge
    return np.where(mask, _LESION, _TISSUE_LOW + _TISSUE_SPAN * image), mask.astype(float)


def _permitted(output: Array) -> bool:
    return bool(np.isin(output, (0.0, 1.0)).all())


SEGMENTATION = TrackRules(
    track=Track.SEGMENTATION,
    goal="goal: mark the lesion in every case; in the restored image a lesion is brighter than 0.7, tissue is darker",
    output="outputs/CASE.npy: 32x32 mask in the display frame, 1 lesion, 0 elsewhere, never one value only",
    metric_name="Dice",
    subject=_subject,
    permitted=_permitted,
    metric=dice,
)
