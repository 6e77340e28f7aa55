"""The skill library does the same in a folder of its own, where nothing of this project can be imported."""

import subprocess
import sys
from pathlib import Path

import pytest
from benchmark_evidence import rollout

from bat_events.benchmark.interface import TaskKey
from bat_events.benchmark.mini import MiniBenchmark
from bat_events.domain.vocabulary import Focus, Outcome, Split, Track

MINI = MiniBenchmark()
DRIVER = """
import sys
sys.path.insert(0, {skills!r})
import medskills as m
assert not any(name.partition(".")[0] == "bat_events" for name in sys.modules)
for code in {codes!r}:
    exec(code)
"""


@pytest.mark.parametrize("outcome", list(Outcome))
def test_skills_work_in_a_real_folder(tmp_path: Path, outcome: Outcome) -> None:
    key = TaskKey(track=Track.SEGMENTATION, focus=Focus.E2E, outcome=outcome, seed=2, split=Split.PRACTICE)
    task, codes = MINI.build(key), MINI.expert(key)
    for path, content in {**task.inputs, **task.files}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    script = DRIVER.format(skills=str(MINI.skills_path()), codes=codes)
    ran = subprocess.run(
        [sys.executable, "-I", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == len(codes)
    made = rollout(task, codes)
    found = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {**task.inputs, **made.files}


def test_steps_out_of_order_stop_with_one_line() -> None:
    key = TaskKey(track=Track.SEGMENTATION, focus=Focus.E2E, outcome=Outcome.SUCCESS, seed=2, split=Split.PRACTICE)
    made = rollout(MINI.build(key), ["m.area(1)", "m.keep(1)", "m.mean(1)", "m.window(1)", "m.drop()", "m.smooth(4)"])
    assert [receipt.exit_code for receipt in made.receipts] == [1] * 6
    assert all(len(receipt.stderr.splitlines()) == 1 for receipt in made.receipts)
    assert made.files == dict(made.task.files)
