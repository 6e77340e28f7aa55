"""Segmentation: mark the bright lesion that was put into each image. Scored by Dice."""

import numpy as np

from bat_events.benchmark.metrics import dice
from bat_events.benchmark.tracks.lesions import irregular, paint, zero_or_one
from bat_events.benchmark.tracks.rules import Array, Pairs, Reference, Subject, TrackRules
from bat_events.domain.vocabulary import Track

MASK_LINE = "outputs/CASE.npy: 32x32 mask in the display frame, 1 lesion, 0 elsewhere, never one value only"
BRIGHT = "in the restored image a lesion is brighter than 0.7, tissue is darker"
_RADIUS = (4.0, 5.5, 7.0)  # pixels, by detail


def _subject(image: Array, place: int, rng: np.random.Generator) -> Subject:
    painted = paint(image, [irregular(_RADIUS[place], image.shape[0], rng)])
    return Subject(image=painted.image, reference=Reference(array=painted.mask))


def _mean_dice(pairs: Pairs) -> float:
    return float(np.mean([0.0 if output is None else dice(output.array, truth.array) for output, truth in pairs]))


SEGMENTATION = TrackRules(
    track=Track.SEGMENTATION,
    goal=f"goal: mark the lesion in every case; {BRIGHT}",
    output=(MASK_LINE,),
    metric_name="mean Dice",
    subject=_subject,
    permitted=zero_or_one,
    metric=_mean_dice,
)
