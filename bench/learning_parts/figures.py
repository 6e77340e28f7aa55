"""The pictures: the campaigns' curves, and what the confirmation split and the probe say. Okabe and Ito's colours."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from .campaign import Step
from .compare import over_seeds
from .report import SeedResult, main_changes, shared_measures

BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
SEED_COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
SEED_MARKS = "osD^vP"
POOLS = {
    "s_target": (BLUE, "-", "target stage"),
    "s_mix": (ORANGE, "--", "mix of stages"),
    "e2e": (GREEN, "-.", "end to end"),
}
_STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "savefig.dpi": 120,
    "figure.constrained_layout.use": True,
}
_BELOW: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 5}  # never over the data


def draw_curves(results: Sequence[SeedResult], path: Path) -> None:
    """Overall by round and mean reward by step. Neither is evidence, and the picture says so."""
    figure, (rounds, steps) = _figure(1, 2, (13, 5.4))
    for place, result in enumerate(results):
        colour, mark = _seed(place)
        told = [row for row in result.campaign.rounds if row["Overall"] is not None]
        x = np.array([row["round"] for row in told], dtype=float) + (place - (len(results) - 1) / 2) * 0.06
        rounds.step(
            x, [row["best-so-far"] for row in told], where="post", color=colour, alpha=0.6, linewidth=1.5, zorder=1
        )
        for row, at in zip(told, x, strict=True):
            taken = row["decision"] == "promoted"
            rounds.plot(
                at, row["Overall"], mark, color=colour, markerfacecolor=colour if taken else "white", markersize=8
            )
        rounds.plot([], [], mark + "-", color=colour, label=f"seed {result.seed}")
    rounds.plot([], [], "o", color="black", label="promoted")
    rounds.plot([], [], "o", color="black", markerfacecolor="white", label="held")
    rounds.set(
        xlabel="round (0 is the cold start)",
        ylabel="Overall on the gate's held-out cells (0 to 1)",
        title="Candidates; the line is best-so-far, which cannot fall",
    )
    rounds.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    rounds.legend(fontsize=10, **_BELOW)
    _reward_panel(steps, [result.campaign.steps for result in results])
    figure.savefig(path)


def _reward_panel(axes: Any, campaigns: Sequence[Sequence[Step]]) -> None:
    order = sorted({(step.round, step.step) for steps in campaigns for step in steps})
    place = {key: at for at, key in enumerate(order)}
    for pool, (colour, line, label) in POOLS.items():
        lines = [
            {place[step.round, step.step]: step.pools[pool] for step in steps if pool in step.pools}
            for steps in campaigns
        ]
        for found in lines:
            axes.plot(list(found), list(found.values()), line, color=colour, alpha=0.25, linewidth=1)
        shared = [at for at in range(len(order)) if any(at in found for found in lines)]
        means = [float(np.mean([found[at] for found in lines if at in found])) for at in shared]
        if shared:
            axes.plot(shared, means, line, color=colour, linewidth=2.2, label=label)
    for at, (_, step) in enumerate(order):
        if step == 0 and at:
            axes.axvline(at - 0.5, color="grey", linewidth=1, linestyle=":")
    axes.set(
        xlabel="GRPO step, all rounds in a row (dotted: a new round)",
        ylabel="mean practice reward (0 to 1)",
        title="Practice rewards: not evidence, what is practised changes",
    )
    axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    if order:
        title = "pool (thick: mean of seeds)" if len(campaigns) > 1 else "pool"
        axes.legend(fontsize=10, title=title, **_BELOW)


def draw_effects(results: Sequence[SeedResult], path: Path) -> None:
    """Means before and after, and the paired differences with their 95 % intervals."""
    measures = shared_measures(results)
    figure, (means, effects) = _figure(1, 2, (13, 1.9 + 1.05 * len(measures)))
    rows_each = len(results) + (1 if len(results) > 1 else 0)
    for number, measure in enumerate(measures):
        changes = main_changes(results, measure)
        pooled = over_seeds(changes)
        top = -number
        for shift, value, colour, label in (
            (0.19, pooled.before, "#BBBBBB", "cold start"),
            (-0.19, pooled.after, BLUE, "promoted"),
        ):
            means.barh(top + shift, value, height=0.36, color=colour, label=label if number == 0 else None)
            means.annotate(
                f"{value:.3f}",
                (value, top + shift),
                xytext=(8, 0),
                textcoords="offset points",
                va="center",
                fontsize=10,
            )
        drawn = [
            (change.difference, _seed(at), f"seed {result.seed}")
            for at, (result, change) in enumerate(zip(results, changes, strict=True))
        ]
        if len(results) > 1:
            drawn.append((pooled.difference, ("black", "_"), "mean of seeds (t over seeds)"))
        for line, (interval, (colour, mark), label) in enumerate(drawn):
            y = top + 0.3 - 0.6 * (line / max(rows_each - 1, 1) if rows_each > 1 else 0.5)
            mark = "|" if colour == "black" else mark
            if interval.lower is not None and interval.upper is not None:
                effects.plot(
                    [interval.lower, interval.upper], [y, y], color=colour, linewidth=3.0 if mark == "|" else 1.8
                )
            effects.plot(
                interval.mean,
                y,
                mark,
                color=colour,
                markersize=12 if mark == "|" else 7,
                label=label if number == 0 else None,
            )
    names = [measure.name.replace(", ", "\n") + f"\n({measure.main})" for measure in measures]
    for axes in (means, effects):
        axes.set_yticks([-n for n in range(len(measures))])
        axes.set_ylim(-len(measures) + 0.45, 0.55)
        axes.grid(axis="y", visible=False)
    means.set_yticklabels(names)
    effects.set_yticklabels([])
    means.set(
        xlabel="mean of track means (0 to 1)",
        title="Before and after"
        + (f", mean of {len(results)} seeds" if len(results) > 1 else f", seed {results[0].seed}"),
    )
    means.margins(x=0.14)
    effects.axvline(0, color="black", linewidth=1)
    effects.set(xlabel="promoted minus cold start, paired, 95 % intervals", title="Difference")
    for axes in (means, effects):
        axes.legend(fontsize=10, **_BELOW)
    figure.savefig(path)


def _seed(place: int) -> tuple[str, str]:
    return SEED_COLOURS[place % len(SEED_COLOURS)], SEED_MARKS[place % len(SEED_MARKS)]


def _figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(_STYLE)
    return plt.subplots(rows, columns, figsize=size)
