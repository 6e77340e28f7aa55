"""Keeps what was measured, so that a stopped bench goes on: a file per checkpoint and measure, named by what made it."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from bat_events.benchmark.interface import TaskKey
from bat_events.domain.canonical import digest
from bat_events.events.plan import CampaignPlan

from .cells import Measured
from .measure import BATCH, Measure


def recipe(checkpoint: str, measure: Measure, keys: Sequence[TaskKey], plan: CampaignPlan, version: int) -> str:
    """A digest of everything that a measurement depends on, but for the code itself."""
    return digest(
        [
            checkpoint,
            measure.name,
            measure.temperature,
            plan.benchmark,
            version,
            plan.seed,
            plan.limits.model_dump(mode="json"),
            BATCH,
            [[key.track, key.focus, key.outcome, key.seed, key.split] for key in keys],
        ]
    )


def kept(folder: Path, name: str, make: Callable[[], Measured]) -> Measured:
    """What the folder has under this name, else what `make` gives, kept."""
    path = folder / f"{name}.json"
    if path.exists():
        return Measured.from_json(json.loads(path.read_text()))
    found = make()
    folder.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(found.as_json()))
    os.replace(temporary, path)
    return found
