"""Bounds of paired differences, checked against tables, scipy and resampling."""

import hashlib
import math
from statistics import NormalDist, fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_events.domain.statistics import confidence_interval, one_sample, smallest_visible_effect, stratified, student_t

small = st.floats(-1, 1)


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 1.376), (2, 1.061), (4, 0.941), (9, 0.883), (29, 0.854), (69, 0.847), (1e6, 0.842)]
)
def test_the_quantile_is_that_of_the_tables(freedom: float, quantile: float) -> None:
    assert student_t(0.8, freedom) == pytest.approx(quantile, abs=6e-4)


def test_the_quantile_is_scipys_for_fractional_freedom_too() -> None:
    from scipy.stats import t

    for freedom in (1.0, 3.7, 12.25, 60.0):
        assert student_t(0.8, freedom) == pytest.approx(float(t.ppf(0.8, freedom)), rel=1e-9)


def test_one_sample_has_the_textbook_bounds() -> None:
    values = [0.1, 0.3, -0.1, 0.2, 0.0]
    found = one_sample(values)
    error = stdev(values) / math.sqrt(5)
    assert found.mean == pytest.approx(0.1)
    assert found.deviation == pytest.approx(stdev(values))
    assert found.lower80 == pytest.approx(0.1 - 0.940965 * error, abs=1e-6)
    assert found.upper80 == pytest.approx(0.1 + 0.940965 * error, abs=1e-6)


def test_one_difference_has_a_mean_and_no_bounds() -> None:
    found = one_sample([0.2])
    assert (found.mean, found.n) == (0.2, 1)
    assert (found.deviation, found.lower80, found.upper80) == (None, None, None)


def test_nothing_compared_says_nothing() -> None:
    with pytest.raises(ValueError, match="no differences"):
        one_sample([])
    with pytest.raises(ValueError, match="stratum"):
        stratified([[0.1], []])


def test_strata_weigh_alike_and_their_variances_add() -> None:
    first, second = [0.1, 0.3, 0.2, 0.4], [0.0, 0.2]
    found = stratified([first, second])
    parts = [stdev(first) ** 2 / 4 / 4, stdev(second) ** 2 / 2 / 4]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 1)
    error = math.sqrt(sum(parts))
    assert found.mean == pytest.approx((0.25 + 0.1) / 2)
    assert found.lower80 == pytest.approx(found.mean - student_t(0.8, freedom) * error)
    assert found.deviation == pytest.approx(error * math.sqrt(6))
    assert found.n == 6


@given(st.lists(small, min_size=2, max_size=12))
def test_one_stratum_is_one_sample(values: list[float]) -> None:
    alone, plain = stratified([values]), one_sample(values)
    assert alone.mean == plain.mean
    assert alone.lower80 == pytest.approx(plain.lower80, abs=1e-9)
    assert alone.deviation == pytest.approx(plain.deviation, abs=1e-9)


def test_equal_strata_have_the_deviation_within_them() -> None:
    # Tracks that differ in level only must not widen the bounds.
    shifted = [[level + value for value in (-0.1, 0.0, 0.1)] for level in (0.0, 0.5, -0.5)]
    assert stratified(shifted).deviation == pytest.approx(0.1)


def test_tracks_of_a_single_cell_are_compared_by_the_spread_between_them() -> None:
    found = stratified([[0.1], [0.3], [0.2]])
    plain = one_sample([0.1, 0.3, 0.2])
    assert (found.lower80, found.n) == (pytest.approx(plain.lower80), 3)
    assert stratified([[0.1]]).lower80 is None
    mixed = stratified([[0.0, 0.2], [0.3]])
    assert mixed.lower80 == pytest.approx(one_sample([0.1, 0.3]).lower80)
    assert mixed.n == 3


def test_equal_differences_are_their_own_bounds() -> None:
    found = stratified([[0.0, 0.0], [0.0, 0.0]])
    assert (found.lower80, found.upper80, found.deviation) == (0.0, 0.0, 0.0)


@given(st.lists(st.lists(small, min_size=1, max_size=5), min_size=1, max_size=7))
def test_bounds_enclose_the_mean(strata: list[list[float]]) -> None:
    found = stratified(strata)
    assert found.n == sum(map(len, strata))
    if found.lower80 is not None and found.upper80 is not None:
        assert found.lower80 <= found.mean <= found.upper80


@given(st.lists(st.lists(small, min_size=2, max_size=5), min_size=2, max_size=5), st.floats(-0.5, 0.5))
def test_a_gain_everywhere_moves_every_bound_by_it(strata: list[list[float]], gain: float) -> None:
    before, after = stratified(strata), stratified([[value + gain for value in stratum] for stratum in strata])
    assert before.lower80 is not None
    assert after.lower80 is not None
    assert after.lower80 == pytest.approx(before.lower80 + gain, abs=1e-9)


