"""Enhancement: restore the clean image of each case. Scored by SSIM."""

import numpy as np

from bat_events.benchmark.metrics import ssim
from bat_events.benchmark.tracks.rules import Array, TrackRules
from bat_events.domain.vocabulary import Track


def _subject(image: Array, _place: int, _rng: np.random.Generator) -> tuple[Array, Array]:
    return image, image


def _permitted(output: Array) -> bool:
    return bool(((output >= 0.0) & (output <= 1.0)).all())


ENHANCEMENT = TrackRules(
    track=Track.ENHANCEMENT,
    goal="goal: restore the clean image of every case; tissue lies between 0 and 1",
    output="outputs/CASE.npy: 32x32 image in the display frame, values in [0, 1], never one value only",
    metric_name="SSIM",
    subject=_subject,
    permitted=_permitted,
    metric=ssim,
)
