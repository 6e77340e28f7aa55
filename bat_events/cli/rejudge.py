"""`bat-events rejudge`: recorded rollouts scored again under another rubric, and what changes."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from bat_events.cli.common import errors, settings_of
from bat_events.cli.evidence import fetch_of
from bat_events.cli.replay import open_source

if TYPE_CHECKING:
    from bat_events.benchmark.rejudge import Rejudged
    from bat_events.codec import Fact
    from bat_events.replay import Source

_SHOWN = 20
_TYPES = ("CampaignStarted", "RolloutCompleted", "RewardScored", "RewardWithheld")


def rejudge(
    ctx: typer.Context,
    campaign: Annotated[str | None, typer.Argument(help="a campaign's id; none: the one that the log holds")] = None,
    rubric: Annotated[int | None, typer.Option(help="a version of the rubric; none: the newest")] = None,
    number: Annotated[int | None, typer.Option("--round", help="only this round's rollouts")] = None,
    archive: Annotated[Path | None, typer.Option(help="read an archive that was exported with its evidence")] = None,
    as_data: Annotated[bool, typer.Option("--json", help="as JSON, every changed rollout")] = False,
) -> None:
    """Score recorded rollouts again from their evidence. Old rewards stay: nothing is written to the log.

    Exit 3 where some rollouts' evidence is not there.
    """
    from bat_events.benchmark.registry import benchmark
    from bat_events.benchmark.rejudge import rejudge as again
    from bat_events.benchmark.rejudge import rubric_of

    with errors():
        settings = settings_of(ctx)
        wanted = rubric_of(rubric)
        with open_source(settings, archive) as source:
            facts = _facts(source, campaign, number)
            started = next(facts)
            plan, version = started.event.plan, started.event.benchmark_version  # type: ignore[attr-defined]
            fetch = fetch_of(settings, archive)
            found = again(facts, benchmark(plan.benchmark), fetch, wanted, recorded_version=version)
    print(json.dumps({**asdict(found), "exit_code": found.exit_code}, indent=2) if as_data else _page(found))
    raise typer.Exit(found.exit_code)


def _facts(source: "Source", campaign: str | None, number: int | None) -> "Iterator[Fact]":
    """The campaign's start, then its rollouts and rewards."""
    from bat_events.events.campaign import CampaignStarted
    from bat_events.replay.facts import facts_of

    found = facts_of(source, campaign, _TYPES, ("campaign", "rollout", "reward"))
    yield next(fact for fact in found if isinstance(fact.event, CampaignStarted))
    yield from (f for f in found if number is None or f.envelope.round == number)


def _page(found: "Rejudged") -> str:
    import io

    buffer = io.StringIO()
    console = Console(file=buffer, width=140, force_terminal=False, color_system=None, highlight=False)
    recorded = ", ".join(map(str, found.recorded_rubrics)) or "none"
    console.print(f"{found.rollouts:,} rollouts scored again under rubric {found.rubric}; recorded under {recorded}")
    if found.benchmark_recorded != found.benchmark_here:
        console.print(
            f"recorded with version {found.benchmark_recorded} of the benchmark, graded with {found.benchmark_here}: "
            "a change may be the grader's"
        )
    table = Table(box=None, pad_edge=False)
    for head in ("pool", "rollouts", "changed", "mean reward", "would be"):
        table.add_column(head, justify="left" if head == "pool" else "right")
    for pool, scores in sorted(found.pools.items()):
        table.add_row(
            pool, f"{scores.rollouts:,}", f"{scores.changed:,}", _number(scores.mean), _number(scores.would_mean)
        )
    console.print(table)
    for change in found.changes[:_SHOWN]:
        place = f"round {change.round} step {change.step} slot {change.slot} rollout {change.index}"
        console.print(f"{place} ({change.focus}): {_number(change.reward)} -> {_number(change.would)}; {change.why}")
    if len(found.changes) > _SHOWN:
        console.print(f"and {len(found.changes) - _SHOWN:,} more; --json lists them all")
    if found.advantage_shift is not None:
        console.print(f"advantages move by {found.advantage_shift:.4f} on average")
    for why, count in found.not_rejudged.items():
        console.print(f"{count:,} rollouts were not scored again: {why}")
    return buffer.getvalue().rstrip()


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"
