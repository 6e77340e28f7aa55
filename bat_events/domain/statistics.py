"""Paired differences with one-sided 80 % Student-t bounds.

One track is one sample: mean -+ t(0.8, n - 1) x s / sqrt(n). A mean of track means is stratified by track: its variance
is the sum over tracks of s_t^2 / n_t, divided by the number of tracks squared, and its degrees of freedom are those of
Welch and Satterthwaite. Where a track has a single cell its variance is unknown: the track means are then themselves
the sample, which counts the spread between tracks as noise and so never claims more than it knows.

Cells are taken as independent within a track; the statement is about the fixed set of held-out tasks.

The gate reads the one-sided bounds. `confidence_interval` gives two-sided ones from the same variances, for reports.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

CONFIDENCE = 0.8  # one-sided
TWO_SIDED = 0.95


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """A mean difference. The bounds and the deviation are None where a variance cannot be estimated.

    `deviation` is standard error x sqrt(n): in one sample the sample deviation of the `n` differences, in a stratified
    one the deviation that a plain sample of `n` with the same standard error would have.
    """

    mean: float
    deviation: float | None
    n: int
    lower80: float | None
    upper80: float | None


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean and its two-sided interval; the bounds are None where a variance cannot be estimated."""

    mean: float
    lower: float | None
    upper: float | None
    n: int
    confidence: float = TWO_SIDED

    @property
    def above_zero(self) -> bool:
        """Whether the whole interval lies above zero."""
        return self.lower is not None and self.lower > 0

    @property
    def below_zero(self) -> bool:
        """Whether the whole interval lies below zero."""
        return self.upper is not None and self.upper < 0

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside; never so without bounds."""
        return self.above_zero or self.below_zero


def one_sample(differences: Sequence[float]) -> PairedDifference:
    """Mean and bounds of one sample. Raises ValueError on an empty one."""
    n = len(differences)
    if n == 0:
        raise ValueError("no differences: there is nothing to compare")
    mean = math.fsum(differences) / n
    if n < 2:
        return PairedDifference(mean=mean, deviation=None, n=n, lower80=None, upper80=None)
    return _bounded(mean, _variance(differences) / n, n - 1.0, n)


def stratified(strata: Sequence[Sequence[float]]) -> PairedDifference:
    """Mean of the strata's means and its bounds. Raises ValueError where there is no stratum or an empty one."""
    mean, squared_error, freedom = _of_strata(strata)
    n = sum(len(stratum) for stratum in strata)
    if squared_error is None:
        return PairedDifference(mean=mean, deviation=None, n=n, lower80=None, upper80=None)
    return _bounded(mean, squared_error, freedom, n)


def confidence_interval(strata: Sequence[Sequence[float]], confidence: float = TWO_SIDED) -> Interval:
    """Mean of the strata's means with its two-sided interval; one stratum gives the textbook's t interval.

    Raises ValueError where there is no stratum or an empty one, and on a confidence outside (0, 1).
    """
    if not 0 < confidence < 1:
        raise ValueError(f"the confidence is {confidence}: it must be between 0 and 1")
    mean, squared_error, freedom = _of_strata(strata)
    n = sum(len(stratum) for stratum in strata)
    if squared_error is None:
        return Interval(mean=mean, lower=None, upper=None, n=n, confidence=confidence)
    margin = student_t((1 + confidence) / 2, freedom) * math.sqrt(squared_error)
    return Interval(mean=mean, lower=mean - margin, upper=mean + margin, n=n, confidence=confidence)


def smallest_visible_effect(deviation: float, n: int, power: float = 0.8) -> float | None:
    """The true gain whose lower bound is above zero with probability `power`: (t(0.8) + t(power)) x s / sqrt(n).

    Degrees of freedom n - 1. None where n < 2: no gain could be seen. Raises ValueError on a negative deviation or a
    power outside (0, 1).
    """
    if not (deviation >= 0 and math.isfinite(deviation)):
        raise ValueError(f"the deviation is {deviation}: it must be finite and not negative")
    if not 0 < power < 1:
        raise ValueError(f"the power is {power}: it must be between 0 and 1")
    if n < 2:
        return None
    return (student_t(CONFIDENCE, n - 1.0) + student_t(power, n - 1.0)) * deviation / math.sqrt(n)


@lru_cache(maxsize=4096)
def student_t(probability: float, freedom: float) -> float:
    """Quantile of Student's t distribution; `freedom` may be fractional."""
    # Imported here: replay and audit compare recorded bounds and must not wait for scipy.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _of_strata(strata: Sequence[Sequence[float]]) -> tuple[float, float | None, float]:
    """(mean of the strata's means, its squared standard error or None where it cannot be known, degrees of freedom)."""
    if not strata or not all(strata):
        raise ValueError("no differences in a stratum: leave out strata without cells")
    n = sum(len(stratum) for stratum in strata)
    means = [math.fsum(stratum) / len(stratum) for stratum in strata]
    mean = math.fsum(means) / len(means)
    if any(len(stratum) < 2 for stratum in strata):
        by_means = one_sample(means)
        if by_means.deviation is None:
            return mean, None, 0.0
        return mean, by_means.deviation**2 / len(means), len(means) - 1.0
    parts = [_variance(stratum) / len(stratum) / len(strata) ** 2 for stratum in strata]
    total = math.fsum(parts)
    freedom = float(n - len(strata))
    if total > 0:
        # Shares first: the square of a tiny variance would underflow.
        shares = [part / total for part in parts]
        freedom = 1 / math.fsum(share**2 / (len(stratum) - 1) for share, stratum in zip(shares, strata, strict=True))
    return mean, total, freedom


def _bounded(mean: float, squared_error: float, freedom: float, n: int) -> PairedDifference:
    error = math.sqrt(squared_error)
    margin = student_t(CONFIDENCE, freedom) * error
    return PairedDifference(
        mean=mean, deviation=error * math.sqrt(n), n=n, lower80=mean - margin, upper80=mean + margin
    )
