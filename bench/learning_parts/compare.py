"""Before and after, cell by cell: means, paired differences, 95 % intervals; per seed and over seeds."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bat_events.domain.statistics import TWO_SIDED, Interval, confidence_interval
from bat_events.domain.vocabulary import Focus, Track

from .cells import Cell, CellName, Measured

DRAWS = 10_000
_SEED = 20_261  # of the bootstrap, fixed: equal cells give equal intervals


@dataclass(frozen=True, kw_only=True)
class Change:
    """A value before and after, over the cells that both have: means of track means, and the paired difference."""

    before: float
    after: float
    difference: Interval
    strata: tuple[tuple[float, ...], ...]  # the differences by track


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two checkpoints under one measure. `lost` counts the cells that one of them lacks."""

    pairs: int
    lost: int
    values: Mapping[str, Change]  # by value: Overall, Task, ..., or reward
    tracks: Mapping[Track, Change]  # the main value by track
    focuses: Mapping[Focus, Change]  # the main value by focus; one entry where all are E2E
    valid_before: float | None
    valid_after: float | None
    same_checkpoint: bool


@dataclass(frozen=True, kw_only=True)
class OverSeeds:
    """Seeds as the sample. The t interval is None-bounded with one seed; the bootstrap draws seeds, then cells."""

    before: float
    after: float
    difference: Interval
    bootstrap: Interval


def compare(before: Measured, after: Measured, main: str) -> Comparison:
    """Pairs cells by name. Raises ValueError where no cell is in both."""
    names = sorted(set(before.cells) & set(after.cells))
    if not names:
        raise ValueError("the two checkpoints share no measured cell: nothing can be said")
    everything = set(before.cells) | set(after.cells) | set(before.lost) | set(after.lost)

    def change(value: str, keep: Callable[[CellName], bool] = lambda _: True) -> Change | None:
        pairs = [(before.cells[name], after.cells[name]) for name in names if keep(name)]
        return _change([pair for pair in pairs if all(value in cell.values for cell in pair)], value)

    values = sorted({value for name in names for value in before.cells[name].values})
    return Comparison(
        pairs=len(names),
        lost=len(everything) - len(names),
        values={value: found for value in values if (found := change(value)) is not None},
        tracks={
            track: found
            for track in Track
            if (found := change(main, lambda name, track=track: name.track == track)) is not None  # type: ignore[misc]
        },
        focuses={
            focus: found
            for focus in Focus
            if (found := change(main, lambda name, focus=focus: name.focus == focus)) is not None  # type: ignore[misc]
        },
        valid_before=before.valid_share,
        valid_after=after.valid_share,
        same_checkpoint=before.checkpoint == after.checkpoint,
    )


def over_seeds(changes: Sequence[Change]) -> OverSeeds:
    """The mean of the seeds' differences: a t interval over seeds, and a bootstrap of seeds and cells within tracks.

    Raises ValueError without a seed.
    """
    if not changes:
        raise ValueError("no seed was measured: nothing can be said over seeds")
    return OverSeeds(
        before=_mean([change.before for change in changes]),
        after=_mean([change.after for change in changes]),
        difference=confidence_interval([[change.difference.mean for change in changes]]),
        bootstrap=_bootstrap([change.strata for change in changes]),
    )


def _change(pairs: Sequence[tuple[Cell, Cell]], value: str) -> Change | None:
    if not pairs:
        return None
    by_track: dict[Track, list[tuple[float, float]]] = {}
    for old, new in pairs:
        by_track.setdefault(old.name.track, []).append((old.values[value], new.values[value]))
    strata = tuple(tuple(new - old for old, new in found) for found in by_track.values())
    return Change(
        before=_mean([_mean([old for old, _ in found]) for found in by_track.values()]),
        after=_mean([_mean([new for _, new in found]) for found in by_track.values()]),
        difference=confidence_interval(strata),
        strata=strata,
    )


def _bootstrap(seeds: Sequence[Sequence[Sequence[float]]]) -> Interval:
    """Percentiles of the mean over drawn seeds of the mean over tracks of drawn cells' means."""
    rng = np.random.default_rng(_SEED)
    chosen = rng.integers(len(seeds), size=(DRAWS, len(seeds)))
    totals = np.zeros(DRAWS)
    for place in range(len(seeds)):  # a seed that is drawn twice has its cells drawn anew each time
        means = np.stack([_drawn_means(strata, rng) for strata in seeds])
        totals += means[chosen[:, place], np.arange(DRAWS)]
    low, high = np.quantile(totals / len(seeds), [(1 - TWO_SIDED) / 2, (1 + TWO_SIDED) / 2])
    mean = _mean([_mean([_mean(stratum) for stratum in strata]) for strata in seeds])
    cells = sum(len(stratum) for strata in seeds for stratum in strata)
    return Interval(mean=mean, lower=float(low), upper=float(high), n=cells)


def _drawn_means(
    strata: Sequence[Sequence[float]], rng: np.random.Generator
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    total = np.zeros(DRAWS)
    for stratum in strata:
        values = np.asarray(stratum, dtype=np.float64)
        total += values[rng.integers(len(values), size=(DRAWS, len(values)))].mean(axis=1)
    return total / len(strata)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
