"""The Stage Bank's arithmetic: the source grid, the order of synthesis requests, and how many must exist.

A request is one ordinal of one cell; what it yields (admitted, rejected) is known only later. The number of requests is
a function of sets (rounds planned, requests rejected) and never falls when they grow, so a decider that folds events in
any order asks for the same work.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bat_events.domain.vocabulary import Focus, Outcome, Track


class SourceCell(NamedTuple):
    """A cell of the source grid: 6 focuses x 7 tracks x 3 outcomes = 126 (docs/rules.md)."""

    focus: Focus
    track: Track
    outcome: Outcome

    @property
    def name(self) -> str:
        """As people read it: focus/track/outcome."""
        return f"{self.focus}/{self.track}/{self.outcome}"


class StateRequest(NamedTuple):
    """The `ordinal`-th (from 0) synthesis request of a cell."""

    cell: SourceCell
    ordinal: int

    @property
    def key(self) -> str:
        """Unique in a campaign: focus/track/outcome/ordinal."""
        return f"{self.cell.name}/{self.ordinal}"


@dataclass(frozen=True, kw_only=True)
class BankSettings:
    """`rounds_ahead`: rounds kept in stock beyond those planned. `max_uses`: rounds that may draw a state.

    `rejection_allowance`: rejected requests per cell that are made up for. Beyond it the cell is exhausted: a gate that
    rejects everything must be seen, not fed for ever.
    """

    rounds_ahead: int = 1
    max_uses: int = 1
    rejection_allowance: int = 64


def cell_order(tracks: Collection[Track]) -> tuple[SourceCell, ...]:
    """The cells of the grid in their fixed order, for the tracks in use. Raises ValueError without tracks."""
    used = [track for track in Track if track in tracks]
    if not used:
        raise ValueError("the source grid needs at least one track")
    return tuple(SourceCell(focus, track, outcome) for focus in Focus for track in used for outcome in Outcome)


def request_at(number: int, tracks: Collection[Track]) -> StateRequest:
    """The `number`-th request (from 0) when the grid is gone through cell by cell, ordinal by ordinal.

    Any prefix of this enumeration has cell counts that differ by at most one.
    """
    if number < 0:
        raise ValueError(f"request number {number}: requests are counted from 0")
    cells = cell_order(tracks)
    return StateRequest(cells[number % len(cells)], number // len(cells))


def supply(
    need: Mapping[SourceCell, int],
    *,
    rounds_planned: Collection[int],
    rejected: Collection[StateRequest],
    total_rounds: int | None = None,
    settings: BankSettings | None = None,
) -> dict[SourceCell, int]:
    """How many requests of each cell must exist: ordinals 0 to that number - 1.

    `need` is what one round can draw at most (roundplan.required_states). States for all planned rounds and
    `rounds_ahead` more, at most `total_rounds` in all, each state serving `max_uses` rounds, plus one request for every
    rejected one up to the allowance.
    """
    settings = settings or BankSettings()
    rounds = len(set(rounds_planned)) + settings.rounds_ahead
    if total_rounds is not None:
        rounds = min(rounds, total_rounds)
    lost = Counter(request.cell for request in set(rejected))
    return {
        cell: _states(count, rounds, settings.max_uses) + min(lost[cell], settings.rejection_allowance)
        for cell, count in need.items()
    }


def missing_requests(wanted: Mapping[SourceCell, int], existing: Collection[StateRequest]) -> Iterator[StateRequest]:
    """The requests that must still be made, lowest ordinals of all cells first."""
    there = set(existing)
    for ordinal in range(max(wanted.values(), default=0)):
        for cell, count in wanted.items():
            request = StateRequest(cell, ordinal)
            if ordinal < count and request not in there:
                yield request


def exhausted_cells(rejected: Collection[StateRequest], settings: BankSettings | None = None) -> tuple[SourceCell, ...]:
    """Cells that lost more requests than are made up for."""
    settings = settings or BankSettings()
    lost = Counter(request.cell for request in set(rejected))
    return tuple(sorted(cell for cell, count in lost.items() if count > settings.rejection_allowance))


def covers(admitted: Mapping[SourceCell, Sequence[int]], need: Mapping[SourceCell, int], max_uses: int = 1) -> bool:
    """Whether a round can be planned: every cell has as many states below `max_uses` as it can need.

    `admitted` holds, per cell, how often each admitted state was used.
    """
    return all(sum(uses < max_uses for uses in admitted.get(cell, ())) >= count for cell, count in need.items())


def _states(need: int, rounds: int, max_uses: int) -> int:
    # A round draws no state twice, so even much-used states must be as many as one round needs.
    return 0 if rounds == 0 else max(need, -(-need * rounds // max_uses))
