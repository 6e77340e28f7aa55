"""The bank's arithmetic."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_events.domain.bank import (
    BankSettings,
    SourceCell,
    StateRequest,
    cell_order,
    covers,
    exhausted_cells,
    missing_requests,
    request_at,
    supply,
)
from bat_events.domain.vocabulary import Focus, Outcome, Track

TRACKS = (Track.SEGMENTATION, Track.ENHANCEMENT)
CELL = SourceCell(Focus.S3, Track.VQA, Outcome.RECOVERY)
requests = st.sets(st.builds(StateRequest, st.sampled_from(cell_order(TRACKS)), st.integers(0, 20)), max_size=12)
rounds = st.sets(st.integers(1, 10))


def test_the_grid_has_126_cells() -> None:
    # Facts section 2: 6 focuses x 7 tracks x 3 outcomes.
    cells = cell_order(tuple(Track))
    assert len(set(cells)) == len(cells) == 126
    assert len(cell_order(TRACKS)) == 36


def test_the_order_of_tracks_does_not_matter() -> None:
    assert cell_order(TRACKS) == cell_order(tuple(reversed(TRACKS)))
    with pytest.raises(ValueError, match="at least one"):
        cell_order(())


def test_requests_are_enumerated_evenly_and_once() -> None:
    found = [request_at(number, TRACKS) for number in range(20_299)]
    assert len({request.key for request in found}) == 20_299
    counts = Counter(request.cell for request in found).values()
    assert max(counts) - min(counts) == 1
    with pytest.raises(ValueError, match="from 0"):
        request_at(-1, TRACKS)


def test_a_key_says_what_is_asked_for() -> None:
    assert StateRequest(CELL, 7).key == "S3/vqa/recovery/7"


@pytest.mark.parametrize(
    ("planned", "rejected", "total", "settings", "expected"),
    [
        ((), 0, None, BankSettings(), 5),
        ((1,), 0, None, BankSettings(), 10),
        ((1, 1, 2), 0, None, BankSettings(), 15),
        ((1, 2, 3), 0, 3, BankSettings(), 15),
        ((1,), 2, None, BankSettings(), 12),
        ((1,), 9, None, BankSettings(rejection_allowance=4), 14),
        ((1, 2), 0, None, BankSettings(max_uses=3), 5),
        ((1, 2, 3), 0, None, BankSettings(max_uses=3), 7),
        ((), 0, None, BankSettings(rounds_ahead=0), 0),
    ],
)
def test_supply_is_one_round_ahead_and_makes_up_for_rejections(
    planned: tuple[int, ...], rejected: int, total: int | None, settings: BankSettings, expected: int
) -> None:
    lost = [StateRequest(CELL, ordinal) for ordinal in range(rejected)]
    wanted = supply({CELL: 5}, rounds_planned=planned, rejected=lost * 2, total_rounds=total, settings=settings)
    assert wanted == {CELL: expected}


@given(requests, requests, rounds, rounds)
def test_supply_never_falls_when_more_is_known(
    lost: set[StateRequest], more_lost: set[StateRequest], planned: set[int], more_planned: set[int]
) -> None:
    need = dict.fromkeys(cell_order(TRACKS), 3)
    before = supply(need, rounds_planned=planned, rejected=lost)
    after = supply(need, rounds_planned=planned | more_planned, rejected=lost | more_lost)
    assert all(after[cell] >= count for cell, count in before.items())


@given(requests, rounds, st.integers(1, 4))
def test_what_supply_asks_for_covers_the_next_round(lost: set[StateRequest], planned: set[int], max_uses: int) -> None:
    need = dict.fromkeys(cell_order(TRACKS), 3)
    settings = BankSettings(max_uses=max_uses)
    wanted = supply(need, rounds_planned=planned, rejected=lost, settings=settings)
    # The worst case: every planned round drew all that it could need, least used first.
    admitted: dict[SourceCell, list[int]] = {}
    for cell in need:
        uses = [0] * (wanted[cell] - sum(request.cell == cell for request in lost))
        for _ in planned:
            uses.sort()
            uses[:3] = [used + 1 for used in uses[:3]]
        admitted[cell] = uses
    assert covers(admitted, need, max_uses)


def test_missing_requests_are_the_lowest_ordinals_of_all_cells_first() -> None:
    other = SourceCell(Focus.E2E, Track.VQA, Outcome.SUCCESS)
    there = [StateRequest(CELL, 1)]
    assert list(missing_requests({CELL: 3, other: 1}, there)) == [
        StateRequest(CELL, 0),
        StateRequest(other, 0),
        StateRequest(CELL, 2),
    ]
    assert list(missing_requests({}, there)) == []


@given(requests)
def test_nothing_is_missing_once_it_was_requested(there: set[StateRequest]) -> None:
    wanted = dict.fromkeys(cell_order(TRACKS), 2)
    asked = list(missing_requests(wanted, there))
    assert len(set(asked)) == len(asked)
    assert not set(asked) & there
    assert not list(missing_requests(wanted, there | set(asked)))


def test_a_cell_that_only_loses_is_exhausted_and_not_fed_for_ever() -> None:
    settings = BankSettings(rejection_allowance=3)
    lost = [StateRequest(CELL, ordinal) for ordinal in range(4)]
    assert exhausted_cells(lost[:3], settings) == ()
    assert exhausted_cells(lost, settings) == (CELL,)


def test_a_cell_without_states_does_not_cover_a_need() -> None:
    assert not covers({}, {CELL: 1})
    assert covers({}, {CELL: 0})
    assert not covers({CELL: [1, 1]}, {CELL: 1})
