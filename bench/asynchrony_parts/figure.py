"""The figures of bench/asynchrony.py."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from .comparing import Compared, Condition, rounds_of
from .spans import Round

_COLOURS = {"sample": "#3b82a0", "judge": "#e0a030", "train": "#c2410c", "evaluate": "#6b7280", "synthesis": "#65a30d"}
_LAGS = ("#9ca3af", "#c2410c", "#3b82a0", "#65a30d")


def draw_ratios(rows: Sequence[Compared], path: Path) -> None:
    """Ratio against tail, a line for each lag."""
    swept = [row for row in rows if row.condition.name == "tail and lag"]
    figure, axes = plt.subplots(figsize=(6.4, 4.0))
    for lag in sorted({row.condition.lag for row in swept}):
        line = sorted((r.condition.durations.tail, r.ratio, r.bound) for r in swept if r.condition.lag == lag)
        colour = _LAGS[lag % len(_LAGS)]
        axes.plot([p[0] for p in line], [p[1] for p in line], marker="o", color=colour, label=f"lag {lag}")
        axes.plot([p[0] for p in line], [p[2] for p in line], linestyle=":", linewidth=1, color=colour)
    for row in rows:
        if row.condition.shape.hashed:
            at = (row.condition.durations.tail, row.ratio)
            axes.plot(*at, marker="*", markersize=11, color=_LAGS[row.condition.lag % len(_LAGS)])
            axes.annotate(f"lag {row.condition.lag}, placed by key", at, (6, 5), textcoords="offset points", fontsize=7)
    axes.axhline(2.5, color="black", linewidth=0.8, linestyle="--")
    axes.annotate("aim 2.5", (1.1, 2.53), fontsize=8)
    axes.set_xlabel("tail: deviation of log(rollout seconds)")
    axes.set_ylabel("synchronous order / this system, wall time")
    axes.set_title("one round of 50 steps, 32 samplers; dotted: the most that a lag allows", fontsize=9)
    axes.set_ylim(bottom=0.5)
    axes.legend(fontsize=8, loc="upper left", ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)


def draw_timeline(condition: Condition, path: Path) -> None:
    """Both orders of a short round, one above the other on one axis of time."""
    sync, ours = rounds_of(condition)
    figure, axes = plt.subplots(2, 1, figsize=(10.0, 7.4), sharex=True)
    _lanes(axes[0], sync, f"synchronous order: {sync.wall:,.0f} s, trainer idle {sync.trainer_idle:.0%}")
    _lanes(axes[1], ours, f"this system, lag {condition.lag}: {ours.wall:,.0f} s, trainer idle {ours.trainer_idle:.0%}")
    axes[1].set_xlabel(f"seconds from the prescription; {condition.steps} steps, numbers are steps")
    patches = [Patch(color=colour, label=kind) for kind, colour in _COLOURS.items()]
    figure.legend(handles=patches, fontsize=7, ncols=len(patches), loc="lower center")
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.savefig(path, dpi=80)
    plt.close(figure)


def _lanes(axes: Axes, done: Round, title: str) -> None:
    lanes = sorted({span.lane for span in done.spans if span.kind in _COLOURS}, key=_place)
    height = {lane: -number for number, lane in enumerate(lanes)}
    for span in done.spans:
        if span.kind in _COLOURS:
            begin = max(span.begin, done.begin) - done.begin
            axes.barh(
                height[span.lane], span.end - done.begin - begin, left=begin, color=_COLOURS[span.kind], height=0.85
            )
            if span.kind == "train":
                up = 0.6 if (span.step or 0) % 2 == 0 else 1.5  # neighbours often follow at once
                axes.annotate(str(span.step), (begin + span.seconds / 2, up), fontsize=7, ha="center")
    axes.set_ylim(top=2.8)
    ticks = [lane for lane in lanes if " " not in lane or lane.endswith(" 0")]
    axes.set_yticks([height[lane] for lane in ticks], [lane.removesuffix(" 0") for lane in ticks], fontsize=7)
    axes.set_title(title, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def _place(lane: str) -> tuple[int, int]:
    name, _, number = lane.partition(" ")
    order = ("trainer", "evaluator", "judge", "sampler", "synthesis")
    return order.index(name), int(number or 0)
