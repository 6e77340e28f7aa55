"""How the number of distinct states grows with the number of states."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

_LINES = {  # Okabe and Ito's colours
    "own prompt": ("#0072B2", "-"),
    "own workspace": ("#E69F00", "--"),
    "condition": ("#009E73", "-."),
}


def draw(growth: Sequence[dict[str, int]], path: Path) -> None:
    """Distinct against made, with the line that a bank without a repetition would follow."""
    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.4), dpi=100, constrained_layout=True)
    states = [point["states"] for point in growth]
    axes.plot([0, states[-1]], [0, states[-1]], color="0.7", linewidth=1, label="all distinct")
    axes.axhline(42, color="#D55E00", linewidth=1, linestyle=":", label="reference: 42 distinct prompts")
    for name, (colour, style) in _LINES.items():
        axes.plot([0, *states], [0, *(point[name] for point in growth)], color=colour, linestyle=style, label=name)
    axes.set_xlabel("states synthesised")
    axes.set_ylabel("distinct")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path)
    plt.close(figure)
