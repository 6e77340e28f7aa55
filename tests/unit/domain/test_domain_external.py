"""An outside harness's reply: exactly what was asked for, or refused with every problem and its place."""

import copy
import json
import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from external_replies import ASKED, cell, reply
from hypothesis import given, settings
from hypothesis import strategies as st

from bat_events.domain.external import (
    FAILURE_CODES,
    MAX_SHOWN,
    Asked,
    InvalidCell,
    MeasuredCell,
    OutsideCell,
    ReplyRefused,
    parse_reply,
)
from bat_events.domain.external_reply import read_reply
from bat_events.domain.vocabulary import FailureCode, Stage, Track


def problems(value: Any, asked: Asked = ASKED) -> tuple[str, ...]:
    with pytest.raises(ReplyRefused) as refused:
        read_reply(value, asked)
    assert str(refused.value).startswith("the harness's reply is refused")
    return refused.value.problems


def spoilt(number: int, **changes: Any) -> dict[str, Any]:
    """A good reply but for these fields of one cell."""
    made = reply()
    made["cells"][number].update(changes)
    return made


def measured(value: Any) -> list[MeasuredCell]:
    found = read_reply(value, ASKED)
    assert all(isinstance(part, MeasuredCell) for part in found)
    return [part for part in found if isinstance(part, MeasuredCell)]


def test_a_good_reply_is_read_in_the_order_of_the_matrix() -> None:
    made = reply()
    random.Random(3).shuffle(made["cells"])
    found = measured(made)
    assert [(part.cell.track, part.cell.repeat) for part in found] == ASKED.matrix
    first = found[0].cell
    assert dict(first.stages) == {Stage.S1: 0.5, Stage.S3: 0.25, Stage.S4: 0.0, Stage.S5: 1.0}
    assert first.applicable == first.reached == set(first.stages)
    assert (first.task, first.task_score, first.failures) == ("segmentation-task", 0.5, ("S3:E4",))


def test_an_invalid_cell_is_a_failure_whatever_scores_stand_beside_it() -> None:
    bare = {"track": "vqa", "task_id": "t", "repeat": 1, "valid": False, "detail": "the GPU was lost"}
    for row in (bare, bare | {"task_score": 0.0, "stages": None}, bare | {"task_score": 7, "stages": {"S1": 0.5}}):
        made = reply()
        made["cells"][3] = row
        *_, last = read_reply(made, ASKED)
        assert last == InvalidCell(track=Track.VQA, task="t", repeat=1, detail="the GPU was lost")


def test_a_stage_that_is_null_does_not_apply_and_is_no_zero() -> None:
    stages = {"S1": 1, "S2": None, "S3": None, "S4": None, "S5": None}
    found = measured(spoilt(0, stages=stages, agentic=1.0, failures=None))
    assert found[0].cell.applicable == {Stage.S1}
    assert found[0].cell.agentic == 1.0


def test_a_stage_that_was_not_reached_is_told_apart_from_one_that_scored_zero() -> None:
    found = measured(spoilt(0, reached=["S1", "S3", "S5"]))
    assert found[0].cell.reached == {Stage.S1, Stage.S3, Stage.S5}
    assert problems(spoilt(0, reached=["S1", "S3"])) == (
        "cells[0].reached: lacks S5, which scored 1.0: a stage that was not reached scores 0",
    )
    assert "cells[0].reached: must be a list of stages that apply" in problems(spoilt(0, reached=["S2"]))[0]


@pytest.mark.parametrize(
    ("code", "known"),
    [("E1", "E1"), ("E5", "E5"), ("E8", "E3"), ("RES002", "E2"), ("FMT001", "E5"), ("VIS001", "E3"), ("HAL001", "E3")],
)
def test_failure_codes_are_mapped_by_the_table(code: str, known: str) -> None:
    assert measured(spoilt(0, failures=[f"S1:{code}", f"S1:{code}"]))[0].cell.failures == (f"S1:{known}",)
    assert FAILURE_CODES[code] is FailureCode(known)


@pytest.mark.parametrize("text", ["S1:E9", "S1:e1", "S2:E1", "S6:E1", "E1", "S1", "", 3, None])
def test_a_failure_of_no_known_kind_or_of_a_stage_that_does_not_apply_is_refused(text: Any) -> None:
    (said,) = problems(spoilt(0, failures=["S1:E1", text]))
    assert said.startswith("cells[0].failures[1]: ")
    assert "is not STAGE:CODE with a stage that applies (S1, S3, S4, S5) and a code of E1, E2" in said


NUMBERS = [True, False, "0.5", math.nan, math.inf, -math.inf, -0.001, 1.001, 10**400, [], {}]


