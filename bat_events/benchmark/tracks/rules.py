"""What makes a track: how a case gets its truth, what an output looks like, how it is measured. All else is shared."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bat_events.domain.vocabulary import Track

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class TrackRules:
    """One track's own part; the stages, the protocol and the skills are the same for all tracks."""

    track: Track
    goal: str  # what the policy is asked for, one line
    output: str  # published format of outputs/CASE.npy, one line
    metric_name: str
    # (clean crop, place of the detail value, random source) -> (image that is recorded, reference output)
    subject: Callable[[Array, int, np.random.Generator], tuple[Array, Array]]
    # whether a 32 x 32 finite array has the published values
    permitted: Callable[[Array], bool]
    # (output, reference) -> score in [0, 1]
    metric: Callable[[Array, Array], float]
