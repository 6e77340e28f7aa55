"""A soak's end for people: a table, and the timeline as a picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

COLOURS = {
    "kill": "#1f77b4",
    "several at once": "#17becf",
    "all at once": "#9467bd",
    "in start-up": "#8c564b",
    "in a transaction": "#e377c2",
    "freeze": "#2ca02c",
    "go on": "#98df8a",
    "broker killed": "#d62728",
    "broker stopped": "#ff7f0e",
    "broker is back": "#ffbb78",
    "disk full": "#7f7f7f",
    "space again": "#c7c7c7",
}


def table(data: dict[str, Any]) -> str:
    """Kills by service and strikes by kind, and what the comparison found."""
    lines = ["", f"{'service':18}{'kills':>6}", "-" * 24]
    lines += [f"{name:18}{count:6d}" for name, count in data["kills_by_service"].items()]
    lines += [f"{'all':18}{data['kills']:6d}", "", f"{'what was done':18}{'times':>6}", "-" * 24]
    lines += [f"{name:18}{count:6d}" for name, count in data["strikes"].items()]
    zombies = data["zombies"]
    lines += [
        "",
        f"events: {data['events']} committed, {data['expected_events']} in the undisturbed run",
        f"zombies that ended, or lived on as one of two: {zombies['ended']}, {zombies['lived_on']}",
        f"processes that ended by themselves (exit code: times): {data['own_ends'] or 'none'}",
        f"digest, undisturbed: {data['expected_digest']}",
        f"digest, stormy:      {data['digest']}",
        f"seconds: {data['calm_s']:.0f} undisturbed, {data['storm_s']:.0f} stormy",
        *(f"FAULT: {line}" for line in data["faults"]),
        "nothing lost, nothing twice" if not data["faults"] else f"{len(data['faults'])} faults",
    ]
    return "\n".join(lines)


def plot(data: dict[str, Any], path: Path) -> None:
    """Progress over time with every strike marked, and kills by service below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (above, middle, below) = pyplot.subplots(
        3, 1, figsize=(13, 10), gridspec_kw={"height_ratios": (4, 2.6, 1.8)}, constrained_layout=True
    )
    points: Sequence[Sequence[float]] = data["progress"]
    seconds = [point[0] for point in points]
    above.plot(seconds, [point[1] for point in points], color="black", lw=1.8, label="events committed")
    above.axhline(data["expected_events"], color="grey", ls=":", lw=1)
    above.annotate(
        "undisturbed run", (seconds[-1] * 0.02, data["expected_events"] * 1.01), va="bottom", fontsize=8, color="grey"
    )
    above.margins(y=0.1)
    above.set_ylabel("events committed")
    steps = above.twinx()
    steps.step(seconds, [point[2] for point in points], where="post", color="tab:olive", lw=1.4)
    steps.set_ylabel("steps trained (olive)")
    for end in data["rounds_s"]:
        above.axvline(end, color="tab:olive", ls="--", lw=0.8)
    kinds = [kind for kind in COLOURS if any(strike["what"] == kind for strike in data["timeline"])]
    for row, kind in enumerate(reversed(kinds)):
        at = [strike["at_s"] for strike in data["timeline"] if strike["what"] == kind]
        middle.plot(at, [row] * len(at), "|", color=COLOURS[kind], ms=13, mew=2)
    middle.set_yticks(range(len(kinds)), list(reversed(kinds)), fontsize=8)
    middle.set_ylim(-0.7, len(kinds) - 0.3)
    middle.set_xlabel("seconds since the services were started; dashed above: a round ended")
    for axis in (above, middle):
        axis.set_xlim(0, max(seconds[-1], data["timeline"][-1]["at_s"]) * 1.01)
    names = list(data["kills_by_service"])
    bars = below.bar(names, [data["kills_by_service"][name] for name in names], color="tab:blue")
    below.bar_label(bars, fontsize=8)
    below.margins(y=0.2)
    below.tick_params(axis="x", rotation=30, labelsize=8)
    below.set_ylabel("kill -9")
    figure.suptitle(
        f"{data['kills']} kills, seed {data['seed']}: "
        + ("nothing lost, nothing twice" if not data["faults"] else f"{len(data['faults'])} faults")
    )
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