@pytest.mark.parametrize(("n", "effect"), [(70, 0.0405), (14, 0.0930)])
def test_the_smallest_visible_effect_of_a_deviation_of_a_fifth(n: int, effect: float) -> None:
    assert smallest_visible_effect(0.2, n) == pytest.approx(effect, abs=1e-4)


def test_the_smallest_visible_effect_has_its_limits() -> None:
    assert smallest_visible_effect(0.2, 1) is None
    assert smallest_visible_effect(0.0, 5) == 0.0
    with pytest.raises(ValueError, match="deviation"):
        smallest_visible_effect(math.nan, 5)
    with pytest.raises(ValueError, match="power"):
        smallest_visible_effect(0.1, 5, power=1.0)


def noise(*key: int) -> float:
    word = hashlib.sha256(repr(key).encode()).digest()
    return NormalDist().inv_cdf((int.from_bytes(word[:7], "big") + 0.5) / 2**56)


@pytest.mark.parametrize(("gain", "low", "high"), [(0.0, 0.14, 0.26), (0.05, 0.83, 0.95), (0.10, 0.99, 1.0)])
def test_seventy_cells_promote_as_often_as_the_bound_says(gain: float, low: float, high: float) -> None:
    # 7 tracks x 10 repeats with an Overall deviation of 0.2; an identical candidate passes in one case of five.
    lowers = [
        stratified([[gain + 0.2 * noise(trial, track, repeat) for repeat in range(10)] for track in range(7)]).lower80
        for trial in range(300)
    ]
    assert low <= fmean(lower is not None and lower > 0 for lower in lowers) <= high


def test_a_two_sided_interval_is_scipys() -> None:
    from scipy.stats import t

    values = [0.1, 0.3, -0.1, 0.2, 0.0]
    found = confidence_interval([values])
    low, high = t.interval(0.95, 4, loc=fmean(values), scale=stdev(values) / math.sqrt(5))
    assert (found.lower, found.upper) == (pytest.approx(low), pytest.approx(high))
    assert (found.mean, found.n, found.confidence) == (pytest.approx(0.1), 5, 0.95)


def test_a_stratified_interval_is_scipys_welch_interval() -> None:
    from scipy.stats import ttest_ind

    # The mean of two strata is half the difference of one from the negated other: Welch's own case.
    first, second = [0.1, 0.3, 0.2, 0.45], [0.0, 0.2, -0.3]
    welch = ttest_ind(first, [-value for value in second], equal_var=False).confidence_interval(0.95)
    found = confidence_interval([first, second])
    assert (found.lower, found.upper) == (pytest.approx(welch.low / 2), pytest.approx(welch.high / 2))


@given(st.lists(st.lists(small, min_size=1, max_size=5), min_size=1, max_size=7))
def test_the_gates_bounds_are_the_two_sided_ones_at_60_percent(strata: list[list[float]]) -> None:
    one_sided, two_sided = stratified(strata), confidence_interval(strata, 0.6)
    if one_sided.lower80 is None:
        assert (two_sided.lower, two_sided.upper) == (None, None)
    else:
        assert two_sided.lower == pytest.approx(one_sided.lower80, abs=1e-12)
        assert two_sided.upper == pytest.approx(one_sided.upper80, abs=1e-12)


def test_95_of_100_intervals_hold_the_truth() -> None:
    import numpy as np

    # Seven tracks of unlike level, spread and size; the truth is the mean of the levels.
    rng = np.random.default_rng(4)
    levels, spreads, sizes = np.linspace(-0.2, 0.4, 7), np.linspace(0.05, 0.5, 7), (6, 8, 10, 12, 20, 25, 30)
    hits = 0
    for _ in range(2000):
        strata = [
            rng.normal(level, spread, n).tolist() for level, spread, n in zip(levels, spreads, sizes, strict=True)
        ]
        found = confidence_interval(strata)
        assert found.lower is not None
        assert found.upper is not None
        hits += found.lower <= levels.mean() <= found.upper
    assert 0.935 <= hits / 2000 <= 0.965  # three standard errors about 0.95


def test_an_interval_says_on_which_side_of_zero_it_lies() -> None:
    up, down, across = ([0.1, 0.2, 0.15], [-0.1, -0.2, -0.15], [-0.1, 0.2, 0.0])
    assert confidence_interval([up]).above_zero
    assert confidence_interval([down]).below_zero
    assert not confidence_interval([across]).excludes_zero
    assert not confidence_interval([[0.0, 0.0]]).excludes_zero
    alone = confidence_interval([[0.7]])
    assert (alone.mean, alone.lower, alone.excludes_zero) == (0.7, None, False)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0])
def test_a_confidence_is_a_share(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        confidence_interval([[0.1, 0.2]], confidence)