@pytest.mark.parametrize("value", [*NUMBERS, None], ids=repr)
def test_a_task_score_is_a_number_from_0_to_1(value: Any) -> None:
    (said,) = problems(spoilt(2, task_score=value))
    assert said.startswith("cells[2].task_score: ")


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_a_stage_score_is_a_number_from_0_to_1_or_null(value: Any) -> None:
    made = spoilt(1, agentic=None, failures=None)
    made["cells"][1]["stages"]["S4"] = value
    (said,) = problems(made)
    assert said.startswith("cells[1].stages.S4: must be a number from 0 to 1, got ")


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        (dict.fromkeys(("S1", "S2", "S3", "S4", "S5")), "no stage applies"),
        ({"S1": 0.5, "S2": None, "S3": None, "S4": None}, "lacks S5"),
        (
            {"S1": 0.5, "S2": None, "S3": None, "S4": None, "S5": None, "S6": 0.1},
            "has 'S6', which is not in the contract",
        ),
        ([0.5, 0.5, 0.5, 0.5, 0.5], "must be an object with S1, S2, S3, S4, S5"),
        (None, "must be an object with S1"),
    ],
)
def test_stages_are_exactly_the_five(stages: Any, words: str) -> None:
    said = problems(spoilt(0, stages=stages, agentic=None, failures=None))
    assert any(part.startswith("cells[0].stages: ") and words in part for part in said)


def test_an_agentic_score_that_the_stages_do_not_give_is_refused() -> None:
    right = reply()["cells"][0]["agentic"]
    assert measured(spoilt(0, agentic=right + 0.9e-8))
    assert measured(spoilt(0, agentic=None))
    assert problems(spoilt(0, agentic=right + 1e-7))[0].startswith("cells[0].agentic: is 0.")
    # An unscored stage counted as 0 over all weights, as some harnesses do.
    assert problems(spoilt(0, agentic=right * 0.85))


@pytest.mark.parametrize("value", ["brain", "Vqa", "", None, 3, ["vqa"], "classification"])
def test_a_track_that_nobody_asked_for_is_refused(value: Any) -> None:
    said = problems(spoilt(0, track=value))
    assert said[0].startswith("cells[0].track: ")
    assert "was not asked for: segmentation, vqa were" in said[0]
    assert said[-1] == "cells: segmentation lacks repeat 0"


@pytest.mark.parametrize("value", [True, 1.0, "0", -1, 2, 10**40, None])
def test_a_repeat_is_a_whole_number_below_the_count(value: Any) -> None:
    said = problems(spoilt(0, repeat=value))
    assert said[0].startswith("cells[0].repeat: must be a whole number from 0 to 1, got ")
    assert said[-1] == "cells: segmentation lacks repeat 0"


def test_a_missing_repeat_and_a_cell_twice_are_refused() -> None:
    assert problems(reply(cell("vqa", 0), cell("vqa", 1))) == ("cells: segmentation lacks repeats 0, 1",)
    made = reply()
    made["cells"].append(cell("vqa", 1, task_id="another"))
    assert problems(made) == ("cells: vqa repeat 1 stands there 2 times (cells[3], cells[4])",)


def test_a_cell_twice_is_one_also_where_one_of_the_two_is_invalid_or_wrong() -> None:
    for changes in ({"valid": False}, {"task_score": 2}):
        made = reply()
        made["cells"].append(cell("vqa", 1, **changes))
        assert "cells: vqa repeat 1 stands there 2 times (cells[3], cells[4])" in problems(made)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schema", 2),
        ("schema", True),
        ("schema", 1.0),
        ("status", "partial"),
        ("request", "1" * 32),
        ("checkpoint", "d" * 64),
        ("checkpoint", None),
        ("protocol", "lite/2"),
    ],
)
def test_a_reply_to_something_else_is_refused(name: str, value: Any) -> None:
    (said,) = problems(reply() | {name: value})
    assert said.startswith(f"{name}: must be ")


@pytest.mark.parametrize("name", list(reply()))
def test_nothing_may_be_left_out(name: str) -> None:
    made = reply()
    del made[name]
    assert f"(reply): lacks {name}" in problems(made)


@pytest.mark.parametrize("name", ["track", "task_id", "repeat", "valid", "task_score", "stages"])
def test_nothing_may_be_left_out_of_a_cell(name: str) -> None:
    made = reply()
    del made["cells"][1][name]
    assert f"cells[1]: lacks {name}" in problems(made)


@pytest.mark.parametrize("value", [None, 3, "x", [], [1, 2]])
def test_something_else_altogether_is_refused(value: Any) -> None:
    assert problems(value)
    assert problems(reply() | {"cells": value})
    assert problems({**reply(), "cells": [value]})


@pytest.mark.parametrize("value", [1, 0, "true", None])
def test_valid_is_true_or_false(value: Any) -> None:
    assert any(part.startswith("cells[0].valid: ") for part in problems(spoilt(0, valid=value)))


@pytest.mark.parametrize("value", ["", "a\nb", "x" * 201, "\ud800", 7, None])
def test_a_task_has_a_printable_name(value: Any) -> None:
    assert problems(spoilt(0, task_id=value))[0].startswith("cells[0].task_id: ")


def test_a_task_that_was_called_otherwise_before_could_not_be_paired() -> None:
    asked = Asked(**{**vars(ASKED), "tasks": {(Track.VQA, 1): "older-task"}})
    assert problems(reply(), asked) == (
        "cells[3].task_id: is 'vqa-task', but was 'older-task' in this campaign before: the cells could not be paired",
    )


