"""Bars of what was measured."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from .contestants import BAT, RAW, Contestant
from .results import Results

_OURS, _LIMIT, _PEER = "#c2410c", "#9ca3af", "#3b82a0"


def _colour(contestant: Contestant) -> str:
    if contestant.name.startswith(BAT):
        return _OURS
    return _LIMIT if contestant.name.startswith("raw") else _PEER


def _bars(axes: Axes, rows: list[tuple[Contestant, float]], title: str, form: str, *, log: bool = False) -> None:
    rows = sorted(rows, key=lambda row: row[1])
    labels = [f"{c.name}\n{c.guarantee}" for c, _ in rows]
    bars = axes.barh(labels, [value for _, value in rows], color=[_colour(c) for c, _ in rows])
    axes.bar_label(bars, [form.format(value) for _, value in rows], padding=3, fontsize=7)
    axes.set_title(title, fontsize=9)
    axes.tick_params(labelsize=7)
    if log:
        axes.set_xscale("log")
    axes.margins(x=0.18)
    axes.spines[["top", "right"]].set_visible(False)


def draw(results: Results, path: Path, title: str) -> None:
    """The whole path, reactions, and latency, as far as they were measured."""
    panels: list[tuple[str, list[tuple[Contestant, float]], str, bool]] = []
    for task, name in (("path", "produce + consume + decode, events/s"), ("react", "reactions/s")):
        rates = [(c, rate) for c in results.seen() if (rate := results.rate(c, task)) is not None]
        panels.append((name, rates, "{:,.0f}", False))
    late = [(c, found.p99) for c in results.seen() if (found := results.latency(c)) is not None]
    panels.append(("event to reaction, p99 in ms (log scale)", late, "{:,.1f}", True))
    panels = [panel for panel in panels if panel[1]]
    figure, axes = plt.subplots(1, len(panels), figsize=(4.6 * len(panels), 4.4), squeeze=False)
    for place, (name, rows, form, log) in zip(axes[0], panels, strict=True):
        _bars(place, rows, name, form, log=log)
    figure.suptitle(f"{title}; grey: {RAW}", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)
