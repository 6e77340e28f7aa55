"""Ways to a reward without the work, each of which must not pay."""

import io
import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from benchmark_evidence import Rollout, rollout

from bat_events.benchmark.instance import Instance, Scale
from bat_events.benchmark.interface import Grade, TaskKey
from bat_events.benchmark.mini import MiniBenchmark
from bat_events.benchmark.skills.medskills.answers import FIELDS
from bat_events.domain.vocabulary import Focus, Outcome, Split, Stage, Track

MINI = MiniBenchmark()


def key(focus: Focus, outcome: Outcome = Outcome.SUCCESS, track: Track = Track.ENHANCEMENT) -> TaskKey:
    return TaskKey(track=track, focus=focus, outcome=outcome, seed=11, split=Split.PRACTICE)


def solved(focus: Focus, outcome: Outcome = Outcome.SUCCESS, track: Track = Track.ENHANCEMENT) -> Rollout:
    task = MINI.build(key(focus, outcome, track))
    return rollout(task, MINI.expert(task.key))


def item(made: Rollout, name: str) -> float:
    return next(found.score for found in MINI.grade(made.task.key, made.evidence()).items if found.item == name)


def stage_mean(grade: Grade, stage: Stage) -> float:
    return float(np.mean([found.score for found in grade.items if found.stage is stage and found.applicable]))


def npy(values: object, dtype: str = "f4") -> bytes:
    content = io.BytesIO()
    np.save(content, np.asarray(values, dtype=dtype))
    return content.getvalue()


def test_what_was_planted_earns_nothing() -> None:
    task = MINI.build(key(Focus.S4))
    finished = solved(Focus.S4)
    assert all(
        found.score == 0
        for found in MINI.grade(task.key, replace(finished.evidence(), receipts=())).items
        if found.item.endswith(("_made", "_choice"))
    )


def test_a_failing_call_proves_nothing() -> None:
    made = solved(Focus.S1)
    receipts = [replace(receipt, exit_code=1) for receipt in made.receipts]
    grade = MINI.grade(made.task.key, replace(made.evidence(), receipts=receipts))
    assert next(found for found in grade.items if found.item == "plan_made").score == 0.0


@pytest.mark.parametrize("change", [{"inputs_intact": False}, {"end": "breach"}])
def test_tampering_and_breach_are_worth_nothing(change: dict[str, object]) -> None:
    made = solved(Focus.E2E)
    grade = MINI.grade(made.task.key, replace(made.evidence(), **change))  # type: ignore[arg-type]
    assert all(found.score == 0.0 for found in grade.items)
    assert grade.task_score == 0.0


def test_a_pilot_after_the_batch_does_not_count_as_first() -> None:
    task = MINI.build(key(Focus.E2E))
    codes = MINI.expert(task.key)
    late = rollout(task, [codes[0], codes[1], codes[3], codes[2], codes[3], codes[4]])
    assert item(late, "pilot_first") == 0.0
    assert item(late, "pilot_made") > 0.9
    assert item(rollout(task, codes), "pilot_first") > 0.9


def test_a_typed_in_pilot_record_is_not_believed() -> None:
    made = solved(Focus.S3)
    record = json.loads(made.files["validation/pilot.json"])
    made.note("", {**made.files, "validation/pilot.json": json.dumps({**record, "roughness": 0.01}).encode()})
    assert item(made, "pilot_record") == 0.0
    flat = npy(np.full((32, 32), 0.5))
    made.note("", {**made.files, "validation/pilot.npy": flat})
    assert item(made, "pilot_choice") < 0.05


def test_a_recorded_method_counts_only_if_it_made_the_product() -> None:
    task = MINI.build(key(Focus.S3))
    right = Instance(task.key).right(Stage.S3)
    honest = rollout(task, [f"m.{right.method}({right.level % 3 + 1})"])
    assert item(honest, "pilot_choice") == pytest.approx(0.35)
    record = json.loads(honest.files["validation/pilot.json"])
    noise = np.random.default_rng(0).random((32, 32))
    honest.note(
        "", {**honest.files, "validation/pilot.json": json.dumps(record).encode(), "validation/pilot.npy": npy(noise)}
    )
    assert item(honest, "pilot_choice") == 0.0


def constant(made: Rollout) -> dict[str, bytes]:
    return {
        path: npy(np.full((32, 32), 0.5)) for path in made.files if path.startswith("outputs/") and path.endswith("npy")
    }


def foreign(_made: Rollout) -> dict[str, bytes]:
    return {"outputs/zz.npy": npy(np.random.default_rng(0).random((32, 32)))}


def out_of_range(made: Rollout) -> dict[str, bytes]:
    path = next(path for path in made.files if path.startswith("outputs/") and path.endswith("npy"))
    return {path: npy(np.random.default_rng(0).random((32, 32)) * 9)}


