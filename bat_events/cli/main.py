"""The `bat-events` command. Each group of commands stands in a module of its own; heavy imports wait until they are used."""

import logging
import os
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from bat_events import __version__
from bat_events.cli import broker, campaign, demo, dlq, lag, log, read, rejudge, replay, sandbox
from bat_events.cli.common import bootstrap, environment, errors, make_context, out, say, settings_of
from bat_events.errors import ConfigurationError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Benchmark-as-Teacher as an event-sourced loop on Kafka.",
)
app.add_typer(broker.app, name="broker")
app.add_typer(broker.topics, name="topics")
app.add_typer(campaign.app, name="campaign")
app.add_typer(log.app, name="log")
app.add_typer(dlq.app, name="dlq")
app.add_typer(sandbox.app, name="sandbox")
app.command("demo")(demo.demo)
app.command("audit")(read.audit)
app.command("lag")(lag.lag)
app.command("replay")(replay.replay)
app.command("rejudge")(rejudge.rejudge)


@app.callback()
def options(
    home: Annotated[Path | None, typer.Option(help="where everything a run leaves is kept (BAT_HOME)")] = None,
    namespace: Annotated[str | None, typer.Option(help="topic prefix (BAT_NAMESPACE)")] = None,
) -> None:
    """Options that hold for every command; see `bat-events settings` for all settings."""


@app.command()
def version() -> None:
    """The installed version."""
    out.print(__version__)


@app.command()
def doctor(ctx: typer.Context) -> None:
    """What this machine has and lacks; each lack with the line that mends it. Exit 1 when something required is missing."""
    from bat_events.cli.doctor import checks, render

    with errors():
        tree = settings_of(ctx)
        found = checks(tree.home, logins=tree.secured, image=tree.sandbox.image, docker_host=tree.sandbox.docker_host)
    print(render(found))
    if any(check.required and not check.ok for check in found):
        raise typer.Exit(1)


@app.command()
def settings(ctx: typer.Context) -> None:
    """The settings in force, each with what it means."""
    with errors():
        tree = settings_of(ctx)
    for line in _documented(tree.model_dump(mode="json"), type(tree)):
        out.print(line, highlight=False, markup=False)


def _documented(values: dict[str, Any], model: Any, indent: str = "") -> list[str]:
    lines = []
    for name, value in values.items():
        info = model.model_fields[name]
        if isinstance(value, dict):
            lines.append(f"{indent}{name}:  # {' '.join((info.annotation.__doc__ or '').split())}")
            lines += _documented(value, info.annotation, indent + "  ")
        else:
            if isinstance(value, list):  # on one line, so that its meaning can stand behind it
                text = f"{name}: {yaml.safe_dump(value, default_flow_style=True, width=float('inf')).strip()}"
            else:
                text = yaml.safe_dump({name: value}, default_flow_style=False).strip()
            lines.append(f"{indent}{text}  # {info.description}")
    return lines


@app.command()
def serve(
    ctx: typer.Context,
    services: Annotated[list[str] | None, typer.Argument(help="names; none means all, under a supervisor")] = None,
) -> None:
    """Run services. One name runs in this process; several, or none for all, run as supervised child processes."""
    from bat_events.cli.lag import supervisor_metrics
    from bat_events.consumers.registry import SERVICES, build
    from bat_events.service.run import log_folder, run_service
    from bat_events.service.supervisor import Supervisor

    names = services or list(SERVICES)
    with errors():
        unknown = [name for name in names if name not in SERVICES]
        if unknown:
            raise typer.BadParameter(f"{', '.join(unknown)}: choose of {', '.join(SERVICES)}")
        tree = settings_of(ctx)
        if len(names) == 1:
            context = make_context(tree, names[0])
            code = run_service(names[0], context, build)
            logging.shutdown()
            # An effect in flight is abandoned: nothing of it is on the log, and it will be done again. Waiting for its
            # thread could take as long as a cold start.
            os._exit(code)
        import signal
        import threading
        import time

        home = tree.home.absolute()
        address = bootstrap(tree, start=False)
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        signal.signal(signal.SIGINT, lambda *_: stop.set())
        stop_metrics = supervisor_metrics(tree, address)
        supervisor = Supervisor(
            names,
            env=environment(tree, address),
            logs=lambda service: log_folder(home, tree.namespace, service),
        )
        say(f"{len(names)} services run in namespace {tree.namespace}; Ctrl-C stops them")
        try:
            while not stop.is_set():
                for line in supervisor.poll():
                    say(line)
                if len(supervisor.refused) == len(names):
                    raise RuntimeError("every service was denied access")
                time.sleep(0.2)
        except RuntimeError as error:
            say(str(error))
            raise typer.Exit(1) from None
        finally:
            supervisor.stop()
            stop_metrics()
        if supervisor.refused:
            raise typer.Exit(1)


_OURS = frozenset(
    (
        "artifacts",
        "audit",
        "cache",
        "heldout",
        "kafka",
        "logs",
        "run",
        "sandboxes",
        "seals",
        "secrets",
        "work",
        "learning",
        "serve.out",
    )
)


@app.command()
def clean(ctx: typer.Context, yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False) -> None:
    """Show what a run left under BAT_HOME, ask, and remove it (the local broker is stopped first)."""
    import shutil

    from bat_events.log.local_kafka import LocalKafka

    with errors():
        home = settings_of(ctx).home.absolute()
        if not home.exists():
            say(f"{home} is not there: nothing to remove")
            return
        if home.resolve() in (Path.cwd(), *Path.cwd().parents):
            raise ConfigurationError(f"{home} holds the folder that you are in: remove it by hand if that is meant")
        foreign = sorted(path.name for path in home.iterdir() if path.name not in _OURS)
        if foreign:
            raise ConfigurationError(
                f"{home} holds what bat-events did not make ({', '.join(foreign[:5])}): is BAT_HOME right? Remove by hand"
            )
        total = 0
        for path in sorted(home.iterdir()):
            files = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
            size = sum(file.lstat().st_blocks * 512 for file in files if not file.is_dir())
            total += size
            say(f"{size / 2**20:10.1f} MiB  {path.name}")
        say(f"{total / 2**20:10.1f} MiB  in {home}")
        if not yes and not typer.confirm("Remove all of it?"):
            raise typer.Exit(1)
        LocalKafka(home).down()
        shutil.rmtree(home.resolve())
        if home.is_symlink():
            home.unlink()
        say("removed")


def main() -> None:
    """The entry point."""
    app()


if __name__ == "__main__":
    main()
