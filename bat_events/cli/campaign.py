"""`bat-events campaign …`."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from bat_events.cli.common import errors, out, prepare, reading, say, settings_of
from bat_events.cli.summary import as_json, dead_letter_lines, failure_line, table
from bat_events.cli.watch import Follower
from bat_events.errors import ConfigurationError, LogError
from bat_events.service.context import Context

app = typer.Typer(no_args_is_help=True, help="Campaigns: training runs on this namespace's log.")

Reason = Annotated[str, typer.Option(help="why, for the record")]
Name = Annotated[str | None, typer.Argument(help="a campaign's id; none means the newest")]


def new_id(prefix: str) -> str:
    """A campaign id that sorts by time."""
    return f"{prefix}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


@app.command()
def start(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="the campaign file (YAML)")],
    name: Annotated[str | None, typer.Option("--id", help="its id; made from file name and time by default")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="instead of the campaign file's seed")] = None,
) -> None:
    """Put a campaign on the log. Services that run in this namespace begin to work on it."""
    from bat_events.benchmark.registry import benchmark
    from bat_events.producers.campaigns import load_plan
    from bat_events.producers.campaigns import start as begin

    with errors():
        settings = settings_of(ctx)
        plan = load_plan(file, {} if seed is None else {"seed": seed})
        campaign = name or new_id(file.stem)
        with reading(settings, "campaign") as context:
            prepare(settings, str(context.bootstrap))
            begin(context, campaign, plan, benchmark_version=benchmark(plan.benchmark).version)
        say(f"campaign {campaign} is on the log of namespace {settings.namespace}")


@app.command("list")
def show_all(ctx: typer.Context) -> None:
    """The namespace's campaigns, oldest first."""
    from bat_events.producers.campaigns import list_campaigns

    with errors(), reading(settings_of(ctx), "campaign") as context:
        for known in list_campaigns(context):
            tracks = ", ".join(track.value for track in known.plan.tracks)
            say(
                f"{known.campaign:32} {known.state:10} {known.started_at:%Y-%m-%d %H:%M} "
                f"{known.plan.rounds} rounds x {known.plan.steps_per_round} steps; {tracks}"
            )


@app.command()
def status(ctx: typer.Context, campaign: Name = None, as_data: Annotated[bool, typer.Option("--json")] = False) -> None:
    """What each round practised and what came of it."""
    with errors(), reading(settings_of(ctx), "reader") as context:
        follower = Follower(context, _name(context, campaign))
        view = follower.catch_up()
        follower.close()
        if as_data:
            print(json.dumps(as_json(view), indent=2))
        else:
            out.print(table(view))
            if (line := failure_line(view)) is not None:
                say(line)
            for line in dead_letter_lines(view):
                say(line)


@app.command()
def pause(ctx: typer.Context, campaign: Name = None, reason: Reason = "asked for on the command line") -> None:
    """Ask for no new work; what is in flight ends. `resume` goes on."""
    from bat_events.producers import campaigns

    _control(ctx, campaign, reason, campaigns.pause, "is paused")


@app.command()
def resume(ctx: typer.Context, campaign: Name = None, reason: Reason = "asked for on the command line") -> None:
    """Go on with a paused campaign."""
    from bat_events.producers import campaigns

    _control(ctx, campaign, reason, campaigns.resume, "goes on")


@app.command()
def cancel(ctx: typer.Context, campaign: Name = None, reason: Reason = "asked for on the command line") -> None:
    """End a campaign for good."""
    from bat_events.producers import campaigns

    _control(ctx, campaign, reason, campaigns.cancel, "is cancelled")


@app.command()
def upgrade(
    ctx: typer.Context,
    decider: Annotated[str, typer.Option(help="NAME=VERSION, such as planner=3")],
    campaign: Name = None,
    reason: Reason = "asked for on the command line",
) -> None:
    """Let a decider go over to another version, from the next round that is prescribed on."""
    from bat_events.producers import campaigns

    name, _, version = decider.partition("=")
    with errors(), reading(settings_of(ctx), "campaign") as context:
        if not (version.isascii() and version.isdigit() and int(version)):
            raise ConfigurationError(f"--decider {decider!r}: write NAME=VERSION, such as planner=3")
        known = _name(context, campaign)
        campaigns.upgrade(context, known, name, int(version), reason)
        say(f"campaign {known} goes over to {decider.replace('=', '/')} with the next round that is prescribed")


def _control(
    ctx: typer.Context, campaign: str | None, reason: str, act: Callable[[Context, str, str], object], done: str
) -> None:
    with errors(), reading(settings_of(ctx), "campaign") as context:
        known = _name(context, campaign)
        act(context, known, reason)
        say(f"campaign {known} {done}")


def _name(context: Context, campaign: str | None) -> str:
    from bat_events.producers.campaigns import list_campaigns

    known = [state.campaign for state in list_campaigns(context)]
    if campaign is None:
        if not known:
            raise LogError(f"namespace {context.settings.namespace} has no campaign yet")
        return known[-1]
    if campaign not in known:
        raise LogError(
            f"campaign {campaign} is not in namespace {context.settings.namespace}: {', '.join(known) or 'none'}"
        )
    return campaign
