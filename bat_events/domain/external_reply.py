"""The reply of an outside harness, read strictly: the cells that were asked for, or every reason why not.

Nothing is coerced and nothing is filled in. A cell that the harness calls invalid is a failure without scores; a stage
that is null does not apply; what is missing is refused. The whole matrix (each asked track times each repeat, once) is
required before anything is made of it. docs/external.md is the contract in words.
"""

import math
from collections.abc import Mapping
from typing import Any

from bat_events.domain.evaluation import Cell
from bat_events.domain.external import (
    FAILURE_CODES,
    REPLY_SCHEMA,
    Asked,
    InvalidCell,
    MeasuredCell,
    OutsideCell,
    Place,
    ReplyRefused,
    shown,
)
from bat_events.domain.stages import agentic_score
from bat_events.domain.vocabulary import Stage, Track

AGENTIC_TOLERANCE = 1e-8  # facts section 4
MAX_NAME, MAX_DETAIL, MAX_TURNS = 200, 1000, 1_000_000

_TOP = {"schema", "status", "request", "checkpoint", "protocol", "cells"}
_CELL = {"track", "task_id", "repeat", "valid", "task_score", "stages"}
_SCORES = {"task_score", "stages"}
_OPTIONAL = {"agentic", "failures", "reached", "turns", "detail"}

_Scores = tuple[float, dict[Stage, float], frozenset[Stage], tuple[str, ...], int | None]
"""Task score, stages that apply, those of them that were reached, failures, turns."""


def read_reply(value: Any, asked: Asked) -> list[OutsideCell]:
    """The cells of a reply, in the order of the matrix. Raises ReplyRefused with every problem."""
    return _Reading(asked).cells(value)


