"""The learning curve in a terminal: held-out Overall by round as bars, mean practice reward by step as columns.

Blocks of characters and words only, so that it reads the same without colour. It is drawn here and not by a plotting
package: bars with their numbers say more in 80 columns than a scatter of four points, and the core stays small.
"""

import math
from collections.abc import Iterable, Sequence

from rich.text import Text

from bat_events.deciders.campaign import CampaignView, RoundView
from bat_events.events.promotion import CheckpointPromoted

HEIGHT = 6  # rows of the reward columns
_EIGHTHS = " ▏▎▍▌▋▊▉"
_LOWER = " ▁▂▃▄▅▆▇"
_STYLES = {"baseline": "blue", "promoted": "green", "held": "yellow"}


def learning_curve(view: CampaignView, *, width: int = 80, plain: bool = False) -> Text:
    """The curve in at most `width` columns (40 at least); empty while nothing was evaluated.

    `plain` draws with ASCII only, for an output that has no block characters.
    """
    width = max(width, 40)
    return Text("\n").join([*_overall(view, width, plain), *_rewards(view, width, plain)])


def _overall(view: CampaignView, width: int, plain: bool) -> list[Text]:
    rounds = [view.rounds[number] for number in sorted(view.rounds) if view.rounds[number].report is not None]
    if not rounds:
        return []
    reports = [found.report for found in rounds if found.report is not None]
    top = _ceiling(max(report.overall for report in reports))
    mark = "|" if plain else "│"
    room = width - 32  # what stands before the bar, and the best-so-far mark after it
    lines = [
        Text(f"Overall on {reports[0].cells} held-out cells, bars from 0 to {top:g}; {mark} is best-so-far", "bold")
    ]
    for found, report in zip(rounds, reports, strict=True):
        word = _verdict(found)
        line = Text(f"  round {found.number:<3} {word:9} {report.overall:.4f}  ")
        cells = _bar(report.overall / top * room, room + 1, plain)
        if found.decision is not None:
            cells = _with(cells, round(found.decision.best_overall / top * room), mark)
        lines.append(line.append(cells.rstrip(), _STYLES.get(word, "")))
    return lines


def _rewards(view: CampaignView, width: int, plain: bool) -> list[Text]:
    rounds = [view.rounds[number] for number in sorted(view.rounds) if view.rounds[number].steps]
    if not rounds:
        return []
    values = {found.number: [found.steps[step].reward for step in sorted(found.steps)] for found in rounds}
    per_column = 1
    while _columns(values.values(), per_column) > width - 10:
        per_column += 1
    series = {number: _means(rewards, per_column) for number, rewards in values.items()}
    top = _ceiling(max(max(means) for means in series.values()))
    unit = "one column a step" if per_column == 1 else f"one column for {per_column} steps"
    lines = [
        Text(""),
        Text(f"Mean practice reward by step ({unit})", "bold").append(
            "\n  not evidence of learning: what is practised moves with the target stage", "not bold dim"
        ),
    ]
    for row in range(HEIGHT, 0, -1):
        scale = f"{top * row / HEIGHT:6.2f} " if row in (HEIGHT, HEIGHT // 2) else " " * 7
        line = Text(scale).append("|" if plain else "┤", "dim")
        for means in series.values():
            for value in means:
                line.append(_piece(value / top * HEIGHT - (row - 1), plain), "cyan")
            line.append(" ")
        line.rstrip()
        lines.append(line)
    names = Text("  0.00 ").append("+" if plain else "└", "dim")
    for found in rounds:
        count = len(series[found.number])
        target = "" if found.target is None else found.target.value
        name = f"{found.number}:{target}"
        names.append((name if len(name) <= count else str(found.number)[:count]).ljust(count) + " ")
    names.rstrip()
    return [*lines, names, Text("        round:target stage", "dim")]


def _verdict(found: RoundView) -> str:
    if found.decision is None:
        return "open"
    if isinstance(found.decision, CheckpointPromoted):
        return "baseline" if found.decision.baseline else "promoted"
    return "held"


def _bar(length: float, room: int, plain: bool) -> str:
    """A bar of `length` columns, padded to `room`."""
    whole = int(length)
    if plain:
        return ("#" * round(length)).ljust(room)
    return ("█" * whole + _EIGHTHS[int((length - whole) * 8)].strip()).ljust(room)


def _with(cells: str, at: int, mark: str) -> str:
    at = min(at, len(cells) - 1)
    return cells[:at] + mark + cells[at + 1 :]


def _piece(height: float, plain: bool) -> str:
    """One character of a column of which `height` rows are still to be filled."""
    if height >= 1:
        return "#" if plain else "█"
    if plain:
        return "#" if height >= 0.5 else " "
    return _LOWER[int(max(height, 0.0) * 8)]


def _means(values: Sequence[float], size: int) -> list[float]:
    parts = [values[start : start + size] for start in range(0, len(values), size)]
    return [math.fsum(part) / len(part) for part in parts]


def _columns(series: Iterable[Sequence[float]], size: int) -> int:
    """Columns that all rounds need, with a gap after each."""
    return sum(math.ceil(len(values) / size) + 1 for values in series)


def _ceiling(value: float) -> float:
    """The next tenth, 0.1 at least."""
    return max(math.ceil(value * 10 - 1e-9), 1) / 10
