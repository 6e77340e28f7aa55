"""What `make bench-learning` says of two checkpoints: pairing, missing cells, intervals, and the verdict's honesty."""

import json
import random
from pathlib import Path
from statistics import fmean

import pytest

from bat_events.domain.statistics import confidence_interval
from bat_events.domain.vocabulary import Focus, Outcome, Track
from bench.learning_parts.cells import OVERALL, REWARD, Cell, CellName, Lost, Measured
from bench.learning_parts.compare import Change, compare, over_seeds
from bench.learning_parts.keep import kept

TRACKS = (Track.SEGMENTATION, Track.ENHANCEMENT)


def name(track: Track, number: int, focus: Focus = Focus.E2E) -> CellName:
    return CellName(track=track, focus=focus, outcome=list(Outcome)[number % 3], number=number // 3)


def cell(track: Track, number: int, value: float, *, valid: int = 2, turns: int = 2) -> Cell:
    return Cell(name=name(track, number), values={OVERALL: value}, valid=valid, turns=turns, end="final")


def measured(*cells: Cell, lost: tuple[CellName, ...] = (), checkpoint: str = "a") -> Measured:
    return Measured(
        checkpoint=checkpoint,
        cells={one.name: one for one in cells},
        lost={one: Lost(name=one, reason="sandbox: gone") for one in lost},
    )


def test_cells_are_paired_by_name_and_tracks_weigh_alike() -> None:
    first, second = TRACKS
    before = measured(cell(first, 0, 0.1), cell(first, 1, 0.3), cell(second, 0, 0.5), cell(second, 1, 0.5))
    after = measured(cell(second, 1, 0.5), cell(second, 0, 0.6), cell(first, 1, 0.4), cell(first, 0, 0.4))
    found = compare(before, after, OVERALL).values[OVERALL]
    assert (found.before, found.after) == (pytest.approx(0.35), pytest.approx(0.475))
    assert found.difference.mean == pytest.approx(0.125)
    assert sorted(map(sorted, found.strata)) == [pytest.approx([0.0, 0.1]), pytest.approx([0.1, 0.3])]
    assert found.difference == confidence_interval(found.strata)


def test_a_missing_cell_leaves_its_pair_out_and_is_counted() -> None:
    track = TRACKS[0]
    before = measured(*(cell(track, n, 0.2) for n in range(4)), lost=(name(track, 4),))
    after = measured(*(cell(track, n, 0.2 + n / 10) for n in (0, 1, 4)), lost=(name(track, 2), name(track, 3)))
    found = compare(before, after, OVERALL)
    assert (found.pairs, found.lost) == (2, 3)
    change = found.values[OVERALL]
    # 0.6 of the unpaired fourth cell must not lift the mean after, and nothing missing counts 0.
    assert (change.before, change.after) == (pytest.approx(0.2), pytest.approx(0.25))


def test_nothing_in_common_says_nothing() -> None:
    with pytest.raises(ValueError, match="no measured cell"):
        compare(measured(cell(TRACKS[0], 0, 0.1)), measured(cell(TRACKS[0], 1, 0.1)), OVERALL)


def test_the_main_value_is_split_by_track_and_focus() -> None:
    def of(value: float, focus: Focus, track: Track) -> Cell:
        return Cell(name=name(track, 0, focus), values={REWARD: value}, valid=1, turns=2, end="malformed")

    grid = [(focus, track) for focus in (Focus.S1, Focus.E2E) for track in TRACKS]
    before = measured(*(of(0.2, focus, track) for focus, track in grid))
    after = measured(*(of(0.5 if focus is Focus.S1 else 0.3, focus, track) for focus, track in grid))
    found = compare(before, after, REWARD)
    assert {focus: change.difference.mean for focus, change in found.focuses.items()} == {
        Focus.S1: pytest.approx(0.3),
        Focus.E2E: pytest.approx(0.1),
    }
    assert set(found.tracks) == set(TRACKS)
    assert (found.valid_before, found.valid_after) == (0.5, 0.5)


def changes(*differences: float, spread: float = 0.05, cells: int = 12) -> list[Change]:
    """A change per seed whose cells scatter about the seed's difference."""
    rng = random.Random(1)
    made = []
    for difference in differences:
        strata = tuple(tuple(difference + rng.gauss(0, spread) for _ in range(cells)) for _ in range(3))
        made.append(Change(before=0.3, after=0.3 + difference, difference=confidence_interval(strata), strata=strata))
    return made


def test_over_seeds_is_the_t_interval_of_the_seeds_means() -> None:
    from scipy.stats import t

    sample = changes(0.10, 0.16, 0.19)
    means = [change.difference.mean for change in sample]
    found = over_seeds(sample).difference
    assert found.n == 3
    assert found.mean == pytest.approx(fmean(means))
    error = (sum((m - fmean(means)) ** 2 for m in means) / 2) ** 0.5 / 3**0.5
    assert found.upper == pytest.approx(found.mean + float(t.ppf(0.975, 2)) * error)


def test_one_seed_has_no_interval_over_seeds() -> None:
    found = over_seeds(changes(0.4))
    assert (found.difference.n, found.difference.lower) == (1, None)
    assert not found.difference.excludes_zero
    with pytest.raises(ValueError, match="no seed"):
        over_seeds([])


def test_the_bootstrap_counts_seeds_as_well_as_cells() -> None:
    alike, unlike = over_seeds(changes(0.1, 0.1, 0.1)).bootstrap, over_seeds(changes(-0.1, 0.1, 0.3)).bootstrap
    assert alike.lower is not None
    assert alike.upper is not None
    assert unlike.lower is not None
    assert unlike.upper is not None
    assert alike.above_zero
    assert not unlike.excludes_zero
    assert unlike.upper - unlike.lower > 4 * (alike.upper - alike.lower)
    assert over_seeds(changes(0.1, 0.1, 0.1)).bootstrap == alike


def test_one_seeds_bootstrap_agrees_with_its_stratified_interval() -> None:
    (change,) = changes(0.1, spread=0.2, cells=40)
    found = over_seeds([change]).bootstrap
    assert found.lower == pytest.approx(change.difference.lower, abs=0.006)
    assert found.upper == pytest.approx(change.difference.upper, abs=0.006)


def test_what_was_measured_is_kept_and_not_made_again(tmp_path: Path) -> None:
    made = []

    def make() -> Measured:
        made.append(1)
        return measured(cell(TRACKS[0], 0, 0.25), lost=(name(TRACKS[1], 3),))

    first, second = kept(tmp_path, "x", make), kept(tmp_path, "x", make)
    assert first == second
    assert len(made) == 1
    assert "seed" not in json.dumps(json.loads((tmp_path / "x.json").read_text()))
