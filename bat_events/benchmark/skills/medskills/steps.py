"""The steps of a request's work: each reads what earlier steps left, writes its own file and prints one line."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import answers, image, store

DEFAULT_MERGE = ("mean", 2)
ROUGHNESS_LIMIT = 0.15
RANGE_SHARE = 0.97


def _level(level: int) -> int:
    if level not in image.LEVELS:
        raise store.stop("level is 1, 2 or 3")
    return int(level)


def request() -> Any:
    """input/request.json: track, card, cases."""
    return store.read_json("input/request.json")


def raw(case: str) -> NDArray[np.uint8]:
    """The stored values (9, 32, 32) of a case; raises ValueError where its file is unreadable."""
    array = store.read_array(f"input/cases/{case}.npy")
    if array.shape != (image.FRAMES, image.SIZE, image.SIZE) or array.dtype != np.uint8:
        raise ValueError(f"unreadable input/cases/{case}.npy")
    return array


def _open(case: str) -> NDArray[np.uint8]:
    try:
        return raw(case)
    except ValueError:
        raise store.stop("a case is unreadable") from None


def failed() -> list[str]:
    """Cases declared as failed."""
    return [row.get("case", "") for row in store.read_rows("failed.csv")] if store.exists("failed.csv") else []


def worklist() -> list[str]:
    """Cases to work on, in order."""
    return [row.get("case", "") for row in store.read_rows("worklist.csv")]


def scan() -> None:
    """Write worklist.csv anew from the request, less what is declared as failed."""
    gone = failed()
    cases = [case for case in request()["cases"] if case not in gone]
    store.write_rows("worklist.csv", ["case"], [[case] for case in cases])
    store.say("worklist renewed")


def drop() -> None:
    """Declare unreadable cases in failed.csv and take them off worklist, plan and setup."""
    bad = []
    for case in request()["cases"]:
        try:
            raw(case)
        except ValueError:
            bad.append(case)
    if not bad:
        raise store.stop("every case is readable")
    store.write_rows("failed.csv", ["case", "reason"], [[case, "unreadable"] for case in bad])
    store.write_rows("worklist.csv", ["case"], [[case] for case in worklist() if case not in bad])
    for path in ("plan/plan.json", "setup/setup.json"):
        if store.exists(path):
            record = store.read_json(path)
            record["cases"] = [case for case in record["cases"] if case not in bad]
            store.write_json(path, record)
    store.say("failure declared")


def plan(method: str, level: int) -> None:
    """S1: write plan/plan.json."""
    store.write_json("plan/plan.json", {"method": method, "level": _level(level), "cases": worklist()})
    store.say("planned")


def setup(method: str, level: int) -> None:
    """S2: look at every planned case and write setup/setup.json."""
    cases = store.read_json("plan/plan.json")["cases"]
    ranges = {case: [int(f(_open(case))) for f in (np.min, np.max)] for case in cases}
    store.write_json("setup/setup.json", {"method": method, "level": _level(level), "cases": cases, "ranges": ranges})
    store.say("set up")


def restore(case: str, merge: str, level: int) -> NDArray[np.float64]:
    """One case decoded, merged and cleaned as setup, `merge` and plan say, in the scanner's frame."""
    how, first = store.read_json("plan/plan.json"), store.read_json("setup/setup.json")
    values = image.decode(_open(case), first["method"], first["level"])
    return image.clean(image.merge(values, merge, level), how["method"], how["level"])


def verdict(restored: NDArray[np.generic]) -> str:
    """ "ok" where the image is smooth and within the range of tissue, else "poor"."""
    values = np.asarray(restored, dtype=np.float64)
    inside = float(((values > -0.1) & (values < 1.1)).mean())
    spread = float(values.std())
    return "ok" if inside >= RANGE_SHARE and image.roughness(values) <= ROUGHNESS_LIMIT and spread > 0.02 else "poor"


def pilot(method: str, level: int) -> None:
    """S3: work the first planned case before the batch; write validation/pilot.npy and pilot.json."""
    case = store.read_json("plan/plan.json")["cases"][0]
    restored = restore(case, method, _level(level)).astype(np.float16)
    store.write_array("validation/pilot.npy", restored)
    said = verdict(restored)
    store.write_json(
        "validation/pilot.json",
        {
            "case": case,
            "method": method,
            "level": level,
            "mean": round(float(restored.astype(np.float64).mean()), 4),
            "roughness": image.roughness(restored.astype(np.float64)),
            "verdict": said,
        },
    )
    store.say(f"pilot {said}")


def run(method: str, level: int) -> None:
    """S4: work every planned case as planned, set up and piloted; write outputs (CASE.npy, CASE.json) and run.json."""
    asked = request()
    track, questions = asked["track"], asked.get("questions", {})
    cases = store.read_json("plan/plan.json")["cases"]
    merge = DEFAULT_MERGE
    if store.exists("validation/pilot.json"):
        piloted = store.read_json("validation/pilot.json")
        merge = (piloted["method"], piloted["level"])
    for case in cases:
        posed = image.pose(restore(case, *merge), method, _level(level))
        made = image.finish(posed, track)
        store.write_array(f"outputs/{case}.npy", made)
        said = answers.answer(posed, made, track, questions.get(case))
        if said is not None:
            store.write_json(f"outputs/{case}.json", said)
    store.write_json("outputs/run.json", {"method": method, "level": level, "cases": cases})
    store.say("outputs written")


def submit(method: str, level: int) -> None:
    """S5: write submission.csv, one row per case of the request."""
    unit = image.UNITS[_level(level) - 1]
    store.read("outputs/run.json")
    gone = failed()
    rows: list[list[object]] = []
    for case in request()["cases"]:
        if case in gone:
            rows.append([case, "failed", method, unit, ""])
            continue
        if not store.exists(f"outputs/{case}.npy"):
            raise store.stop("a case has no output")
        rows.append([case, "done", method, unit, image.measure(store.read_array(f"outputs/{case}.npy"), method, unit)])
    store.write_rows("submission.csv", ["case", "status", "measure", "unit", "value"], rows)
    store.say("submitted")