class _Reading:
    """One pass over a reply that collects its problems. A reader of a part returns None where the part is wrong."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._problems: list[str] = []

    def cells(self, value: Any) -> list[OutsideCell]:
        if not isinstance(value, dict):
            raise ReplyRefused([f"(reply): must be an object, got {shown(value)}"])
        self._keys("(reply)", value, _TOP, set())
        for name, wanted in (
            ("schema", REPLY_SCHEMA),
            ("status", "complete"),
            ("request", self._asked.request),
            ("checkpoint", self._asked.checkpoint),
            ("protocol", self._asked.protocol),
        ):
            if name in value and (type(value[name]) is not type(wanted) or value[name] != wanted):
                self._say(name, f"must be {wanted!r}, got {shown(value[name])}")
        rows = value.get("cells")
        if not isinstance(rows, list):
            if "cells" in value:
                self._say("cells", f"must be a list, got {shown(rows)}")
            raise ReplyRefused(self._problems)
        places: dict[Place, list[int]] = {}
        found: dict[Place, OutsideCell] = {}
        for number, row in enumerate(rows):
            at = f"cells[{number}]"
            place, cell = self._cell(at, row)
            if place is not None:
                places.setdefault(place, []).append(number)
                if cell is not None:
                    found[place] = cell
        self._matrix(places)
        if self._problems:
            raise ReplyRefused(self._problems)
        return [found[place] for place in self._asked.matrix]

    def _matrix(self, places: Mapping[Place, list[int]]) -> None:
        for (track, repeat), numbers in places.items():
            if len(numbers) > 1:
                where = ", ".join(f"cells[{number}]" for number in numbers)
                self._say("cells", f"{track} repeat {repeat} stands there {len(numbers)} times ({where})")
        for track in self._asked.tracks:
            missing = [str(n) for n in range(self._asked.repeats) if (track, n) not in places]
            if missing:
                self._say("cells", f"{track} lacks repeat{'s' if len(missing) > 1 else ''} {', '.join(missing)}")

    def _cell(self, at: str, row: Any) -> tuple[Place | None, OutsideCell | None]:
        """Where a row belongs, if that can be told, and the cell, if nothing is wrong with it."""
        if not isinstance(row, dict):
            self._say(at, f"must be an object, got {shown(row)}")
            return None, None
        before = len(self._problems)
        valid = row.get("valid")
        self._keys(at, row, _CELL - _SCORES if valid is False else _CELL, _OPTIONAL | _SCORES)
        if "valid" in row and not isinstance(valid, bool):
            self._say(f"{at}.valid", f"must be true or false, got {shown(valid)}")
        track = self._track(f"{at}.track", row["track"]) if "track" in row else None
        repeat = self._repeat(f"{at}.repeat", row["repeat"]) if "repeat" in row else None
        place = None if track is None or repeat is None else (track, repeat)
        task = self._task(f"{at}.task_id", row["task_id"], place) if "task_id" in row else None
        detail = self._detail(f"{at}.detail", row.get("detail"))
        scored = None if valid is False else self._scores(at, row)
        if len(self._problems) > before or place is None or task is None:
            return place, None
        if scored is None:
            return place, InvalidCell(track=place[0], task=task, repeat=place[1], detail=detail)
        task_score, stages, reached, failures, turns = scored
        cell = Cell(
            track=place[0],
            task=task,
            repeat=place[1],
            task_score=task_score,
            stages=stages,
            reached=reached,
            applicable=frozenset(stages),
            failures=failures,
        )
        return place, MeasuredCell(cell=cell, turns=turns)

    def _track(self, at: str, value: Any) -> Track | None:
        asked = {track.value: track for track in self._asked.tracks}
        if not isinstance(value, str) or value not in asked:
            self._say(at, f"{shown(value)} was not asked for: {', '.join(asked)} were")
            return None
        return asked[value]

    def _repeat(self, at: str, value: Any) -> int | None:
        if type(value) is not int or not 0 <= value < self._asked.repeats:
            self._say(at, f"must be a whole number from 0 to {self._asked.repeats - 1}, got {shown(value)}")
            return None
        return value

    def _task(self, at: str, value: Any, place: Place | None) -> str | None:
        if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME or not value.isprintable():
            self._say(at, f"must be 1 to {MAX_NAME} printable characters, got {shown(value)}")
            return None
        known = None if place is None else self._asked.tasks.get(place)
        if known is not None and known != value:
            self._say(at, f"is {value!r}, but was {known!r} in this campaign before: the cells could not be paired")
            return None
        return value

    def _scores(self, at: str, row: Mapping[str, Any]) -> _Scores:
        """The scores of a valid cell; of no meaning where a problem was said."""
        task = self._unit(f"{at}.task_score", row["task_score"]) if "task_score" in row else None
        stages = self._stages(f"{at}.stages", row["stages"]) if "stages" in row else {}
        if row.get("agentic") is not None:
            self._agentic(f"{at}.agentic", row["agentic"], stages)
        return (
            0.0 if task is None else task,
            stages,
            self._reached(f"{at}.reached", row.get("reached"), stages),
            self._failures(f"{at}.failures", row.get("failures"), stages),
            self._turns(f"{at}.turns", row.get("turns")),
        )

    def _stages(self, at: str, value: Any) -> dict[Stage, float]:
        if not isinstance(value, dict):
            self._say(at, f"must be an object with {', '.join(Stage)}, got {shown(value)}")
            return {}
        self._keys(at, value, {stage.value for stage in Stage}, set())
        given = [stage for stage in Stage if value.get(stage.value) is not None]
        if not given:
            self._say(at, "no stage applies: a cell without a stage score is not valid, say so")
        scores = {stage: self._unit(f"{at}.{stage}", value[stage.value]) for stage in given}
        return {stage: score for stage, score in scores.items() if score is not None}

    def _agentic(self, at: str, value: Any, stages: Mapping[Stage, float]) -> None:
        given = self._unit(at, value)
        made = agentic_score(stages, tuple(stages))
        if given is not None and made is not None and abs(given - made) > AGENTIC_TOLERANCE:
            self._say(at, f"is {given!r}, but the stages and their weights give {made!r}")

    def _reached(self, at: str, value: Any, stages: Mapping[Stage, float]) -> frozenset[Stage]:
        if value is None:
            return frozenset(stages)
        names = {stage.value: stage for stage in stages}
        if not isinstance(value, list) or any(not isinstance(part, str) or part not in names for part in value):
            self._say(at, f"must be a list of stages that apply ({', '.join(names) or 'none'}), got {shown(value)}")
            return frozenset(stages)
        reached = frozenset(names[part] for part in value)
        for stage, score in stages.items():
            if stage not in reached and score != 0.0:
                self._say(at, f"lacks {stage}, which scored {score!r}: a stage that was not reached scores 0")
        return reached

    def _failures(self, at: str, value: Any, stages: Mapping[Stage, float]) -> tuple[str, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            self._say(at, f"must be a list of STAGE:CODE, got {shown(value)}")
            return ()
        found: dict[str, None] = {}
        for number, text in enumerate(value):
            stage, _, code = text.partition(":") if isinstance(text, str) else ("", "", "")
            if stage not in {known.value for known in stages} or code not in FAILURE_CODES:
                self._say(
                    f"{at}[{number}]",
                    f"{shown(text)} is not STAGE:CODE with a stage that applies ({', '.join(stages) or 'none'}) and a "
                    f"code of {', '.join(FAILURE_CODES)}",
                )
                continue
            found[f"{stage}:{FAILURE_CODES[code]}"] = None
        return tuple(found)

    def _turns(self, at: str, value: Any) -> int | None:
        if value is None:
            return None
        if type(value) is not int or not 0 <= value <= MAX_TURNS:
            self._say(at, f"must be a whole number from 0 to {MAX_TURNS}, got {shown(value)}")
            return None
        return value

    def _detail(self, at: str, value: Any) -> str:
        if value is None:
            return ""
        surrogate = isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value)
        if not isinstance(value, str) or len(value) > MAX_DETAIL or surrogate:
            self._say(at, f"must be text of at most {MAX_DETAIL} characters, got {shown(value)}")
            return ""
        return value

    def _unit(self, at: str, value: Any) -> float | None:
        if value is None:
            self._say(at, "is null: a cell that lacks it is not valid, say so")
            return None
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or (isinstance(value, float) and not math.isfinite(value)) or not 0 <= value <= 1:
            self._say(at, f"must be a number from 0 to 1, got {shown(value)}")
            return None
        return float(value)

    def _keys(self, at: str, value: Mapping[str, Any], required: set[str], optional: set[str]) -> None:
        for name in sorted(required - set(value)):
            self._say(at, f"lacks {name}")
        for name in sorted(set(value) - required - optional):
            self._say(at, f"has {shown(name)}, which is not in the contract")

    def _say(self, at: str, text: str) -> None:
        self._problems.append(f"{at}: {text}")
