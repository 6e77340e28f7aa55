"""What reference policies reach on the mini benchmark: expert, constant, random, one attribute hidden, blind answers."""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from bat_events.benchmark import bounds
from bat_events.benchmark.card import ATTRIBUTES
from bat_events.benchmark.tracks import TRACKS
from bat_events.domain.vocabulary import Stage


def main() -> None:
    """Print one row per track; all scores in [0, 1]."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=12, help="instances a figure is the mean of")
    count = parser.parse_args().count
    names = (
        "expert",
        "constant",
        "random choice",
        "random call",
        *(f"no {name}" for name in ATTRIBUTES),
        "majority",
        "blind",
    )
    table = Table(
        title=f"Overall on held-out E2E instances (constant: S1 to S5 rewards; majority, blind: task), n {count}"
    )
    for name in ("track", *names):
        table.add_column(name, justify="left" if name == "track" else "right")
    console = Console(width=160)
    for track in TRACKS:
        constants = [bounds.best_constant(track, stage, count)[1] for stage in Stage]
        scores = [
            bounds.mean_overall(bounds.expert, track, count),
            float(np.max(constants)),
            bounds.mean_overall(bounds.random_choices, track, count),
            bounds.mean_overall(bounds.random_calls, track, count),
            *(bounds.hidden(name, track, count) for name in ATTRIBUTES),
            *bounds.blind_task_scores(track, count),
        ]
        table.add_row(track.value, *(f"{score:.2f}" for score in scores))
        console.print(f"{track}: done", style="dim")
    console.print(table)


if __name__ == "__main__":
    main()
