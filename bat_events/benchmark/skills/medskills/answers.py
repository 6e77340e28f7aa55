"""What a mask says about its lesions, in words and boxes: the answers of classification, detection, VQA and report.

A lesion is a connected part (edges touch) of at least 6 pixels. The centre is the mean of its pixels. Rows count from the
top, columns from the left; the grid has 4 x 4 cells, A1 top left, D4 bottom right (letter: rows, number: columns).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]

SMALLEST = 6  # pixels
LARGE = 40  # pixels; a lesion of as many is large
SIDE = 32
QUESTIONS = ("cell", "upper", "side", "shape")


@dataclass(frozen=True)
class Lesion:
    """One lesion: pixels, centre, and the box from the first to one past the last row and column."""

    area: int
    row: float
    column: float
    top: int
    left: int
    bottom: int
    right: int

    @property
    def quadrant(self) -> str:
        """Such as "upper left"."""
        return f"{'upper' if self.row < SIDE / 2 else 'lower'} {'left' if self.column < SIDE / 2 else 'right'}"

    @property
    def size(self) -> str:
        return "large" if self.area >= LARGE else "small"

    @property
    def cell(self) -> str:
        """The grid's cell that holds the centre."""
        return f"{'ABCD'[min(int(self.row * 4 / SIDE), 3)]}{min(int(self.column * 4 / SIDE), 3) + 1}"


def lesions(mask: NDArray[np.generic]) -> list[Lesion]:
    """The lesions of a mask, largest first, then from the top."""
    parts = _parts(np.asarray(mask) > 0)
    found = []
    for number in np.unique(parts[parts < parts.size]):
        rows, columns = np.nonzero(parts == number)
        if len(rows) >= SMALLEST:
            box = (int(rows.min()), int(columns.min()), int(rows.max()) + 1, int(columns.max()) + 1)
            # pixel n spans n to n + 1
            found.append(Lesion(len(rows), float(rows.mean()) + 0.5, float(columns.mean()) + 0.5, *box))
    return sorted(found, key=lambda lesion: (-lesion.area, lesion.row, lesion.column))


def _parts(mask: Mask) -> NDArray[np.int64]:
    """Each pixel's connected part, by the number of the part's first pixel; mask.size outside.

    All parts grow at once (numbers spread to neighbours until nothing changes), so noise with a hundred parts is no slower.
    """
    nothing = mask.size
    numbers = np.where(mask, np.arange(mask.size).reshape(mask.shape), nothing)
    while True:
        spread = numbers.copy()
        np.minimum(spread[1:], numbers[:-1], out=spread[1:])
        np.minimum(spread[:-1], numbers[1:], out=spread[:-1])
        np.minimum(spread[:, 1:], numbers[:, :-1], out=spread[:, 1:])
        np.minimum(spread[:, :-1], numbers[:, 1:], out=spread[:, :-1])
        spread[~mask] = nothing
        if (spread == numbers).all():
            return numbers
        numbers = spread


def label(found: list[Lesion]) -> str:
    """Classification: the quadrant of the largest lesion."""
    return found[0].quadrant if found else "none"


def boxes(found: list[Lesion], image: NDArray[np.float64]) -> list[list[float]]:
    """Detection: [top, left, bottom, right, score] of every lesion; the score is the mean value in its box, at most 1."""
    out = []
    for lesion in found:
        inside = image[lesion.top : lesion.bottom, lesion.left : lesion.right]
        score = float(np.clip(inside.mean(), 0.0, 1.0))
        out.append([lesion.top, lesion.left, lesion.bottom, lesion.right, round(score, 4)])
    return out


def reply(found: list[Lesion], question: str) -> str:
    """VQA: the answer to one of the published questions."""
    if not found:
        return "none"
    largest = found[0]
    if question == "cell":
        return largest.cell
    if question == "upper":
        return str(sum(lesion.row < SIDE / 2 for lesion in found))
    if question == "side":
        return "left" if largest.column < SIDE / 2 else "right"
    return "rows" if largest.bottom - largest.top > largest.right - largest.left else "columns"


def report(found: list[Lesion]) -> str:
    """Report: one phrase a lesion, largest first, and the number of them."""
    phrases = "; ".join(f"{lesion.size} lesion in the {lesion.quadrant} quadrant" for lesion in found) or "no lesion"
    return f"Findings: {phrases}. Impression: {len(found)} lesion{'' if len(found) == 1 else 's'}."


def answer(
    image: NDArray[np.float64], mask: NDArray[np.generic], track: str, question: str | None
) -> dict[str, Any] | None:
    """The content of outputs/CASE.json; None for a track whose output is the array alone."""
    if track not in FIELDS:
        return None
    found = lesions(mask)
    value: Any
    if track == "classification":
        value = label(found)
    elif track == "detection":
        value = boxes(found, image)
    elif track == "vqa":
        value = reply(found, question or "")
    else:
        value = report(found)
    return {FIELDS[track]: value}


FIELDS = {"classification": "label", "detection": "boxes", "vqa": "answer", "report": "report"}
