"""The campaigns of the chaos tests: the whole loop, small, with scripted policy and trainer."""

from typing import Any

SHORT: dict[str, Any] = {
    "benchmark": "mini",
    "tracks": ["segmentation"],
    "rounds": 1,
    "steps_per_round": 2,
    "group_size": 2,
    "seed": 1,
    "engine": "scripted",
    "trainer": "scripted",
    "pools": {"s_target": 1, "s_mix": 1, "e2e": 1},
    "cold_start": {"demonstrations": 12},
    "evaluation": {"repeats": 4, "temperature": 0.7},
    "health": {"max_zero_variance": 1.0},
}

LONG: dict[str, Any] = {
    **SHORT,
    "tracks": ["segmentation", "enhancement"],
    "rounds": 3,
    "steps_per_round": 3,
    "pools": {"s_target": 2, "s_mix": 1, "e2e": 1},
}
