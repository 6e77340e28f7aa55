"""Aggregates of an evaluation and the paired comparison: docs/rules.md."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_events.domain.evaluation import Cell, check_matrix, paired, parse_failure, summarise
from bat_events.domain.stages import agentic_score, overall_score
from bat_events.domain.vocabulary import FailureCode, Stage, Track

ORDER = tuple(Stage)


def cell(
    track: Track = Track.VQA,
    task: str = "t",
    repeat: int = 0,
    *,
    task_score: float = 0.5,
    stages: Sequence[float] = (0.5, 0.5, 0.5, 0.5, 0.5),
    reached: int = 5,
) -> Cell:
    return Cell(
        track=track,
        task=task,
        repeat=repeat,
        task_score=task_score,
        stages=dict(zip(ORDER, stages, strict=True)),
        reached=frozenset(ORDER[:reached]),
    )


def flat(score: float, track: Track = Track.VQA, repeat: int = 0) -> Cell:
    return cell(track, repeat=repeat, task_score=score, stages=[score] * 5)


@st.composite
def matrices(draw: st.DrawFn) -> list[Cell]:
    keys = draw(st.sets(st.tuples(st.sampled_from(Track), st.sampled_from(["a", "b"]), st.integers(0, 3)), min_size=1))
    unit = st.floats(0, 1)
    found = []
    for track, task, repeat in sorted(keys):
        reached = draw(st.integers(1, 5))
        scores = [draw(unit) if place < reached else 0.0 for place in range(5)]
        found.append(cell(track, task, repeat, task_score=draw(unit), stages=scores, reached=reached))
    return found


def test_a_cell_scores_agentic_and_overall() -> None:
    one = cell(task_score=0.5, stages=(0.8, 0.6, 0.4, 0.2, 0.0))
    assert one.agentic == pytest.approx(0.46)
    assert one.overall == pytest.approx(0.48)


def test_a_cell_without_all_its_stages_is_refused() -> None:
    with pytest.raises(ValueError, match="missing; leave it out"):
        Cell(track=Track.VQA, task="t", repeat=0, task_score=1.0, stages={Stage.S1: 1.0}, reached=frozenset())


def test_a_stage_that_does_not_apply_is_said_so() -> None:
    one = Cell(
        track=Track.VQA,
        task="t",
        repeat=0,
        task_score=1.0,
        stages={Stage.S1: 1.0},
        reached=frozenset({Stage.S1}),
        applicable=frozenset({Stage.S1}),
    )
    assert one.overall == 1.0
    assert set(summarise([one]).stages) == {Stage.S1}


def test_a_score_in_an_unreached_stage_is_refused() -> None:
    with pytest.raises(ValueError, match="not reached"):
        cell(stages=(1, 1, 1, 1, 1), reached=4)


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.1])
def test_a_score_outside_its_range_is_refused_with_the_cell_named(bad: float) -> None:
    with pytest.raises(ValueError, match="vqa/t#0"):
        cell(task_score=bad)
    with pytest.raises(ValueError, match="S1 in cell vqa/t#0"):
        cell(stages=(bad, 0, 0, 0, 0))


def test_overall_is_the_mean_of_the_track_means_and_not_of_the_cells() -> None:
    # Facts section 4: with three cells of one track and one of another, 0.75 against 0.50.
    cells = [*(flat(1.0, Track.VQA, repeat) for repeat in range(3)), flat(0.0, Track.REPORT)]
    summary = summarise(cells)
    assert summary.overall == summary.task == summary.agentic == 0.5
    assert summary.n == 4
    assert summary.tracks[Track.VQA].n == 3
    assert summary.tracks[Track.VQA].overall == 1.0
    assert math.fsum(one.overall for one in cells) / 4 == 0.75


def test_raw_stage_means_count_unreached_as_zero_and_reached_ones_do_not() -> None:
    cells = [
        cell(Track.VQA, repeat=0, stages=(1.0, 0.4, 0, 0, 0), reached=2),
        cell(Track.VQA, repeat=1, stages=(0.0, 0, 0, 0, 0), reached=1),
        cell(Track.REPORT, repeat=0, stages=(1.0, 0.8, 0.6, 0, 0), reached=3),
    ]
    stages = summarise(cells).stages
    assert (stages[Stage.S1].raw, stages[Stage.S1].reached, stages[Stage.S1].reached_n) == (0.75, 2 / 3, 3)
    assert stages[Stage.S2].raw == pytest.approx((0.2 + 0.8) / 2)
    assert stages[Stage.S2].reached == pytest.approx(0.6)
    assert (stages[Stage.S3].raw, stages[Stage.S3].reached, stages[Stage.S3].reached_n) == (0.3, 0.6, 1)
    assert (stages[Stage.S5].raw, stages[Stage.S5].reached, stages[Stage.S5].reached_n) == (0.0, None, 0)
    assert all(means.n == 3 for means in stages.values())


def test_no_cells_have_no_aggregates() -> None:
    with pytest.raises(ValueError, match="no aggregates"):
        summarise([])


def test_a_cell_twice_is_refused_and_named() -> None:
    with pytest.raises(ValueError, match="vqa/t#0 occurs twice"):
        summarise([flat(0.5), flat(0.6)])
    with pytest.raises(ValueError, match="vqa/t#0 occurs twice"):
        paired([flat(0.5)], [flat(0.5), flat(0.6)])


@given(matrices(), st.randoms(use_true_random=False))
def test_the_order_of_cells_changes_nothing(cells: list[Cell], random: object) -> None:
    turned = list(cells)
    random.shuffle(turned)  # type: ignore[attr-defined]
    assert summarise(turned) == summarise(cells)
    assert paired(turned, cells) == paired(cells, cells)


@given(matrices(), st.integers(0, 100), st.floats(0, 1))
def test_overall_never_falls_when_a_task_score_rises(cells: list[Cell], place: int, better: float) -> None:
    place %= len(cells)
    old = cells[place]
    new = Cell(
        track=old.track,
        task=old.task,
        repeat=old.repeat,
        task_score=max(old.task_score, better),
        stages=old.stages,
        reached=old.reached,
    )
    raised = [*cells[:place], new, *cells[place + 1 :]]
    assert summarise(raised).overall >= summarise(cells).overall - 1e-12
    assert paired(raised, cells).overall.mean >= 0


@given(matrices())
def test_overall_is_half_task_half_agentic_of_the_summary_too(cells: list[Cell]) -> None:
    summary = summarise(cells)
    assert summary.overall == pytest.approx(0.5 * summary.task + 0.5 * summary.agentic, abs=1e-12)
    raw = {stage: means.raw for stage, means in summary.stages.items()}
    assert summary.agentic == pytest.approx(agentic_score(raw), abs=1e-12)
    assert overall_score(summary.task, summary.agentic) == pytest.approx(summary.overall, abs=1e-12)


def test_missing_is_not_zero() -> None:
    scored = [flat(0.8, repeat=0), flat(0.6, repeat=1)]
    assert summarise(scored).overall == pytest.approx(0.7)
    check = check_matrix(scored, [(Track.VQA, "t", repeat) for repeat in range(3)])
    assert check.missing == ((Track.VQA, "t", 2),)
    assert not check.complete


def test_an_invented_track_is_unexpected() -> None:
    check = check_matrix([flat(1.0, Track.REPORT)], [(Track.VQA, "t", 0)])
    assert check.unexpected == ((Track.REPORT, "t", 0),)
    assert check.missing == ((Track.VQA, "t", 0),)


def test_exactly_the_expected_cells_are_complete() -> None:
    cells = [flat(0.5, track, repeat) for track in Track for repeat in range(10)]
    assert check_matrix(cells, [(track, "t", repeat) for track in Track for repeat in range(10)]).complete


def test_pairing_compares_cell_with_cell() -> None:
    before = [flat(0.5, track, repeat) for track in (Track.VQA, Track.REPORT) for repeat in range(3)]
    after = [flat(0.6, Track.VQA, repeat) for repeat in range(3)] + [
        flat(0.3, Track.REPORT, repeat) for repeat in range(3)
    ]
    found = paired(after, before)
    assert found.complete
    assert found.n == 6
    assert found.overall.mean == pytest.approx(-0.05)
    assert found.tracks[Track.VQA].mean == pytest.approx(0.1)
    assert found.tracks[Track.REPORT].mean == pytest.approx(-0.2)
    assert all(found.stages[stage].mean == pytest.approx(-0.05) for stage in Stage)
    assert found.task.n == 6


def test_pairing_weighs_tracks_and_not_cells() -> None:
    before = [flat(0.5, Track.VQA, repeat) for repeat in range(4)] + [
        flat(0.5, Track.REPORT, repeat) for repeat in range(2)
    ]
    after = [flat(0.9, Track.VQA, repeat) for repeat in range(4)] + [
        flat(0.5, Track.REPORT, repeat) for repeat in range(2)
    ]
    found = paired(after, before)
    assert found.overall.mean == pytest.approx(0.2)
    assert found.overall.mean == pytest.approx(summarise(after).overall - summarise(before).overall)


def test_unequal_cells_are_incomplete_and_only_the_shared_ones_compared() -> None:
    found = paired([flat(0.5, repeat=0), flat(0.9, repeat=1)], [flat(0.4, repeat=0), flat(0.1, repeat=2)])
    assert not found.complete
    assert found.n == 1
    assert found.overall.mean == pytest.approx(0.1)
    assert found.overall.lower80 is None


def test_evaluations_that_share_nothing_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="share no cell"):
        paired([flat(0.5, repeat=0)], [flat(0.5, repeat=1)])


@given(matrices(), matrices())
def test_a_comparison_turned_round_is_its_negative(one: list[Cell], other: list[Cell]) -> None:
    if not {c.key for c in one} & {c.key for c in other}:
        return
    forth, back = paired(one, other).overall, paired(other, one).overall
    assert forth.mean == pytest.approx(-back.mean, abs=1e-12)
    if forth.lower80 is not None and back.upper80 is not None:
        assert forth.lower80 == pytest.approx(-back.upper80, abs=1e-9)


def test_failures_count_the_cells_in_which_they_fired_in_order_of_stage_and_code() -> None:
    found = summarise(
        [
            replace(cell(repeat=0), failures=("S5:E5", "S1:E3")),
            replace(cell(repeat=1), failures=("S1:E3", "S1:E3", "S1:E1")),
            cell(Track.REPORT),
        ]
    ).failures
    assert list(found.items()) == [
        ((Stage.S1, FailureCode.E1), 1),
        ((Stage.S1, FailureCode.E3), 2),
        ((Stage.S5, FailureCode.E5), 1),
    ]
    assert summarise([cell()]).failures == {}


@pytest.mark.parametrize("text", ["S1:E9", "S6:E1", "E2E:E1", "E1", "", "S1:", "s1:e1", "S1:E1:E2", "S1: E1"])
def test_a_failure_of_no_closed_category_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"STAGE:CODE, a stage of S1, S2, S3, S4, S5 and a code of E1, E2, E3, E4, E5"):
        parse_failure(text)
    with pytest.raises(ValueError, match=r"cell vqa/t#0 has failure"):
        replace(cell(), failures=(text,))


def test_a_failure_in_a_stage_that_does_not_apply_is_refused() -> None:
    only = frozenset({Stage.S1})
    with pytest.raises(ValueError, match="S2:E4, but only S1 apply"):
        Cell(
            track=Track.VQA,
            task="t",
            repeat=0,
            task_score=1.0,
            stages={Stage.S1: 1.0},
            reached=only,
            applicable=only,
            failures=("S2:E4",),
        )


def test_every_failure_code_says_what_it_means() -> None:
    assert len({code.meaning for code in FailureCode}) == len(FailureCode) == 5