@pytest.mark.parametrize("value", ["\udfff", "x" * 1001, 3])
def test_a_detail_is_short_text(value: Any) -> None:
    assert problems(spoilt(0, detail=value))[0].startswith("cells[0].detail: ")


@pytest.mark.parametrize("value", [True, -1, 1.5, "3", 10**9])
def test_turns_are_a_count(value: Any) -> None:
    assert problems(spoilt(0, turns=value))[0].startswith("cells[0].turns: ")
    assert measured(spoilt(0, turns=24))[0].turns == 24
    assert measured(reply())[0].turns is None


def test_every_problem_is_said_not_only_the_first() -> None:
    made = reply(cell("segmentation", 0, task_score=2), cell("brain", 0), cell("vqa", 7))
    made["status"] = "running"
    said = problems(made)
    assert [part.partition(":")[0] for part in said] == [
        "status",
        "cells[0].task_score",
        "cells[1].track",
        "cells[2].repeat",
        "cells",
        "cells",
    ]


def test_a_million_problems_are_counted_and_not_all_shown() -> None:
    made = reply()
    made["cells"] += [None] * (MAX_SHOWN + 50)
    with pytest.raises(ReplyRefused) as refused:
        read_reply(made, ASKED)
    assert len(refused.value.problems) == MAX_SHOWN + 50
    assert str(refused.value).endswith("and 50 more")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"complete", "not JSON"),
        (b'{"cells": [', "not JSON"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": 1, "a": 2}', "'a' stands twice"),
        (b"1" * 10_000, "not JSON"),
    ],
)
def test_bytes_that_are_no_json_are_refused(content: bytes, words: str) -> None:
    with pytest.raises(ReplyRefused, match=words):
        parse_reply(content)


def test_nan_and_infinity_are_found_where_they_stand() -> None:
    text = json.dumps(spoilt(1, task_score=math.nan, agentic=math.inf))
    assert "NaN" in text
    assert [part.partition(":")[0] for part in problems(parse_reply(text.encode()))] == [
        "cells[1].task_score",
        "cells[1].agentic",
    ]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.sampled_from(["", "S1", "vqa", "E1", "S3:E4", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["S1", "valid", "cells", "x"]), inner),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path into a JSON value but its root."""
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [found for key, part in items for found in ((*path, key), *places(part, (*path, key)))]


def mutate(value: Any, path: tuple[Any, ...], act: Callable[[Any, Any], None]) -> Any:
    made = copy.deepcopy(value)
    parent = made
    for key in path[:-1]:
        parent = parent[key]
    act(parent, path[-1])
    return made


def plainly(value: Any) -> list[Any]:
    """What a reply says, read by no other rule than its own words; only for one that was accepted."""
    rows = {(row["track"], row["repeat"]): row for row in value["cells"]}
    assert len(rows) == len(value["cells"]) == len(ASKED.matrix)
    said: list[Any] = []
    for track, repeat in ASKED.matrix:
        row = rows[(track.value, repeat)]
        if row["valid"] is False:
            said.append((track, row["task_id"], repeat, row.get("detail") or ""))
            continue
        stages = {name: score for name, score in row["stages"].items() if score is not None}
        reached = stages if row.get("reached") is None else row["reached"]
        failures = {f"{f[:2]}:{FAILURE_CODES[f[3:]]}" for f in row.get("failures") or []}
        said.append((track, row["task_id"], repeat, row["task_score"], stages, set(reached), failures))
    return said


def as_read(found: list[OutsideCell]) -> list[Any]:
    return [
        (part.track, part.task, part.repeat, part.detail)
        if isinstance(part, InvalidCell)
        else (
            part.cell.track,
            part.cell.task,
            part.cell.repeat,
            part.cell.task_score,
            {stage.value: score for stage, score in part.cell.stages.items()},
            {stage.value for stage in part.cell.reached},
            set(part.cell.failures),
        )
        for part in found
    ]


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_a_changed_reply_is_read_as_it_stands_or_refused(data: st.DataObject) -> None:
    original = reply()
    original["cells"][2] |= {"valid": False, "detail": "lost"}
    path = data.draw(st.sampled_from(places(original)))
    other = data.draw(JSON)

    def put(parent: Any, key: Any) -> None:
        parent[key] = other

    def drop(parent: Any, key: Any) -> None:
        del parent[key]

    def double(parent: Any, key: Any) -> None:
        if isinstance(parent, list):
            parent.append(copy.deepcopy(parent[key]))
        else:
            parent[f"{key} "] = parent[key]

    act = data.draw(st.sampled_from([put, drop, double]))
    changed = mutate(original, path, act)
    try:
        found = read_reply(changed, ASKED)
    except ReplyRefused:
        return
    assert as_read(found) == plainly(changed)
    for part in found:
        if isinstance(part, MeasuredCell):
            assert 0.0 <= part.cell.overall <= 1.0
    # What says who was asked for what never changes in a reply that is accepted.
    assert {name: changed[name] for name in changed if name != "cells"} == {
        name: original[name] for name in original if name != "cells"
    }
