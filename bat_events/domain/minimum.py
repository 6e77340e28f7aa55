"""How many scored cells a report needs at least, so that none of its numbers is the score of one held-out cell.

Two per track: a track's means and paired differences name the track, and of one cell they are that cell's scores.
Four in all: stage means and failure counts name no track, so they are spread over two tracks, or over twice the minimum of
the only one. More would refuse an evaluation of the smallest campaigns as soon as a few cells are lost.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from bat_events.domain.evaluation import Cell
from bat_events.domain.vocabulary import Track

MINIMUM_TRACK_CELLS = 2
MINIMUM_REPORT_CELLS = 4


class TooFewCells(ValueError):
    """An evaluation whose report would say too much of single cells, or nothing at all."""


def check_report(cells: Iterable[Cell], tracks: Collection[Track]) -> None:
    """Whether the scored cells of an evaluation of `tracks` make a report. Raises TooFewCells saying what is short."""
    found = Counter(cell.track for cell in cells)
    if not found:
        raise TooFewCells("an evaluation without a scored cell has no aggregates: it is missing, not zero")
    short = shortfall({track: found[track] for track in tracks})
    if short is not None:
        raise TooFewCells(f"no report is made of so few scored cells: {short}; measure again what is missing")


def enough(cells: Iterable[Cell]) -> bool:
    """Whether numbers may be told of these cells: every track that occurs has its minimum, and so have all."""
    return shortfall(Counter(cell.track for cell in cells)) is None


def shortfall(counts: Mapping[Track, int]) -> str | None:
    """What lacks of the minimum where each track has this many cells, in words; None where nothing does."""
    few = [f"{track} has {count}" for track, count in counts.items() if count < MINIMUM_TRACK_CELLS]
    total = sum(counts.values())
    said = []
    if few:
        said.append(f"{', '.join(few)}, and each track needs {MINIMUM_TRACK_CELLS}")
    if total < MINIMUM_REPORT_CELLS:
        said.append(f"there are {total} in all, and {MINIMUM_REPORT_CELLS} are needed")
    return "; ".join(said) or None
