"""A request and a good reply to it, as plain data that a test may spoil."""

from typing import Any

from bat_events.domain.external import Asked
from bat_events.domain.stages import agentic_score
from bat_events.domain.vocabulary import Stage, Track

ASKED = Asked(
    request="0" * 32,
    checkpoint="c" * 64,
    protocol="lite/1",
    tracks=(Track.SEGMENTATION, Track.VQA),
    repeats=2,
)


def cell(track: str, repeat: int, score: float = 0.5, **changes: Any) -> dict[str, Any]:
    """A valid cell; S2 does not apply."""
    scores = {"S1": score, "S2": None, "S3": 0.25, "S4": 0.0, "S5": 1.0}
    given = {Stage(name): value for name, value in scores.items() if value is not None}
    return {
        "track": track,
        "task_id": f"{track}-task",
        "repeat": repeat,
        "valid": True,
        "task_score": score,
        "stages": scores,
        "agentic": agentic_score(given, tuple(given)),
        "failures": ["S3:E4"],
        **changes,
    }


def reply(*cells: dict[str, Any]) -> dict[str, Any]:
    """A whole reply; the four cells of ASKED where none are given."""
    rows = list(cells) or [cell(track.value, repeat) for track, repeat in ASKED.matrix]
    return {
        "schema": 1,
        "status": "complete",
        "request": ASKED.request,
        "checkpoint": ASKED.checkpoint,
        "protocol": ASKED.protocol,
        "cells": rows,
    }
