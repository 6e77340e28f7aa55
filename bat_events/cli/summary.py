"""A campaign's result as a table for people and as JSON for programs: both from the same rows."""

from typing import Any

from rich.table import Table

from bat_events.deciders.campaign import CampaignView, RoundView
from bat_events.deciders.dead_letters import BEHIND
from bat_events.events.boundary import EvaluationReported
from bat_events.events.promotion import CheckpointPromoted

_FAILURES_SHOWN = 4
COLUMNS = ("round", "target_stage", "decision", "why", "Task", "Agentic", "Overall", "best-so-far")


def rows(view: CampaignView) -> list[dict[str, Any]]:
    """One row per round; a value that is not there yet is None, never 0."""
    return [_row(view.rounds[number]) for number in sorted(view.rounds)]


def _row(view: RoundView) -> dict[str, Any]:
    decision, report = view.decision, view.report
    verdict = None
    if decision is not None:
        verdict = "promoted" if isinstance(decision, CheckpointPromoted) else "held"
    return {
        "round": view.number,
        "target_stage": None if view.target is None else view.target.value,
        "decision": verdict,
        "why": None if decision is None else "; ".join(decision.reasons),
        "Task": None if report is None else report.task,
        "Agentic": None if report is None else report.agentic,
        "Overall": None if report is None else report.overall,
        "best-so-far": None if decision is None else decision.best_overall,
        "steps": len(view.steps),
        "rollouts": view.rollouts,
        "rollouts_failed": view.failed,
        "rewards_withheld": view.withheld,
        "checkpoint": None if view.produced is None else view.produced.checkpoint,
        "failures": _failures(report),
    }


def _failures(report: EvaluationReported | None) -> list[dict[str, Any]] | None:
    """None where there is no report yet, or one of a time when failures were not recorded."""
    if report is None or report.failures is None:
        return None
    return [part.model_dump(mode="json") for part in report.failures]


def table(view: CampaignView) -> Table:
    """The table that `demo` and `campaign status` end with."""
    out = Table(title=f"campaign {view.campaign}: {view.doing()}", title_justify="left")
    for name in COLUMNS:
        numeric = name in ("Task", "Agentic", "Overall", "best-so-far")
        out.add_column(
            name,
            justify="right" if numeric else "left",
            overflow="fold",
            no_wrap=name != "why",
            min_width=24 if name == "why" else None,
        )
    for row in rows(view):
        shown = [row[name] for name in COLUMNS]
        out.add_row(*("-" if v is None else f"{v:.4f}" if isinstance(v, float) else str(v) for v in shown))
    return out


def failure_line(view: CampaignView) -> str | None:
    """One line: the most frequent failures of the best checkpoint so far; None where none is known of it."""
    decisions = [view.rounds[number].decision for number in sorted(view.rounds)]
    best = next((decision.best_so_far for decision in reversed(decisions) if decision is not None), None)
    reports = [view.rounds[number].report for number in sorted(view.rounds)]
    report = next((report for report in reports if report is not None and report.checkpoint == best), None)
    if report is None or report.failures is None:
        return None
    where = f"best so far, round {report.round}"
    if not report.failures:
        return f"{where}: no failure in {report.cells} cells"
    most = sorted(report.failures, key=lambda part: -part.cells)[:_FAILURES_SHOWN]  # ties in order of stage and code
    shown = ", ".join(f"{part.stage}:{part.code} {part.code.meaning} {part.cells / report.cells:.0%}" for part in most)
    return f"{where}: most frequent failures, in % of {report.cells} cells: {shown}"


def dead_letter_lines(view: CampaignView) -> list[str]:
    """Why a campaign is halted, what else is parked, and what to do; empty where nothing is."""
    halting = [letter for letter in view.halted() if letter.event.cause != BEHIND]
    lines = [
        f"halted: {letter.event.service} cannot take {letter.place} further ({letter.event.cause}: {letter.event.error})"
        for letter in halting
    ]
    if halting:
        place = halting[0].place
        lines.append(
            f"  look: bat-events dlq show '{place}'; when it is mended: bat-events dlq redrive '{place}'; "
            f"or give it up: bat-events dlq discard '{place}'"
        )
    others = len(view.letters.open()) - len(view.halted())
    if others:
        lines.append(f"{others} dead letters that do not halt the campaign: bat-events dlq list")
    return lines


def as_json(view: CampaignView, **more: Any) -> dict[str, Any]:
    """The summary that `--json` writes."""
    finished = view.finished
    return {
        "campaign": view.campaign,
        "state": view.state,
        "best_checkpoint": None if finished is None else finished.best_checkpoint,
        "rounds": rows(view),
        "events": dict(sorted(view.counts.items())),
        "halted_by": [letter.place for letter in view.halted() if letter.event.cause != BEHIND],
        "dead_letters": len(view.letters.open()),
        **more,
    }
