"""What makes a track: how a case gets its truth, what an output looks like, how it is measured. All else is shared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bat_events.domain.vocabulary import Track

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a rollout handed in for one case: the array of CASE.npy, and the parsed answer of CASE.json if the track has one."""

    array: Array
    answer: Any = None


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The truth of one case, in the display frame. `question` is published with the request (VQA only)."""

    array: Array
    answer: Any = None
    question: str | None = None


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is recorded for one case, and its truth."""

    image: Array
    reference: Reference


Pairs = Sequence[tuple[Output | None, Reference]]


@dataclass(frozen=True, kw_only=True)
class TrackRules:
    """One track's own part; the stages, the protocol and the skills are the same for all tracks."""

    track: Track
    goal: str  # what the policy is asked for, one line
    output: tuple[str, ...]  # published format of a case's outputs, a line for each file
    metric_name: str
    # (clean crop, place of the detail value, random source) -> what is recorded and its truth
    subject: Callable[[Array, int, np.random.Generator], Subject]
    # whether a 32 x 32 finite array has the published values
    permitted: Callable[[Array], bool]
    # (outputs, None where missing or invalid, beside their references; one pair at least) -> score in [0, 1]
    metric: Callable[[Pairs], float]
    # the answer in the content of CASE.json, None where it is not as published; no function: the array alone is the output
    parse: Callable[[object], Any] | None = None
