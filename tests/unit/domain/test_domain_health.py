"""What ends a round early."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_events.domain.health import HealthSettings, StepSignals, pooled, step_health
from bat_events.domain.vocabulary import Focus

GOOD = StepSignals(
    actions={Focus.S3: (10, 10), Focus.E2E: (9, 10)},
    entropy=1.0,
    zero_variance_groups=2,
    groups=8,
    numbers={"loss": -0.1, "grad_norm": 0.5},
)


def test_a_good_step_is_healthy_and_has_no_reasons() -> None:
    found = step_health(GOOD)
    assert found.healthy
    assert found.reasons == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"actions": {Focus.S3: (89, 100)}}, "S3: 89 of 100 actions valid, below 0.9"),
        ({"entropy": 0.0499}, "entropy 0.0499 is below 0.05"),
        ({"zero_variance_groups": 5}, "zero-variance share 0.625 is above 0.6"),
        ({"numbers": {"loss": math.nan}}, "loss is nan"),
        ({"numbers": {"grad_norm": math.inf}}, "grad_norm is inf"),
        ({"entropy": math.nan}, "entropy is nan"),
    ],
)
def test_each_limit_ends_the_round(change: dict[str, object], reason: str) -> None:
    found = step_health(replace(GOOD, **change))  # type: ignore[arg-type]
    assert not found.healthy
    assert found.reasons == (reason,)


@pytest.mark.parametrize(
    "change",
    [
        {"actions": {Focus.S3: (90, 100)}},
        {"actions": {Focus.S3: (0, 0)}},
        {"actions": {}},
        {"entropy": 0.05},
        {"zero_variance_groups": 6, "groups": 10},
    ],
)
def test_a_limit_itself_is_still_healthy(change: dict[str, object]) -> None:
    assert step_health(replace(GOOD, **change)).healthy  # type: ignore[arg-type]


def test_a_rate_over_few_turns_is_not_read() -> None:
    few = replace(GOOD, actions={Focus.S3: (7, 8)})
    assert not step_health(few).healthy
    assert step_health(few, HealthSettings(minimum_turns=20)).healthy


def test_pooled_steps_add_counts_and_average_the_rest() -> None:
    bad = replace(GOOD, actions={Focus.S3: (7, 10)}, entropy=0.5, zero_variance_groups=6, numbers={"loss": 0.3})
    found = pooled([GOOD, bad])
    assert found.actions == {Focus.S3: (17, 20), Focus.E2E: (9, 10)}
    assert (found.entropy, found.zero_variance_groups, found.groups) == (0.75, 8, 16)
    assert found.numbers == {"loss": pytest.approx(0.1), "grad_norm": 0.5}
    with pytest.raises(ValueError, match="no steps"):
        pooled([])


def test_a_broken_number_stays_broken_when_pooled() -> None:
    steps = [replace(GOOD, numbers={"loss": math.inf}), replace(GOOD, numbers={"loss": -math.inf})]
    assert not step_health(pooled(steps)).healthy


@pytest.mark.parametrize(
    "change", [{"groups": 0, "zero_variance_groups": 0}, {"zero_variance_groups": 9}, {"actions": {Focus.S1: (3, 2)}}]
)
def test_counts_that_cannot_be_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        step_health(replace(GOOD, **change))  # type: ignore[arg-type]


@given(st.integers(0, 40), st.integers(1, 40), st.floats(0, 3), st.integers(0, 8))
def test_healthy_is_exactly_without_reasons(valid: int, turns: int, entropy: float, flat: int) -> None:
    signals = replace(GOOD, actions={Focus.S1: (min(valid, turns), turns)}, entropy=entropy, zero_variance_groups=flat)
    found = step_health(signals)
    assert found.healthy is not bool(found.reasons)
