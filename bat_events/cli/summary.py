"""A campaign's result as a table for people and as JSON for programs: both from the same rows."""

from typing import Any

from rich.table import Table

from bat_events.deciders.campaign import CampaignView, RoundView
from bat_events.events.promotion import CheckpointPromoted

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
    }


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


def as_json(view: CampaignView, **more: Any) -> dict[str, Any]:
    """The summary that `--json` writes."""
    finished = view.finished
    return {
        "campaign": view.campaign,
        "state": view.state,
        "best_checkpoint": None if finished is None else finished.best_checkpoint,
        "rounds": rows(view),
        "events": dict(sorted(view.counts.items())),
        **more,
    }
