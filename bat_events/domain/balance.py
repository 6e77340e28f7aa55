"""A cyclic order of draws in which every prefix is as even as it can be.

A pool draws practice states from tracks x outcomes, turn by turn for its `lanes` (the four mix stages; a single lane
elsewhere). After any number of draws the counts of cells, tracks and outcomes should differ by at most one, in the pool
as a whole and within each lane. Such an order exists for seven tracks; where it does not (two or three tracks with four
lanes), outcome totals alone may differ by more, and cells and tracks stay exact.
"""

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple


class Draw(NamedTuple):
    """One draw, by positions: which lane draws, and from which track and outcome."""

    lane: int
    track: int
    outcome: int


Count = tuple[str, int, int, int]


@lru_cache(maxsize=64)
def balanced_cycle(tracks: int, outcomes: int, lanes: int) -> tuple[Draw, ...]:
    """The order of one whole cycle: `lanes` x `tracks` x `outcomes` draws, lane by lane in turn, each draw once.

    Found by depth-first search, the same on every machine. Raises ValueError on a size below 1.
    """
    if min(tracks, outcomes, lanes) < 1:
        raise ValueError(f"{tracks} tracks, {outcomes} outcomes, {lanes} lanes: each must be at least 1")
    # Outcome totals are given up first: an outcome is a condition of a state, a track is a whole kind of task.
    for slack in (0, 1, outcomes * tracks):
        found = _search(tracks, outcomes, lanes, slack)
        if found is not None:
            return found
    raise ValueError(f"no balanced order of {tracks} tracks x {outcomes} outcomes x {lanes} lanes was found")


def _search(tracks: int, outcomes: int, lanes: int, slack: int, max_draws: int = 50_000) -> tuple[Draw, ...] | None:
    length = tracks * outcomes * lanes
    counts: Counter[Count] = Counter()
    chosen: list[Draw] = []
    waiting: list[Iterator[Draw]] = [_candidates(0, tracks, outcomes, lanes)]
    for _ in range(max_draws):
        if len(chosen) == length:
            return tuple(chosen)
        place = len(chosen)
        draw = next((draw for draw in waiting[-1] if _fits(draw, place, counts, tracks, outcomes, lanes, slack)), None)
        if draw is not None:
            chosen.append(draw)
            counts.update(_counted(draw))
            waiting.append(_candidates(place + 1, tracks, outcomes, lanes))
        elif chosen:
            waiting.pop()
            counts.subtract(_counted(chosen.pop()))
        else:
            return None
    return None


def _candidates(place: int, tracks: int, outcomes: int, lanes: int) -> Iterator[Draw]:
    # The diagonal first: it alone is balanced wherever the sizes share no factor.
    for track in range(tracks):
        for outcome in range(outcomes):
            yield Draw(place % lanes, (place + track) % tracks, (place + outcome) % outcomes)


def _fits(draw: Draw, place: int, counts: Counter[Count], tracks: int, outcomes: int, lanes: int, slack: int) -> bool:
    # A count below its floor before the draw leaves every spread at one at most.
    turn = place // lanes
    cell, track, outcome, lane_cell, lane_track, lane_outcome = _counted(draw)
    return (
        counts[cell] <= place // (tracks * outcomes)
        and counts[track] <= place // tracks
        and counts[lane_cell] <= turn // (tracks * outcomes)
        and counts[lane_track] <= turn // tracks
        and counts[outcome] <= place // outcomes + slack
        and counts[lane_outcome] <= turn // outcomes + slack
    )


def _counted(draw: Draw) -> tuple[Count, Count, Count, Count, Count, Count]:
    lane, track, outcome = draw
    return (
        ("cell", -1, track, outcome),
        ("track", -1, track, -1),
        ("outcome", -1, -1, outcome),
        ("cell", lane, track, outcome),
        ("track", lane, track, -1),
        ("outcome", lane, -1, outcome),
    )
