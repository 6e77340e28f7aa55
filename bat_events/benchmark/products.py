"""Reads what a rollout left in its workspace. Every reader is total: what is not in the published format is None."""

import csv
import io
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bat_events.benchmark.card import METHODS, Choice
from bat_events.benchmark.formats import (
    FAILED_COLUMNS,
    MAX_BYTES,
    PILOT_FIELDS,
    PLAN_FIELDS,
    RUN_FIELDS,
    SETUP_FIELDS,
    SUBMISSION_COLUMNS,
)
from bat_events.benchmark.skills.medskills.image import LEVELS, SIZE
from bat_events.domain.vocabulary import Stage

Array = NDArray[np.float64]
Files = Mapping[str, bytes]
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
# numpy's own header parser raises a dozen kinds of errors on hostile headers; what numpy writes is matched instead
_NPY_HEADER = re.compile(
    r"\{'descr': '(?P<dtype>[<>|](?:b1|[iu][1248]|f[248]))', 'fortran_order': (?P<fortran>True|False), "
    rf"'shape': \({SIZE}, {SIZE}\), \}} *\n"
)
_LIMIT = 1e6  # larger numbers are no image values


def array(content: bytes | None) -> Array | None:
    """A finite 32 x 32 array of numbers from a version 1 .npy file as numpy writes it, as float64."""
    if content is None or len(content) > MAX_BYTES:
        return None
    length = int.from_bytes(content[8:10], "little")
    head = _NPY_HEADER.fullmatch(content[10 : 10 + length].decode("latin-1"))
    if content[:8] != _NPY_MAGIC or head is None:
        return None
    dtype = np.dtype(head["dtype"])
    body = content[10 + length :]
    if len(body) != SIZE * SIZE * dtype.itemsize:
        return None
    order: Literal["F", "C"] = "F" if head["fortran"] == "True" else "C"
    values = np.frombuffer(body, dtype=dtype).astype(np.float64).reshape((SIZE, SIZE), order=order)
    return values if bool((np.abs(values) <= _LIMIT).all()) else None  # False for NaN, too


def record(content: bytes | None) -> dict[str, Any] | None:
    """A JSON object."""
    if content is None or len(content) > MAX_BYTES:
        return None
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def table(content: bytes | None, columns: tuple[str, ...]) -> list[dict[str, str]] | None:
    """The rows of a CSV file with exactly these columns."""
    if content is None or len(content) > MAX_BYTES:
        return None
    try:
        rows = list(csv.reader(io.StringIO(content.decode(), newline=""), strict=True))
    except (ValueError, csv.Error):
        return None
    if not rows or tuple(rows[0]) != columns or any(len(row) != len(columns) for row in rows[1:]):
        return None
    return [dict(zip(columns, row, strict=True)) for row in rows[1:]]


def number(value: object) -> float | None:
    """A finite number; not a bool."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    return parsed if math.isfinite(parsed) else None


def choice(fields: Mapping[str, Any], stage: Stage) -> Choice | None:
    """The published choice in a record's method and level."""
    method, level = fields.get("method"), fields.get("level")
    if not isinstance(method, str) or method not in METHODS[stage]:
        return None
    return Choice(method, level) if type(level) is int and level in LEVELS else None


def cases(fields: Mapping[str, Any]) -> list[str] | None:
    """A record's list of cases."""
    listed = fields.get("cases")
    return listed if isinstance(listed, list) and all(isinstance(case, str) for case in listed) else None


@dataclass(frozen=True, kw_only=True)
class Record:
    """A stage's record in the published format."""

    choice: Choice
    fields: Mapping[str, Any]


def stage_record(files: Files, stage: Stage) -> Record | None:
    """The record of S1 to S4 with exactly its published fields and a published choice."""
    path, names = {
        Stage.S1: ("plan/plan.json", PLAN_FIELDS),
        Stage.S2: ("setup/setup.json", SETUP_FIELDS),
        Stage.S3: ("validation/pilot.json", PILOT_FIELDS),
        Stage.S4: ("outputs/run.json", RUN_FIELDS),
    }[stage]
    fields = record(files.get(path))
    if fields is None or set(fields) != names:
        return None
    made = choice(fields, stage)
    if made is None or (stage is not Stage.S3 and cases(fields) is None):
        return None
    return Record(choice=made, fields=fields)


def outputs(files: Files) -> dict[str, Array | None]:
    """Every .npy file under outputs/, by case name; None where it is not a valid array."""
    return {
        path.removeprefix("outputs/").removesuffix(".npy"): array(content)
        for path, content in files.items()
        if path.startswith("outputs/") and path.endswith(".npy")
    }


def answer(content: bytes | None, field: str) -> object:
    """The one field of a JSON object that has no other; None where there is none such."""
    fields = record(content)
    return fields[field] if fields is not None and set(fields) == {field} else None


def submission(files: Files) -> list[dict[str, str]] | None:
    return table(files.get("submission.csv"), SUBMISSION_COLUMNS)


def declared(files: Files) -> list[str]:
    """The cases declared as failed; [""] stands for a file that cannot be read."""
    if "failed.csv" not in files:
        return []
    rows = table(files["failed.csv"], FAILED_COLUMNS)
    return [""] if rows is None else [row["case"] for row in rows]


def worklist(files: Files) -> list[str] | None:
    rows = table(files.get("worklist.csv"), ("case",))
    return None if rows is None else [row["case"] for row in rows]
