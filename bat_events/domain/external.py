"""What an outside harness is asked for and what its reply comes to; external_reply.py reads one. See docs/external.md."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bat_events.domain.evaluation import Cell
from bat_events.domain.vocabulary import FailureCode, Track

REPLY_SCHEMA = REQUEST_SCHEMA = 1
PLACEHOLDERS = ("{checkpoint}", "{request}", "{output}")  # elements of the command, in the order of its arguments
MAX_SHOWN = 200  # problems in an error's text

Place = tuple[Track, int]
"""Track and repeat: what a request asks for, once each."""

# AutoMedBench's codes as this project's closed ones. HAL001 is an unsupported answer, not a made-up resource: E3.
FAILURE_CODES: Mapping[str, FailureCode] = {
    **{code.value: code for code in FailureCode},
    "E8": FailureCode.E3,  # VQA: the artefacts of S3 were never written
    **dict.fromkeys(("RES001", "RES002", "PRV001"), FailureCode.E2),
    **dict.fromkeys(("FMT001", "FMT002"), FailureCode.E5),
    **dict.fromkeys(
        ("HAL001", "LOG001", "LOG002", "VIS001", "LOC001", "CMP001", "SCT001", "AUX001", "PLC001"), FailureCode.E3
    ),
}


class ReplyRefused(ValueError):
    """A reply that is not what was asked for. `problems` holds all of them, each beginning with its place."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        shown = problems[:MAX_SHOWN]
        more = len(problems) - len(shown)
        lines = [f"the harness's reply is refused: {len(problems)} problem{'s' if len(problems) > 1 else ''}"]
        super().__init__("\n- ".join([*lines, *shown, *([f"and {more} more"] if more else [])]))


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the harness was asked for. `tasks` holds the task names that earlier evaluations of the campaign gave."""

    request: str
    checkpoint: str
    protocol: str
    tracks: tuple[Track, ...]
    repeats: int
    tasks: Mapping[Place, str] = field(default_factory=dict)

    @property
    def matrix(self) -> list[Place]:
        """Every place, in order."""
        return [(track, repeat) for track in self.tracks for repeat in range(self.repeats)]


@dataclass(frozen=True, kw_only=True)
class InvalidCell:
    """A cell that the harness could not measure: it has no scores, whatever stood in the reply."""

    track: Track
    task: str
    repeat: int
    detail: str


@dataclass(frozen=True, kw_only=True)
class MeasuredCell:
    """A cell with its scores. `turns` is None where the harness did not say."""

    cell: Cell
    turns: int | None


OutsideCell = MeasuredCell | InvalidCell


def parse_reply(content: bytes) -> Any:
    """The JSON value of a reply file. Raises ReplyRefused where it is no JSON or a key stands twice in an object."""
    doubled: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                doubled.append(f"(reply): the key {shown(key)} stands twice in one object")
            found[key] = value
        return found

    try:
        value = json.loads(content.decode("utf-8"), object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        raise ReplyRefused([f"(reply): not UTF-8: {error}"]) from None
    except RecursionError:
        raise ReplyRefused(["(reply): nested too deeply"]) from None
    except ValueError as error:
        raise ReplyRefused([f"(reply): not JSON: {error}"]) from None
    if doubled:
        raise ReplyRefused(doubled)
    return value


def shown(value: Any) -> str:
    """A value as people can read it, in one short line of printable characters."""
    if isinstance(value, dict | list) and value:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
