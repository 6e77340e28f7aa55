"""A grade is total: whatever lies in the workspace, it is a grade with scores in [0, 1]."""

import io
import math

import numpy as np
import pytest
from benchmark_evidence import Rollout, rollout
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bat_events.benchmark.interface import TaskKey
from bat_events.benchmark.mini import MiniBenchmark
from bat_events.domain.scoring import grade_summary
from bat_events.domain.vocabulary import Focus, Outcome, Split, Track

MINI = MiniBenchmark()
PATHS = [
    "plan/plan.json", "setup/setup.json", "validation/pilot.npy", "validation/pilot.json", "outputs/run.json",
    "submission.csv", "failed.csv", "worklist.csv", "outputs/x.npy", "outputs/a/b.npy", "outputs/.npy",
]  # fmt: skip


def header(text: str, body: bytes = b"") -> bytes:
    padded = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + body


def saved(values: object, dtype: str) -> bytes:
    content = io.BytesIO()
    np.save(content, np.asarray(values, dtype=dtype))
    return content.getvalue()


HOSTILE = [
    b"", b"\x00" * 64, b"\x93NUMPY", b"\x93NUMPY\x02\x00\xff\xff\xff\xff", b"[" * 50000, b'{"a":' * 9000, b"NaN",
    b'{"method": [], "level": {}, "cases": 3}', b'{"method": "smooth", "level": true, "cases": [1]}',
    b'{"method": "smooth", "level": 1e999, "cases": []}', b'{"method":"scale","level":1,"cases":[],"ranges":[]}',
    b'{"case":[],"level":1,"mean":"1e999","method":"mean","roughness":null,"verdict":{}}',
    b'{"level": ' + b"9" * 5000 + b"}", b"\xff\xfe\x00", b"case\n" + b"x\n" * 3000, b'case\n"', b"case\r\n\x00",
    b"case,status,measure,unit,value\n", b"case,status,measure,unit,value\na,done,area,px," + b"9" * 5000,
    b"case,status,measure,unit,value\na,done,area,px,nan\n", b'case,status,measure,unit,value\n"' + b"a" * 60000 + b'",,,,\n',
    header("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 99999999), }"),
    header("{'descr': '|O', 'fortran_order': False, 'shape': (32, 32), }", b"\x00" * 8192),
    header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (32, 32), }", b"\x00" * 4096),
    header("{'descr': '<f4', 'fortran_order': 3, 'shape': (32, 32), }", b"\x00" * 4096), header("__import__('os')"),
    header("(" * 200), header("{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (32, 32), }", b"\x01" * 8192),
    saved(np.full((32, 32), np.nan), "f4"), saved(np.full((32, 32), np.inf), "f2"), saved(np.ones((32, 32)), "c8"),
    saved(np.full((32, 32), 1e300), "f8"), saved(np.eye(32), "?"), saved(np.eye(32), ">i8"), saved(np.eye(31), "f4"),
]  # fmt: skip


def check(key: TaskKey, made: Rollout) -> None:
    grade = MINI.grade(key, made.evidence())
    assert all(math.isfinite(item.score) and 0 <= item.score <= 1 for item in grade.items)
    assert grade.task_score is None or 0 <= grade.task_score <= 1
    grade_summary(grade, key.focus)


@pytest.mark.parametrize(
    ("track", "focus"), [*((track, Focus.E2E) for track in MINI.tracks()), (Track.SEGMENTATION, Focus.S5)]
)
def test_hostile_files_get_a_grade(track: Track, focus: Focus) -> None:
    key = TaskKey(track=track, focus=focus, outcome=Outcome.FAILURE, seed=4, split=Split.PRACTICE)
    task = MINI.build(key)
    finished = rollout(task, MINI.expert(key)).files
    outputs = [path for path in finished if path.startswith("outputs/") and path.endswith(".npy")][:1]
    for path in [*PATHS, *outputs]:
        for content in HOSTILE:
            made = Rollout(task)
            made.note("", {**finished, path: content})
            check(key, made)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_mutated_workspaces_get_a_grade(data: st.DataObject) -> None:
    focus = data.draw(st.sampled_from(list(Focus)))
    track = data.draw(st.sampled_from(MINI.tracks()))
    key = TaskKey(
        track=track, focus=focus, outcome=data.draw(st.sampled_from(list(Outcome))), seed=4, split=Split.PRACTICE
    )
    task = MINI.build(key)
    made = rollout(task, MINI.expert(key))
    files = dict(made.files)
    for path in data.draw(st.lists(st.sampled_from(sorted(files)), max_size=3, unique=True)):
        content = bytearray(files[path])
        for _ in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.integers(0, max(len(content) - 1, 0)))
            content[place : place + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=6))
        files[path] = bytes(content)
    for path in data.draw(st.lists(st.sampled_from(sorted(files)), max_size=2, unique=True)):
        del files[path]
    made.note("", files)
    check(key, made)
