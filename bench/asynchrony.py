"""One round in the reference's synchronous order against this system: wall time, idle trainer, staleness, in simulated time.

Run: python bench/asynchrony.py [--steps N] [--quick] [--kafka] [--figures FOLDER] [--json FILE]. The deciders and service
machines are the real ones; durations are stated in asynchrony_parts/durations.py and the same for both orders. --kafka also
runs a small round on a local broker with slept durations and holds it against the simulated clock. Two processes.
"""

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

from asynchrony_parts.comparing import Compared, Condition, compare
from asynchrony_parts.timed import Shape
from rich.console import Console
from rich.table import Table

BASE = Condition(name="base")
TAILS, LAGS = (0.0, 0.4, 0.8, 1.2), (0, 1, 2, 3)
AIM = 2.5


def conditions(steps: int, *, quick: bool) -> list[Condition]:
    """What is swept: tail and lag together, then one thing at a time."""
    base = replace(BASE, steps=steps)
    tails, lags = ((0.0, 0.8), (0, 1)) if quick else (TAILS, LAGS)
    found = [
        replace(base, name="tail and lag", lag=lag, durations=replace(base.durations, tail=tail))
        for lag in lags
        for tail in tails
    ]
    if quick:
        return found
    found += [replace(base, name="samplers", shape=replace(base.shape, samplers=n)) for n in (8, 16, 64)]
    by_key = replace(
        base, name="what if: groups and rollouts placed by the hash of their key", shape=Shape(hashed=True)
    )
    found += [replace(by_key, lag=lag) for lag in (1, 2)]
    worded = replace(base, durations=replace(base.durations, synthesis=20.0), shape=Shape(synthesizers=8))
    found += [
        replace(worded, name="second round, states worded by a model; sync: one by one", rounds=2),
        replace(worded, name="states worded by a model; sync: eight at once", made_inline_by=8),
        replace(base, name="a step takes 93 s", durations=replace(base.durations, step=93.0)),
        replace(base, name="a step takes 300 s", durations=replace(base.durations, step=300.0)),
        replace(
            base,
            name="we train on 2 GPUs, sync on all 8",
            durations=replace(base.durations, step=93.0),
            their_step=30.0,
        ),
        replace(base, name="judged by evidence alone", durations=replace(base.durations, judge=0.0104, judge_tail=0.0)),
    ]
    return found


def table_of(rows: list[Compared]) -> Table:
    """One line for each condition."""
    table = Table(title=f"one round of {rows[0].condition.steps} steps: synchronous order and this system")
    names = (
        "condition",
        "tail",
        "lag",
        "samplers",
        "sync s",
        "ours s",
        "ratio",
        "bound",
        "trainer idle",
        "samplers busy",
        "waits for states s",
        "lag seen",
    )
    for name in names:
        table.add_column(name, justify="left" if name == "condition" else "right")
    for row in rows:
        c = row.condition
        table.add_row(
            c.name,
            f"{c.durations.tail:g}",
            str(c.lag),
            str(c.shape.samplers),
            f"{row.sync_s:,.0f}",
            f"{row.ours_s:,.0f}",
            f"{row.ratio:.2f}",
            f"{row.bound:.2f}",
            f"{row.sync_trainer_idle:.2f} to {row.trainer_idle:.2f}",
            f"{row.sync_samplers_busy:.2f} to {row.samplers_busy:.2f}",
            f"{row.sync_waited_s:,.0f} to {row.waited_s:,.0f}",
            str(row.lag_seen),
            style="bold" if row.ratio >= AIM else None,
        )
    return table


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--quick", action="store_true", help="four conditions only")
    parser.add_argument("--kafka", action="store_true", help="also a small round on a real broker")
    parser.add_argument("--figures", type=Path, help="draw into this folder")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 190)
    rows = []
    with ProcessPoolExecutor(max_workers=2) as pool:
        for row in pool.map(compare, conditions(options.steps, quick=options.quick)):
            rows.append(row)
            said = (
                f"{row.condition.name}: tail {row.condition.durations.tail:g}, lag {row.condition.lag}: {row.ratio:.2f}"
            )
            console.print(said, soft_wrap=True)
    console.print(table_of(rows))
    reached = [row for row in rows if row.ratio >= AIM]
    said = "; ".join(
        f"{row.condition.name}, tail {row.condition.durations.tail:g}, lag {row.condition.lag}" for row in reached
    )
    console.print(f"ratio >= {AIM} under: {said or 'none of these conditions'}", soft_wrap=True)
    if options.json:
        options.json.write_text(json.dumps([{**asdict(row), "ratio": row.ratio} for row in rows], indent=1))
    if options.figures:
        from asynchrony_parts.figure import draw_ratios, draw_timeline

        draw_ratios(rows, options.figures / "asynchrony-ratio.png")
        draw_timeline(replace(BASE, steps=8, rounds=2), options.figures / "asynchrony-timeline.png")
    if options.kafka:
        from asynchrony_parts.on_kafka import confirm

        console.print(confirm())


if __name__ == "__main__":
    main()
