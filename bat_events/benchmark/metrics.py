"""The tracks' metrics: all stay in [0, 1], and those on 2-D arrays are total on finite arrays of equal shape."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Array = NDArray[np.float64]
WINDOW = 7


def dice(mask: Array, truth: Array) -> float:
    """Dice overlap 2|A and B| / (|A| + |B|) of two 0/1 masks; 1 where both are empty, 0 where one is."""
    total = float(mask.sum() + truth.sum())
    return 1.0 if total == 0 else float(2 * (mask * truth).sum() / total)


def ssim(image: Array, truth: Array) -> float:
    """Mean structural similarity for a data range of 1, negative values cut to 0.

    Wang et al. 2004 with a uniform 7 x 7 window and sample covariance, borders left out: what scikit-image computes by
    default (a test compares), in a tenth of its time on small images.
    """
    samples = WINDOW * WINDOW
    stack = np.stack([image, truth, image * image, truth * truth, image * truth])
    means = ndimage.uniform_filter(stack, size=(0, WINDOW, WINDOW))
    pad = WINDOW // 2
    mean_a, mean_b, square_a, square_b, product = means[:, pad:-pad, pad:-pad]
    scale = samples / (samples - 1)
    variance_a = scale * (square_a - mean_a * mean_a)
    variance_b = scale * (square_b - mean_b * mean_b)
    covariance = scale * (product - mean_a * mean_b)
    c1, c2 = 0.01**2, 0.03**2
    top = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    bottom = (mean_a**2 + mean_b**2 + c1) * (variance_a + variance_b + c2)
    return float(np.clip((top / bottom).mean(), 0.0, 1.0))


class Box(NamedTuple):
    """An axis-parallel box in pixels, from its first row and column to one past its last, and a score."""

    top: float
    left: float
    bottom: float
    right: float
    score: float


def balanced_accuracy(pairs: Sequence[tuple[str | None, str]]) -> float:
    """Mean over the true classes of the share of their cases that were answered right; (answer, truth) per case."""
    classes = {truth for _, truth in pairs}
    recalls = []
    for wanted in classes:
        answers = [answer for answer, truth in pairs if truth == wanted]
        recalls.append(sum(answer == wanted for answer in answers) / len(answers))
    return math.fsum(recalls) / len(recalls)


def overlap(a: Box, b: Box) -> float:
    """Intersection over union."""
    rows = max(0.0, min(a.bottom, b.bottom) - max(a.top, b.top))
    columns = max(0.0, min(a.right, b.right) - max(a.left, b.left))
    both = rows * columns
    return both / ((a.bottom - a.top) * (a.right - a.left) + (b.bottom - b.top) * (b.right - b.left) - both)


def average_precision(images: Sequence[tuple[Sequence[Box], Sequence[Box]]], threshold: float = 0.5) -> float:
    """Average precision of one class over some images of (found, true) boxes; 1 where nothing is there and nothing found.

    COCO's rule at one threshold: boxes by falling score, each matched to the free true box that it overlaps most; precision
    made monotone and read at 101 recalls (Lin et al. 2014).
    """
    total = sum(len(truth) for _, truth in images)
    ranked = sorted(
        ((box.score, image, place) for image, (found, _) in enumerate(images) for place, box in enumerate(found)),
        key=lambda row: (-row[0], row[1], row[2]),
    )
    if total == 0:
        return 1.0 if not ranked else 0.0
    free = [set(range(len(truth))) for _, truth in images]
    hits = []
    for _, image, place in ranked:
        box, truth = images[image][0][place], images[image][1]
        best = max(free[image], key=lambda n: (overlap(box, truth[n]), -n), default=None)
        hit = best is not None and overlap(box, truth[best]) >= threshold
        if hit and best is not None:
            free[image].discard(best)
        hits.append(hit)
    right = np.cumsum(hits) if hits else np.zeros(0)
    precision = right / np.arange(1, len(hits) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(right / total, np.linspace(0, 1, 101) - 1e-12, side="left")
    return float(np.mean([precision[place] if place < len(precision) else 0.0 for place in places]))


def f1(found: Counter[Any], truth: Counter[Any]) -> float:
    """F1 of two multisets; 1 where both are empty."""
    total = found.total() + truth.total()
    return 1.0 if total == 0 else 2 * (found & truth).total() / total


def rouge_l(text: str, truth: str) -> float:
    """F-measure of the longest common subsequence of words (Lin 2004, beta 1); case and punctuation do not count."""
    a, b = (re.findall(r"[a-z0-9]+", part.lower()) for part in (text, truth))
    if not a or not b:
        return float(a == b)
    row = [0] * (len(b) + 1)
    for word in a:
        diagonal = 0
        for place, other in enumerate(b, 1):
            diagonal, row[place] = row[place], diagonal + 1 if word == other else max(row[place], row[place - 1])
    return 2 * row[-1] / (len(a) + len(b))
