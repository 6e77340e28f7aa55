"""`bat-events demo`: broker, topics, campaign, all services, progress, table. Only the other commands, wrapped."""

import contextlib
import json
import signal
import time
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from bat_events.cli.campaign import new_id
from bat_events.cli.common import environment, errors, out, prepare, running_broker, say, settings_of
from bat_events.cli.curve import learning_curve
from bat_events.cli.summary import as_json, failure_line, table
from bat_events.cli.watch import watch
from bat_events.deciders.campaign import CampaignView
from bat_events.errors import BatError, ConfigurationError, LogError
from bat_events.service.context import Context, sign_in
from bat_events.service.runtime import Status

_STOPPED = 130
_AUDIT_WAIT_S = 20.0
CURVE_WIDTH = 100


def demo(
    ctx: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="one round of two steps")] = False,
    go_on: Annotated[bool, typer.Option("--resume", help="go on with the campaign that was stopped")] = False,
    summary: Annotated[Path | None, typer.Option("--json", help="write the summary to this file")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="another campaign file")] = None,
    name: Annotated[str | None, typer.Option("--id", help="the campaign's id")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="instead of the campaign file's seed")] = None,
) -> None:
    """Run a campaign on the built-in benchmark, from cold start to the last round, with everything real."""
    from bat_events.cli.lag import supervisor_metrics
    from bat_events.consumers.registry import SERVICES
    from bat_events.service.run import log_folder
    from bat_events.service.supervisor import Supervisor

    with errors():
        settings = settings_of(ctx)
        if go_on and seed is not None:
            raise ConfigurationError("--seed begins a campaign; one that goes on with --resume keeps its own seed")
        begun = time.monotonic()
        _preflight(settings.home, logins=settings.secured)
        with running_broker(settings) as address:
            prepare(settings, address)
            starter = Context(
                settings=settings, bootstrap=sign_in(settings, address, "campaign"), status=Status(service="demo")
            )
            campaign = _open_campaign(starter) if go_on else _begin(starter, file, quick, name, seed)
            context = Context(
                settings=settings, bootstrap=sign_in(settings, address, "reader"), status=Status(service="demo")
            )
            say(f"campaign {campaign} in namespace {settings.namespace}; Kafka at {address}; home {settings.home}")
            signal.signal(signal.SIGTERM, lambda *_: context.stop.set())
            signal.signal(signal.SIGINT, lambda *_: context.stop.set())
            home = settings.home.absolute()
            stop_metrics = supervisor_metrics(settings, address)
            supervisor = Supervisor(
                list(SERVICES),
                env=environment(settings, address),
                logs=lambda service: log_folder(home, settings.namespace, service),
            )

            def tick() -> list[str]:
                lines = supervisor.poll()
                if supervisor.refused:
                    raise RuntimeError("; ".join(lines))
                return lines

            try:
                view = watch(
                    context,
                    campaign,
                    tick=tick,
                    until=lambda view: view.finished is not None or context.stop.is_set(),
                )
                if view.finished is not None:
                    _let_the_auditor_catch_up(context, campaign)
            except RuntimeError as error:
                raise BatError(str(error)) from None
            finally:
                say("stopping the services")
                supervisor.stop()
                stop_metrics()
        _finish(view, campaign, summary, time.monotonic() - begun)
    if view.finished is None:
        say(f"stopped; `bat-events demo --resume` goes on with {campaign}")
        raise typer.Exit(_STOPPED)
    if view.finished.outcome != "completed":
        raise typer.Exit(1)


def _preflight(home: Path, *, logins: bool) -> None:
    """Refuse at once, with the remedy, what would fail minutes later."""
    from bat_events.cli.doctor import checks

    lacking = [check for check in checks(home, logins=logins) if check.required and not check.ok]
    if lacking:
        raise BatError("; ".join(f"{check.name}: {check.detail}: {check.remedy}" for check in lacking))


def _begin(context: Context, file: Path | None, quick: bool, name: str | None, seed: int | None) -> str:
    from bat_events.benchmark.registry import benchmark
    from bat_events.producers.campaigns import load_plan, start

    source = file or Path(str(resources.files("bat_events") / "campaigns" / ("quick.yaml" if quick else "demo.yaml")))
    plan = load_plan(source, {} if seed is None else {"seed": seed})
    campaign = name or new_id("quick" if quick else "demo")
    start(context, campaign, plan, benchmark_version=benchmark(plan.benchmark).version)
    return campaign


def _open_campaign(context: Context) -> str:
    from bat_events.producers.campaigns import list_campaigns

    found = [state for state in list_campaigns(context) if state.state in ("open", "paused", "cancelling")]
    if not found:
        raise LogError("no campaign is open here: `bat-events demo` begins one")
    return found[-1].campaign


def _let_the_auditor_catch_up(context: Context, campaign: str) -> None:
    """Give auditor and notary a moment, so that the queries suggested below see the campaign's end, sealed."""
    from bat_events.audit.run import run_query

    deadline = time.monotonic() + _AUDIT_WAIT_S
    sql = "SELECT count(*) FROM round_sealed WHERE round IS NULL AND campaign = $campaign"
    home, namespace = context.settings.home.absolute(), context.settings.namespace
    while time.monotonic() < deadline:
        with contextlib.suppress(BatError):  # still starting, or busy: look again
            if run_query(home, namespace, sql=sql, params={"campaign": campaign}).rows[0][0]:
                return
        time.sleep(0.2)


def _finish(view: CampaignView, campaign: str, summary: Path | None, seconds: float) -> None:
    out.print(table(view))
    if (failures := failure_line(view)) is not None:
        say(failures)
    plain = not out.encoding.lower().startswith("utf")
    if curve := learning_curve(view, width=min(out.width, CURVE_WIDTH), plain=plain):
        out.print(curve, highlight=False)
    more: dict[str, Any] = {"seconds": round(seconds, 1)}
    if summary is not None:
        summary.write_text(json.dumps(as_json(view, **more), indent=2) + "\n")
        say(f"summary written to {summary}")
    say(f"{seconds:.0f} s in all. To look further:")
    for command, what in (
        ("bat-events audit promotions", "why each candidate was promoted or held"),
        ("bat-events audit --list", "every named question"),
        (f"bat-events replay {campaign} --heldout", "make every decision and every score again from the record"),
        ("bat-events log tail -n 40", "the newest events"),
        ("bat-events campaign status", "this table again"),
    ):
        say(f"  {command:48} {what}")