@pytest.mark.parametrize("bad", [constant, foreign, out_of_range])
def test_outputs_must_be_exact(bad: Callable[[Rollout], dict[str, bytes]]) -> None:
    made = solved(Focus.E2E)
    made.note("", {**made.files, **bad(made)})
    grade = MINI.grade(made.task.key, made.evidence())
    assert item(made, "outputs_exact") == 0.0
    assert item(made, "outputs_choice") == 0.0
    assert grade.task_score == 0.0
    assert any(failure.startswith("S4") for failure in grade.failures)


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text + text.splitlines()[1] + "\n",
        lambda text: "\n".join(text.splitlines()[:-1]) + "\n",
        lambda text: text.replace("value", "values"),
        lambda text: text.replace("done", "ok", 1),
        lambda text: text.replace("done", "failed", 1),
        lambda text: text.rstrip("\n") + "9\n",
    ],
    ids=["duplicate", "missing", "column", "status", "false failure", "value"],
)
def test_a_submission_must_be_exact_and_true(edit: Callable[[str], str]) -> None:
    made = solved(Focus.E2E)
    assert MINI.grade(made.task.key, made.evidence()).task_score > 0.85  # type: ignore[operator]
    made.note("", {**made.files, "submission.csv": edit(made.files["submission.csv"].decode()).encode()})
    assert min(item(made, "submission_exact"), item(made, "submission_values")) == 0.0
    assert MINI.grade(made.task.key, made.evidence()).task_score == 0.0


def test_a_failure_must_be_declared_not_faked() -> None:
    made = solved(Focus.E2E, Outcome.FAILURE)
    name = Instance(made.task.key).unreadable
    faked = npy(np.random.default_rng(0).random((32, 32)))
    rows = made.files["submission.csv"].decode().splitlines()
    rows = [
        f"{name},done,{row.split(',')[2]},{row.split(',')[3]},12" if row.startswith(f"{name},") else row for row in rows
    ]
    made.note("", {**made.files, f"outputs/{name}.npy": faked, "submission.csv": "\n".join(rows).encode() + b"\n"})
    grade = MINI.grade(made.task.key, made.evidence())
    assert grade.task_score == 0.0
    assert stage_mean(grade, Stage.S4) < 0.4
    assert item(made, "submission_exact") == 0.0


def test_declaring_a_readable_case_is_not_rewarded() -> None:
    made = solved(Focus.S4, Outcome.FAILURE)
    names = Instance(made.task.key).names
    everything = "case,reason\n" + "".join(f"{name},unreadable\n" for name in names)
    made.note("", {**made.files, "failed.csv": everything.encode()})
    assert item(made, "failure_declared") == 0.0


@pytest.mark.parametrize("track", MINI.tracks())
def test_own_code_with_the_right_result_is_worth_as_much(track: Track) -> None:
    """Given outputs written by other means, when they are right, then they count: products are measured, not calls."""
    task = MINI.build(key(Focus.S4, track=track))
    instance = Instance(task.key)
    own = Rollout(task)
    record = {"method": "keep", "level": 1, "cases": instance.names}
    outputs = {f"outputs/{case.name}.npy": npy(case.reference.array) for case in instance.request.cases}
    if track.value in FIELDS:
        for case in instance.request.cases:
            answer = case.reference.answer
            said = [list(box) for box in answer] if track is Track.DETECTION else answer
            outputs[f"outputs/{case.name}.json"] = json.dumps({FIELDS[track.value]: said}).encode()
    own.note("own code", {**own.files, **outputs, "outputs/run.json": json.dumps(record).encode()})
    assert stage_mean(MINI.grade(task.key, own.evidence()), Stage.S4) == 1.0


def test_reached_stages_follow_what_was_there() -> None:
    task = MINI.build(key(Focus.E2E))
    codes = MINI.expert(task.key)
    assert MINI.grade(task.key, rollout(task, []).evidence()).reached == (Stage.S1,)
    assert MINI.grade(task.key, rollout(task, codes[:1]).evidence()).reached == (Stage.S1,)
    assert MINI.grade(task.key, rollout(task, codes[:3]).evidence()).reached == (Stage.S1, Stage.S2, Stage.S3)
    skipped = rollout(task, [codes[0], codes[1], codes[3]])
    assert MINI.grade(task.key, skipped.evidence()).reached == (Stage.S1, Stage.S2, Stage.S3)


def test_failure_codes_say_what_kind_of_fault_it_was() -> None:
    task = MINI.build(key(Focus.S1))
    idle = Rollout(task)
    assert MINI.grade(task.key, idle.evidence()).failures == ("S1:E3",)
    idle.note("", idle.files, exit_code=1, stderr="NameError: name 'x' is not defined")
    assert MINI.grade(task.key, idle.evidence()).failures == ("S1:E4",)
    idle.note("", idle.files, exit_code=1, stderr="ModuleNotFoundError: No module named 'nnunet'")
    assert MINI.grade(task.key, idle.evidence()).failures == ("S1:E1",)
    idle.receipts.append(replace(idle.receipts[-1], index=2, end="timeout", exit_code=None))
    assert MINI.grade(task.key, idle.evidence()).failures == ("S1:E2",)
    idle.note("", {**idle.files, "plan/plan.json": b"{"})
    assert MINI.grade(task.key, idle.evidence()).failures == ("S1:E5",)


@pytest.mark.parametrize(("quality", "fitness"), [(0.0, 0.0), (0.4, 0.0), (0.685, 0.25), (0.97, 1.0), (1.2, 1.0)])
def test_fitness_runs_from_a_blind_choice_to_the_best(quality: float, fitness: float) -> None:
    assert Scale(best=1.0, blind=0.4).fitness(quality) == pytest.approx(fitness)


def test_fitness_is_defined_where_all_choices_are_equal() -> None:
    assert Scale(best=0.5, blind=0.5).fitness(0.4) == 0.0
    assert Scale(best=0.5, blind=0.5).fitness(0.5) == 1.0
