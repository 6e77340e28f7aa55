"""Target selection: docs/rules.md."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_events.domain.curriculum import choose_target
from bat_events.domain.evaluation import StageMeans
from bat_events.domain.vocabulary import Stage

S1, S2, S3, S4, S5 = Stage
unit = st.floats(0, 1)


def means(raw: Sequence[float], reached: Sequence[float | None] | None = None, n: int = 10) -> dict[Stage, StageMeans]:
    reached = raw if reached is None else reached
    return {
        stage: StageMeans(n=n, raw=score, reached_n=0 if read is None else n, reached=read)
        for stage, score, read in zip(Stage, raw, reached, strict=True)
    }


@pytest.mark.parametrize("standing", ["baseline", "promoted"])
@pytest.mark.parametrize(
    ("scores", "target"),
    [
        ((0.5, 0.4, 0.3, 0.2, 0.1), S5),
        ((0.1, 0.4, 0.3, 0.2, 0.1), S1),
        ((0.5, 0.2, 0.3, 0.2, 0.2), S2),
        ((0.5, 0.2 + 9e-13, 0.3, 0.2, 0.2), S2),
        ((0.5, 0.2 + 2e-12, 0.3, 0.2, 0.2), S4),
        ((0.0, 0.0, 0.0, 0.0, 0.0), S1),
        ((1.0, 1.0, 1.0, 1.0, 1.0), S1),
    ],
)
def test_the_weakest_stage_is_the_target_and_ties_take_the_earliest(
    standing: str, scores: tuple[float, ...], target: Stage
) -> None:
    found = choose_target(standing=standing, candidate=means(scores))  # type: ignore[arg-type]
    assert found.stage is target
    assert not found.corrective


@pytest.mark.parametrize(
    ("before", "after", "target", "corrective"),
    [
        ((0.5, 0.5, 0.5, 0.5, 0.5), (0.5, 0.4, 0.2, 0.5, 0.5), S3, True),
        ((0.9, 0.5, 0.5, 0.5, 0.1), (0.7, 0.5, 0.5, 0.5, 0.1), S1, True),
        ((0.5, 0.6, 0.5, 0.6, 0.1), (0.5, 0.4, 0.5, 0.4, 0.1), S2, True),
        ((0.5, 0.6, 0.5, 0.6 + 5e-13, 0.1), (0.5, 0.4, 0.5, 0.4, 0.1), S2, True),
        ((0.5, 0.5, 0.5, 0.5, 0.1), (0.5, 0.5, 0.5, 0.5, 0.1), S5, False),
        ((0.5, 0.5, 0.5, 0.5, 0.1), (0.5 - 1e-13, 0.5, 0.5, 0.5, 0.1), S5, False),
        ((0.5, 0.5, 0.5, 0.5, 0.1), (0.6, 0.6, 0.6, 0.2 + 0.3, 0.1), S5, False),
    ],
)
def test_a_held_candidate_mends_its_largest_regression(
    before: tuple[float, ...], after: tuple[float, ...], target: Stage, corrective: bool
) -> None:
    found = choose_target(standing="held", candidate=means(after), baseline=means(before))
    assert (found.stage, found.corrective) == (target, corrective)


def test_a_promoted_candidate_never_gets_a_corrective_target() -> None:
    before, after = means((0.9, 0.5, 0.5, 0.5, 0.5)), means((0.6, 0.6, 0.6, 0.6, 0.55))
    found = choose_target(standing="promoted", candidate=after, baseline=before)
    assert (found.stage, found.corrective) == (S5, False)


def test_the_default_reads_stages_where_they_were_reached() -> None:
    # Half the rollouts fail in S2; those that pass it do well. Raw, S5 looks weakest only because few get there.
    candidate = means((0.9, 0.5, 0.45, 0.45, 0.4), (0.9, 0.5, 0.9, 0.9, 0.8))
    assert choose_target(standing="promoted", candidate=candidate).stage is S2
    assert choose_target(standing="promoted", candidate=candidate, reading="raw").stage is S5


def test_a_stage_that_nothing_reached_is_skipped_and_not_zero() -> None:
    candidate = means((0.9, 0.3, 0.0, 0.0, 0.0), (0.9, 0.3, None, None, None))
    assert choose_target(standing="baseline", candidate=candidate).stage is S2
    assert choose_target(standing="baseline", candidate=candidate, reading="raw").stage is S3


def test_a_stage_reached_only_before_has_no_regression_to_read() -> None:
    before = means((0.9, 0.5, 0.5, 0.5, 0.5))
    after = means((0.9, 0.4, 0.0, 0.0, 0.0), (0.9, 0.4, None, None, None))
    found = choose_target(standing="held", candidate=after, baseline=before)
    assert (found.stage, found.corrective) == (S2, True)


def test_stages_with_few_cells_can_be_left_out() -> None:
    candidate = {**means((0.9, 0.5, 0.6, 0.7, 0.8)), S5: StageMeans(n=10, raw=0.0, reached_n=1, reached=0.0)}
    assert choose_target(standing="promoted", candidate=candidate).stage is S5
    assert choose_target(standing="promoted", candidate=candidate, minimum_n=2).stage is S2


def test_what_cannot_be_decided_is_an_error() -> None:
    nothing = means((0, 0, 0, 0, 0), (None, None, None, None, None))
    with pytest.raises(ValueError, match="no stage"):
        choose_target(standing="promoted", candidate=nothing)
    with pytest.raises(ValueError, match="baseline"):
        choose_target(standing="held", candidate=means((0, 0, 0, 0, 0)))


@given(st.lists(unit, min_size=5, max_size=5), st.lists(unit, min_size=5, max_size=5))
def test_a_target_is_weakest_or_fell_most(before: list[float], after: list[float]) -> None:
    found = choose_target(standing="held", candidate=means(after), baseline=means(before))
    falls = [old - new for old, new in zip(before, after, strict=True)]
    place = tuple(Stage).index(found.stage)
    if found.corrective:
        assert falls[place] >= max(falls) - 1e-12 > 0 - 1e-12
    else:
        assert max(falls) <= 1e-12
        assert after[place] <= min(after) + 1e-12


def test_the_reason_says_what_was_read() -> None:
    assert choose_target(standing="baseline", candidate=means((0.9, 0.25, 0.6, 0.7, 0.8))).reason == (
        "baseline: S2 is the weakest stage, 0.2500 over 10 cells (reached)"
    )
