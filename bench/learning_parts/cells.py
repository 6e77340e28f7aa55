"""A measured cell, and a set of cells that can be kept in a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bat_events.domain.vocabulary import Focus, Outcome, Stage, Track

OVERALL, TASK, AGENTIC, REWARD = "Overall", "Task", "Agentic", "reward"
STAGES = tuple(stage.value for stage in Stage)


@dataclass(frozen=True, kw_only=True, order=True)
class CellName:
    """What two checkpoints are paired by. It names no instance: seeds stay out of every file."""

    track: Track
    focus: Focus
    outcome: Outcome
    number: int


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One episode. `values` are in [0, 1]: Overall, Task, Agentic and S1 to S5 of a whole task, the reward of practice."""

    name: CellName
    values: Mapping[str, float]
    valid: int
    turns: int
    end: str


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A cell that the infrastructure kept from being measured: missing, not zero."""

    name: CellName
    reason: str


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All cells of one checkpoint under one measure."""

    checkpoint: str
    cells: Mapping[CellName, Cell] = field(default_factory=dict)
    lost: Mapping[CellName, Lost] = field(default_factory=dict)

    @property
    def valid_share(self) -> float | None:
        """Valid actions of all turns; None without a turn."""
        turns = sum(cell.turns for cell in self.cells.values())
        return sum(cell.valid for cell in self.cells.values()) / turns if turns else None

    def as_json(self) -> dict[str, Any]:
        """Plain data, cell by cell."""
        return {
            "checkpoint": self.checkpoint,
            "cells": [
                {
                    **_name_json(cell.name),
                    "values": dict(cell.values),
                    "valid": cell.valid,
                    "turns": cell.turns,
                    "end": cell.end,
                }
                for cell in self.cells.values()
            ],
            "lost": [{**_name_json(lost.name), "reason": lost.reason} for lost in self.lost.values()],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Measured":
        """The inverse of `as_json`."""
        cells = [
            Cell(name=_name(row), values=dict(row["values"]), valid=row["valid"], turns=row["turns"], end=row["end"])
            for row in data["cells"]
        ]
        lost = [Lost(name=_name(row), reason=row["reason"]) for row in data["lost"]]
        return Measured(
            checkpoint=data["checkpoint"], cells={c.name: c for c in cells}, lost={one.name: one for one in lost}
        )


def _name_json(name: CellName) -> dict[str, Any]:
    return {
        "track": name.track.value,
        "focus": name.focus.value,
        "outcome": name.outcome.value,
        "number": name.number,
    }


def _name(row: Mapping[str, Any]) -> CellName:
    return CellName(
        track=Track(row["track"]), focus=Focus(row["focus"]), outcome=Outcome(row["outcome"]), number=row["number"]
    )
