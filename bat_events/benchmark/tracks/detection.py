"""Detection: a box with a score around every lesion. Scored by average precision at an overlap of 0.5 (one class)."""

import math

import numpy as np

from bat_events.benchmark.metrics import Box, average_precision
from bat_events.benchmark.tracks.lesions import PARTS, paint, several, zero_or_one
from bat_events.benchmark.tracks.rules import Array, Pairs, Reference, Subject, TrackRules
from bat_events.benchmark.tracks.segmentation import BRIGHT, MASK_LINE
from bat_events.domain.vocabulary import Track

MOST_BOXES = 64


def _subject(image: Array, _place: int, rng: np.random.Generator) -> Subject:
    painted = paint(image, several(1, int(rng.integers(3)), image.shape[0], rng))
    truth = [Box(found.top, found.left, found.bottom, found.right, 1.0) for found in painted.found]
    return Subject(image=painted.image, reference=Reference(array=painted.mask, answer=truth))


def _boxes(value: object) -> list[Box] | None:
    """Boxes of five finite numbers, top < bottom, left < right, within the image, the score in [0, 1]."""
    if not isinstance(value, list) or len(value) > MOST_BOXES:
        return None
    out = []
    for row in value:
        if not isinstance(row, list) or len(row) != 5:
            return None
        if not all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) for n in row):
            return None
        box = Box(*(float(n) for n in row))
        if not (0 <= box.top < box.bottom <= 32 and 0 <= box.left < box.right <= 32 and 0 <= box.score <= 1):
            return None
        out.append(box)
    return out


def _precision(pairs: Pairs) -> float:
    return average_precision([([] if output is None else output.answer, truth.answer) for output, truth in pairs])


DETECTION = TrackRules(
    track=Track.DETECTION,
    goal=f"goal: find every lesion of every case; {BRIGHT}; {PARTS}",
    output=(
        MASK_LINE,
        "outputs/CASE.json: boxes, a list of [top, left, bottom, right, score]; bottom and right lie one past the lesion",
    ),
    metric_name="mAP at 0.5",
    subject=_subject,
    permitted=zero_or_one,
    metric=_precision,
    parse=_boxes,
)
