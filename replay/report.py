"""A replay's result as text for people and as JSON for programs. Equal results give equal bytes."""

import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bat_events.domain.canonical import canonical_json
from bat_events.replay.differences import Difference, Json
from bat_events.replay.result import NotRecomputed, ReplayResult
from bat_events.replay.verify import Verification

JSON_VERSION = 2
_SHOWN = 10  # further differences listed by one line each
_WIDTH = 120


def to_json(result: ReplayResult) -> str:
    """The whole result as canonical JSON with a line end; `replay_format` counts the versions of its shape."""
    data: dict[str, Any] = asdict(result)
    data["replay_format"] = JSON_VERSION
    data["exit_code"] = result.exit_code
    return canonical_json(json.loads(json.dumps(data))).decode() + "\n"


def render(result: ReplayResult) -> str:
    """The result as a page of plain text: what was compared, the first difference side by side, what was not."""
    buffer = io.StringIO()
    console = Console(file=buffer, width=_WIDTH, force_terminal=False, color_system=None, highlight=False)
    console.print(_title(result))
    console.print(_compared(result))
    if result.origin is not None:
        console.print(f"its copies, as the log of campaign {escape(result.origin.campaign)}: {_verdict(result.origin)}")
        console.print(_compared(result.origin))
    if result.first is not None:
        console.print(_side_by_side(result.first))
        for difference in result.differences[1 : _SHOWN + 1]:
            console.print(escape(_line(difference)))
        rest = len(result.differences) - 1 - _SHOWN
        if rest > 0:
            console.print(f"and {rest} more; --json lists them all")
    for logic, count in result.unknown_logic.items():
        console.print(f"no decider {logic} here: its {count} decisions were not replayed; install a newer bat-events")
    for signer, count in result.signers.items():
        console.print(f"receipts of {count:,} rollouts are signed by {signer}")
    if result.pending:
        console.print(f"{len(result.pending)} decisions are due that their deciders had not come to:")
        for pending in result.pending[:_SHOWN]:
            console.print(f"  {pending.type} {pending.id} by {pending.logic}")
    if result.taken:
        console.print(_listed("recorded, and recomputed by no replay", result.taken))
    if result.not_recomputed:
        console.print(_listed("NOT recomputed, and could be", result.not_recomputed))
    if result.seals is not None:
        _print_seals(console, result.seals)
    console.print(escape(_verdict(result)))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _title(result: ReplayResult) -> str:
    part = "" if result.round is None else f", round {result.round}"
    ended = result.outcome or "not finished"
    versions = f"recorded by bat-events {result.package_recorded}, replayed by {result.package_here}"
    twice = f", {result.duplicates} duplicates left out" if result.duplicates else ""
    return escape(
        f"campaign {result.campaign}{part} ({ended}), {result.source}: {result.events:,} events{twice}; {versions}"
    )


def _compared(result: ReplayResult) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("recomputed")
    table.add_column("events", justify="right")
    table.add_column("the same", justify="right")
    for part in result.deciders:
        table.add_row(f"decisions of {part.logic}", f"{part.decisions:,}", f"{part.reproduced:,}")
    for check in result.checks:
        table.add_row(check.name, f"{check.checked:,}", f"{check.holds:,}")
    return table


def _side_by_side(first: Difference) -> Table:
    table = Table(title="first difference", title_justify="left", show_lines=False, expand=False)
    table.add_column("")
    table.add_column(f"recorded ({first.logic})", overflow="fold")
    table.add_column(f"recomputed ({first.replayed_by})", overflow="fold")
    table.add_row("event", f"{first.type} {first.id}", "")
    table.add_row("where", first.at or "not on the log", "")
    table.add_row("what", first.kind.value, escape(first.message))
    table.add_row(escape(first.field or "body"), escape(_text(first.recorded)), escape(_text(first.recomputed)))
    return table


def _listed(title: str, parts: Sequence[NotRecomputed]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(title)
    table.add_column("events", justify="right")
    table.add_column("because")
    for part in parts:
        table.add_row(part.what, f"{part.count:,}", escape(part.why))
    return table


def _print_seals(console: Console, seals: Verification) -> None:
    for plane in seals.planes:
        outside = "held against heads kept outside" if plane.heads_checked else "not held against heads kept outside"
        console.print(
            escape(
                f"{plane.plane}: {plane.seals} seals over {plane.sealed:,} records, {plane.unsealed:,} unsealed; {outside}"
            )
        )
    for finding in seals.findings[:_SHOWN]:
        console.print(escape(f"seal broken: {finding.line()}"))
    if len(seals.findings) > _SHOWN:
        console.print(f"and {len(seals.findings) - _SHOWN} more; `bat-events log verify` lists them all")


def _line(difference: Difference) -> str:
    where = difference.at or "not on the log"
    return f"{difference.kind.value}: {difference.type} {difference.id} ({where}): {difference.message}"


def _text(value: Json) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _verdict(result: ReplayResult) -> str:
    if not result.as_sealed:
        return f"NOT as it was sealed: {_reproduction(result)}"
    return _reproduction(result)


def _reproduction(result: ReplayResult) -> str:
    if result.differences:
        return f"{len(result.differences)} differences: this log is not what its rules and facts give"
    if result.unknown_logic:
        return "not replayed in full: a decider version is missing here"
    found = f"all {result.decisions:,} decisions reproduced"
    if not result.not_recomputed:
        return f"{found}, and every score recomputed"
    if result.log_only:
        return f"{found}; only the log was asked (--log-only): no score was recomputed from evidence or held-out cells"
    return f"{found}, but not every score recomputed: see above (exit 3)"
