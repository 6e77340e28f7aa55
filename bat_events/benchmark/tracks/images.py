"""Enhancement and synthesis: an image is asked for. Scored by SSIM, a missing image counting 0."""

import numpy as np

from bat_events.benchmark.metrics import ssim
from bat_events.benchmark.skills.medskills.image import second_contrast
from bat_events.benchmark.tracks.rules import Array, Pairs, Reference, Subject, TrackRules
from bat_events.domain.vocabulary import Track


def _clean(image: Array, _place: int, _rng: np.random.Generator) -> Subject:
    return Subject(image=image, reference=Reference(array=image))


def _second(image: Array, _place: int, _rng: np.random.Generator) -> Subject:
    return Subject(image=image, reference=Reference(array=second_contrast(image)))


def _permitted(output: Array) -> bool:
    return bool(((output >= 0.0) & (output <= 1.0)).all())


def _mean_ssim(pairs: Pairs) -> float:
    scores = [0.0 if output is None else ssim(output.array, truth.array) for output, truth in pairs]
    return float(np.mean(scores))


ENHANCEMENT = TrackRules(
    track=Track.ENHANCEMENT,
    goal="goal: restore the clean image of every case; tissue lies between 0 and 1",
    output=("outputs/CASE.npy: 32x32 image in the display frame, values in [0, 1], never one value only",),
    metric_name="mean SSIM",
    subject=_clean,
    permitted=_permitted,
    metric=_mean_ssim,
)
SYNTHESIS = TrackRules(
    track=Track.SYNTHESIS,
    goal="goal: synthesise the second contrast of every case; where the clean first contrast is x, it is 1 - x * x",
    output=("outputs/CASE.npy: 32x32 second contrast in the display frame, values in [0, 1], never one value only",),
    metric_name="mean SSIM",
    subject=_second,
    permitted=_permitted,
    metric=_mean_ssim,
)
