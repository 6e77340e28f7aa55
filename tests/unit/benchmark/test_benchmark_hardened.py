"""Rubric 2: who left a product, what is no product, and that honest work scores as before."""

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmark_evidence import Rollout, rollout

from bat_events.benchmark.body import codes_from_body, evidence_body
from bat_events.benchmark.card import choices
from bat_events.benchmark.degenerate import copies_input, flat, repeated
from bat_events.benchmark.instance import Instance
from bat_events.benchmark.interface import ItemScore, TaskKey
from bat_events.benchmark.mini import MiniBenchmark
from bat_events.benchmark.proofs import left_by
from bat_events.domain.vocabulary import Focus, Outcome, Split, Stage, Track

MINI = MiniBenchmark()


def key(focus: Focus, outcome: Outcome = Outcome.SUCCESS, track: Track = Track.ENHANCEMENT, seed: int = 11) -> TaskKey:
    return TaskKey(track=track, focus=focus, outcome=outcome, seed=seed, split=Split.PRACTICE)


def played(wanted: TaskKey, codes: list[str] | None = None) -> Rollout:
    return rollout(MINI.build(wanted), MINI.expert(wanted) if codes is None else codes)


def items(made: Rollout, rubric: int = 2) -> dict[str, ItemScore]:
    return {item.item: item for item in MINI.grade(made.task.key, made.evidence(), rubric=rubric).items}


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("focus", list(Focus))
def test_an_expert_scores_under_both_rubrics_alike_and_every_item_that_scores_cites_its_call(
    focus: Focus, outcome: Outcome
) -> None:
    for track in (Track.ENHANCEMENT, Track.SEGMENTATION, Track.VQA):
        made = played(key(focus, outcome, track))
        first, second = items(made, 1), items(made, 2)
        assert {name: item.score for name, item in first.items()} == {name: item.score for name, item in second.items()}
        for item in second.values():
            if item.score > 0:
                assert item.proof is not None
                assert made.receipts[item.proof].exit_code == 0
                assert made.receipts[item.proof].changes


def test_a_file_is_left_by_the_last_call_that_changed_it_if_that_succeeded_and_the_content_is_its() -> None:
    made = Rollout(MINI.build(key(Focus.S1)))
    made.note("", {**made.files, "a": b"1"})
    made.note("", {**made.files, "b": b"1"})
    assert left_by(made.receipts, made.files, "a") == 0
    assert left_by(made.receipts, {**made.files, "a": b"2"}, "a") is None
    assert left_by(made.receipts, made.files, "worklist.csv") is None
    made.note("", {**made.files, "a": b"3"}, exit_code=1)
    assert left_by(made.receipts, made.files, "a") is None
    made.note("", {p: c for p, c in made.files.items() if p != "b"})
    assert left_by(made.receipts, made.files, "b") is None


def test_a_batch_that_stopped_and_was_run_again_is_proved_by_the_second_run() -> None:
    wanted = key(Focus.S4, Outcome.FAILURE, seed=3)
    right = MINI.expert(wanted)[-1]
    made = played(wanted, [right, "m.drop()", right])
    assert [receipt.exit_code for receipt in made.receipts] == [1, 0, 0]
    assert items(made)["outputs_made"].proof == 2
    assert items(made)["outputs_choice"].score == items(played(wanted))["outputs_choice"].score


def test_outputs_of_a_failing_call_that_the_records_do_not_make_have_no_proof() -> None:
    made = played(key(Focus.S4))
    path = next(path for path in made.files if path.startswith("outputs/") and path.endswith(".npy"))
    other = played(key(Focus.S4), ["m.keep(1)"]).files[path]
    made.note("", {**made.files, path: other}, exit_code=1)
    assert items(made)["outputs_made"] == ItemScore(item="outputs_made", stage=Stage.S4, score=0.0)
    assert items(made, 1)["outputs_made"].score > 0


def test_a_fault_that_nobody_mended_earns_nothing_even_where_it_does_no_harm() -> None:
    wanted = key(Focus.S2, Outcome.RECOVERY)
    right = Instance(wanted).right(Stage.S1)
    task = MINI.build(wanted)
    good = MINI.build(replace(wanted, outcome=Outcome.SUCCESS)).files["plan/plan.json"]
    untouched = rollout(replace(task, files={**task.files, "plan/plan.json": good}), MINI.expert(wanted)[1:])
    assert items(untouched, 1)["plan_repaired"].score > 0.9
    assert items(untouched)["plan_repaired"].score == 0.0
    mended = items(played(wanted))["plan_repaired"]
    assert (mended.proof, mended.score > 0.9, right.method in MINI.expert(wanted)[0]) == (0, True, True)


def test_work_is_void_where_the_artefacts_of_earlier_stages_are_gone() -> None:
    made = played(key(Focus.S4))
    made.note("", {path: content for path, content in made.files.items() if path != "setup/setup.json"})
    assert {(item.score, item.note) for item in items(made).values()} == {(0.0, "artefacts of earlier stages are gone")}


@pytest.mark.parametrize("track", [Track.ENHANCEMENT, Track.SYNTHESIS, Track.SEGMENTATION])
def test_no_choice_of_the_published_steps_makes_a_copy(track: Track) -> None:
    """The thresholds leave room: what any single choice hands in, right or wrong, is no copy of input or another case."""
    wanted = key(Focus.S4, track=track, seed=2)
    instance = Instance(wanted)
    raw = {case.name: case.raw for case in instance.readable}
    for choice in choices(Stage.S4):
        made = played(wanted, [f"m.{choice.method}({choice.level})"])
        from bat_events.benchmark.products import outputs

        arrays = {name: array for name, array in outputs(made.files).items() if array is not None}
        assert len(arrays) == 4
        assert repeated(arrays) == set()
        assert not any(flat(array) or copies_input(array, raw[name]) for name, array in arrays.items())


def test_copies_are_seen_through_brightness_turns_and_shifts() -> None:
    raw = Instance(key(Focus.S4)).readable[0].raw
    frame = raw[7].astype(np.float64)
    for copy in (frame, 0.3 - frame / 900, np.rot90(frame), np.roll(frame.T, (3, 11), axis=(0, 1))):
        assert copies_input(copy, raw)
    noise = np.random.default_rng(0).normal(size=frame.shape)
    assert not copies_input(frame + 0.1 * frame.std() * noise, raw)
    assert repeated({"a": frame, "b": 2 - frame, "c": noise}) == {"a", "b"}
    one_pixel = np.zeros((32, 32))
    one_pixel[3, 4] = 1.0
    assert not flat(one_pixel)
    assert flat(np.full((32, 32), 0.5))
    assert flat(0.5 + 0.01 * one_pixel)


def test_evidence_keeps_code_that_is_no_text() -> None:
    """A tool call's JSON can spell a lone surrogate: it must neither be lost nor end the worker."""
    made = Rollout(MINI.build(key(Focus.S1)))
    made.note("a", made.files)
    made.note("b", made.files)
    codes = ["print('\ud800')", "print(1)"]
    assert codes_from_body(json.loads(evidence_body(made.evidence(), codes))) == codes
