"""The gate in both modes: docs/rules.md."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_events.domain.evaluation import Cell, Comparison, paired, summarise
from bat_events.domain.promotion import Decision, GateSettings, Standing, decide
from bat_events.domain.statistics import PairedDifference, one_sample
from bat_events.domain.vocabulary import Stage, Track

BASE = Standing(overall=0.5, task=0.5, tracks=dict.fromkeys(Track, 0.5), stages=dict.fromkeys(Stage, 0.5))


def gain(mean: float, spread: float = 0.0, n: int = 70) -> PairedDifference:
    return one_sample([mean - spread, mean + spread] * (n // 2))


def compared(
    overall: PairedDifference, stages: dict[Stage, float] | None = None, *, complete: bool = True
) -> Comparison:
    return Comparison(
        complete=complete,
        n=overall.n,
        overall=overall,
        task=overall,
        tracks={},
        stages={stage: gain((stages or {}).get(stage, 0.0)) for stage in Stage},
    )


def reference(candidate: Standing, *, complete: bool = True, healthy: bool = True) -> Decision:
    comparison = compared(gain(candidate.overall - BASE.overall), complete=complete)
    return decide("reference", candidate=candidate, baseline=BASE, comparison=comparison, healthy=healthy)


def paired_gate(comparison: Comparison, *, healthy: bool = True, settings: GateSettings | None = None) -> Decision:
    return decide("paired", candidate=BASE, baseline=BASE, comparison=comparison, healthy=healthy, settings=settings)


def failed(decision: Decision) -> set[str]:
    return {check.name for check in decision.checks if not check.passed}


def cells(score: float, tracks: tuple[Track, ...] = tuple(Track), repeats: int = 10) -> list[Cell]:
    return [
        Cell(
            track=track,
            task="t",
            repeat=repeat,
            task_score=score,
            stages=dict.fromkeys(Stage, score),
            reached=frozenset(Stage),
        )
        for track in tracks
        for repeat in range(repeats)
    ]


@pytest.mark.parametrize("mode", ["paired", "reference"])
def test_the_first_report_is_the_baseline(mode: str) -> None:
    found = decide(mode, candidate=BASE, baseline=None, comparison=None, healthy=True)  # type: ignore[arg-type]
    assert found.promoted
    assert found.reasons == ("the first report is the baseline",)


def test_the_thresholds_are_the_published_ones() -> None:
    s = GateSettings()
    assert (s.overall_drop, s.task_drop, s.track_drop, s.stage_drop, s.overall_cliff) == (0.01, 0.03, 0.05, 0.03, 0.20)
    assert s.guarded_stages == (Stage.S3, Stage.S4, Stage.S5)
    assert (s.paired_gain, s.paired_stage_drop) == (0.0, 0.15)


@pytest.mark.parametrize(
    ("change", "fails"),
    [
        ({}, set()),
        ({"overall": 0.491}, set()),
        ({"overall": 0.489}, {"overall_drop"}),
        ({"overall": 0.30}, {"overall_drop", "overall_cliff"}),
        ({"overall": 0.31}, {"overall_drop"}),
        ({"task": 0.471}, set()),
        ({"task": 0.469}, {"task_drop"}),
        ({"tracks": {Track.VQA: 0.451}}, set()),
        ({"tracks": {Track.VQA: 0.449}}, {"track_drop:vqa"}),
        ({"stages": {Stage.S3: 0.471}}, set()),
        ({"stages": {Stage.S3: 0.469}}, {"stage_drop:S3"}),
        ({"stages": {Stage.S4: 0.469, Stage.S5: 0.2}}, {"stage_drop:S4", "stage_drop:S5"}),
        # Facts section 8.5: S1 and S2 are not guarded.
        ({"stages": {Stage.S1: 0.0, Stage.S2: 0.0}}, set()),
    ],
)
def test_the_reference_gate_holds_what_falls_beyond_a_threshold(change: dict[str, object], fails: set[str]) -> None:
    merged = {
        name: {**getattr(BASE, name), **value} if isinstance(value, dict) else value for name, value in change.items()
    }
    found = reference(replace(BASE, **merged))  # type: ignore[arg-type]
    assert failed(found) == fails
    assert found.promoted is not bool(fails)
    assert len(found.reasons) == max(len(fails), 1)


def test_the_reference_gate_compares_raw_floats() -> None:
    # Facts section 4: 0.53 to 0.50 is a hair more than 0.03 and fails.
    before = replace(BASE, task=0.53)
    found = decide("reference", candidate=BASE, baseline=before, comparison=compared(gain(0.0)), healthy=True)
    assert failed(found) == {"task_drop"}


@pytest.mark.parametrize("mode", ["paired", "reference"])
def test_pairing_and_health_must_hold_in_both_modes(mode: str) -> None:
    for complete, healthy, name in ((False, True, "pairing"), (True, False, "health")):
        better = replace(BASE, overall=0.9)
        found = decide(
            mode,  # type: ignore[arg-type]
            candidate=better,
            baseline=BASE,
            comparison=compared(gain(0.4), complete=complete),
            healthy=healthy,
        )
        assert not found.promoted
        assert failed(found) == {name}


def test_a_track_that_the_candidate_lacks_is_held() -> None:
    missing = replace(BASE, tracks={track: 0.5 for track in Track if track is not Track.VQA})
    assert failed(reference(missing)) == {"track_drop:vqa"}


@pytest.mark.parametrize(
    ("mean", "spread", "n", "promoted"),
    [
        (0.05, 0.2, 70, True),  # bound 0.05 - 0.847 x 0.2 / sqrt(70) = 0.0296
        (0.02, 0.2, 70, False),  # a gain that 70 cells of this deviation cannot tell from none
        (0.03, 0.2, 70, True),
        (0.0, 0.2, 70, False),
        (0.0, 0.0, 70, False),  # an identical candidate is no gain
        (0.05, 0.2, 10, False),
        (-0.05, 0.0, 70, False),
    ],
)
def test_the_paired_gate_promotes_a_gain_that_is_seen(mean: float, spread: float, n: int, promoted: bool) -> None:
    found = paired_gate(compared(gain(mean, spread, n)))
    assert found.promoted is promoted
    assert failed(found) == (set() if promoted else {"overall_gain_lower80"})


@pytest.mark.parametrize("stage", Stage)
def test_the_paired_gate_guards_every_stage(stage: Stage) -> None:
    # Facts section 8.5: S1 falling from 0.5 to 0.0 was promoted because S3 rose.
    assert failed(paired_gate(compared(gain(0.1), {stage: -0.5}))) == {f"stage_drop:{stage}"}
    assert paired_gate(compared(gain(0.1), {stage: -0.1499})).promoted


def test_too_few_cells_are_held_and_say_so() -> None:
    found = paired_gate(compared(one_sample([0.5])))
    assert not found.promoted
    assert found.reasons == ("overall_gain_lower80: cannot be computed, too few cells",)


@pytest.mark.parametrize("broken", [math.nan, -math.inf])
def test_a_number_that_is_none_never_promotes(broken: float) -> None:
    bad = PairedDifference(mean=broken, deviation=0.0, n=70, lower80=broken, upper80=broken)
    assert not paired_gate(compared(bad)).promoted
    assert not reference(replace(BASE, overall=broken)).promoted


def test_one_cell_on_one_track_does_not_promote() -> None:
    # Facts section 4: with the reference a single cell on an invented track was enough.
    old, new = cells(0.1, (Track.VQA,), 1), cells(0.9, (Track.VQA,), 1)
    assert not paired_gate(paired(new, old)).promoted


def test_the_ratchet_is_promoted_by_the_reference_and_held_by_the_paired_gate() -> None:
    # Facts section 8.5: ten losses of 0.0099 in a row, 0.500 to 0.401.
    best = start = cells(0.5)
    for number in range(1, 11):
        candidate = cells(0.5 - 0.0099 * number)
        decision = decide(
            "reference",
            candidate=Standing.of(summarise(candidate)),
            baseline=Standing.of(summarise(start)),
            comparison=paired(candidate, start),
            healthy=True,
        )
        assert decision.promoted
        against_best = decide(
            "paired",
            candidate=Standing.of(summarise(candidate)),
            baseline=Standing.of(summarise(best)),
            comparison=paired(candidate, best),
            healthy=True,
        )
        assert not against_best.promoted
        assert failed(against_best) == {"overall_gain_lower80"}
        start = candidate
    assert summarise(start).overall == pytest.approx(0.401)
    assert summarise(best).overall == pytest.approx(0.5)


def test_a_baseline_without_a_comparison_is_an_error() -> None:
    with pytest.raises(ValueError, match="paired comparison"):
        decide("paired", candidate=BASE, baseline=BASE, comparison=None, healthy=True)


def test_an_unknown_mode_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown"):
        decide("other", candidate=BASE, baseline=BASE, comparison=compared(gain(0.1)), healthy=True)  # type: ignore[arg-type]


@given(st.floats(-1, 1), st.floats(0, 0.5), st.floats(0, 1))
def test_a_larger_gain_is_never_held_where_a_smaller_one_was_promoted(mean: float, spread: float, more: float) -> None:
    if paired_gate(compared(gain(mean, spread))).promoted:
        assert paired_gate(compared(gain(mean + more, spread))).promoted


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_decision_is_promoted_exactly_when_every_check_passed(overall: float, task: float) -> None:
    found = reference(replace(BASE, overall=overall, task=task))
    assert found.promoted is all(check.passed for check in found.checks)
    assert found.reasons
