"""The answer to a what-if as text for people and as JSON for programs."""

import io
import json
from dataclasses import asdict

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bat_events.domain.canonical import canonical_json
from bat_events.replay.what_if import WhatIf, WhatIfRound

FORMAT = 1


def what_if_json(answer: WhatIf) -> str:
    """Canonical JSON with a line end."""
    data = {**asdict(answer), "what_if_format": FORMAT}
    return canonical_json(json.loads(json.dumps(data))).decode() + "\n"


def what_if_table(answer: WhatIf) -> str:
    """A line a round, what was decided beside what would have been, and where the record ends."""
    buffer = io.StringIO()
    console = Console(file=buffer, width=150, force_terminal=False, color_system=None, highlight=False)
    asked = ", ".join(f"{name} {answer.recorded_settings[name]} -> {value}" for name, value in answer.settings.items())
    console.print(escape(f"campaign {answer.campaign}, {answer.source}: what if {asked}"))
    table = Table(box=None, pad_edge=False)
    for name in ("round", "Overall", "decided", "would", "next target", "would", "", "why it would"):
        table.add_column(name, overflow="fold")
    for row in answer.rounds:
        table.add_row(*_row(row))
    console.print(table)
    if answer.told_until is None:
        console.print(f"the record tells all of it: {answer.why}")
    else:
        console.print(
            escape(f"after round {answer.told_until} the record no longer tells what would have followed: {answer.why}")
        )
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _row(row: WhatIfRound) -> tuple[str, ...]:
    untold = row.would_decide is None
    return (
        str(row.round),
        f"{row.overall:.4f}",
        row.decision,
        "?" if untold else str(row.would_decide),
        row.target or "-",
        "?" if untold else row.would_target or "-",
        "differs" if row.differs else "",
        "" if row.would_reasons is None else escape("; ".join(row.would_reasons)),
    )
