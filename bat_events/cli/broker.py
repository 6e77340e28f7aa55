"""`bat-events broker …` and `bat-events topics …`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bat_events.cli.common import bootstrap, errors, local_broker, prepare, running_broker, say, settings_of
from bat_events.log.access import ADMIN, PRINCIPALS, kafka_acls_lines, rules, user_of
from bat_events.log.admin import list_topics
from bat_events.log.credentials import make_secret
from bat_events.log.local_kafka import LocalKafka
from bat_events.log.local_kafka_config import BROKER_USER
from bat_events.service.context import sign_in

app = typer.Typer(no_args_is_help=True, help="The local single-node Kafka.")
topics = typer.Typer(no_args_is_help=True, help="A namespace's topics.")


@app.command()
def up(ctx: typer.Context) -> None:
    """Start the local broker, or say where it is."""
    with errors():
        settings = settings_of(ctx)
        say(f"Kafka answers at {bootstrap(settings, start=True)}")


@app.command()
def run(
    ctx: typer.Context,
    advertise: Annotated[str, typer.Option(help="host:port by which other machines reach this broker")],
) -> None:
    """Run the broker for other machines in the foreground, until told to stop: what a container of it does."""
    import signal
    import threading

    with errors():
        settings = settings_of(ctx)
        broker = LocalKafka(
            settings.home.absolute(),
            heap_mb=settings.kafka.heap_mib,
            secured=settings.secured,
            secrets=settings.kafka_secrets(),
            advertise=advertise,
        )
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        broker.up(say)
        say(f"Kafka answers at {advertise}; users log in by SCRAM-SHA-512")
        while not stop.wait(2.0):
            if not broker.status().running:
                say(f"Kafka ended; its log is {broker.status().log}")
                raise typer.Exit(1)
        broker.down()


@app.command()
def down(ctx: typer.Context) -> None:
    """Stop the local broker; its data stays."""
    with errors():
        stopped = LocalKafka(settings_of(ctx).home.absolute()).down()
        say("stopped" if stopped else "it was not running")


@app.command()
def status(ctx: typer.Context) -> None:
    """Whether the local broker runs, where, and how much it holds. Exit 1 when it does not run."""
    with errors():
        settings = settings_of(ctx)
        if settings.bootstrap:
            how = (
                "each service logs in as its own user"
                if settings.secured
                else "without logins, so without access rules"
            )
            say(f"an existing cluster is used: {settings.bootstrap}, {how}")
            return
        found = local_broker(settings).status()
        size = f"{found.data_bytes / 2**20:.1f} MiB of data"
        if not found.running:
            say(f"not running; {size}")
            raise typer.Exit(1)
        access = "access rules on" if found.secured else "no access rules"
        say(f"Kafka {found.version} answers at {found.bootstrap} (pid {found.pid}), {access}; {size}; log {found.log}")


@topics.command("apply")
def apply(
    ctx: typer.Context,
    acls: Annotated[
        bool,
        typer.Option(
            "--acls", help="on a named cluster too: create users and access rules (the local broker has them)"
        ),
    ] = False,
) -> None:
    """Create the namespace's missing topics and publish the schemas. Topics that exist are left as they are.

    On the local broker each service gets its user, password file and access rules as well.
    """
    with errors():
        settings = settings_of(ctx)
        with running_broker(settings) as address:
            for state in prepare(settings, address, access=True if acls else None):
                say(f"{state.name:40} {state.partitions:3} partitions, written by {state.spec.writer}")
        if settings.secured and (settings.bootstrap is None or acls):
            say(f"{len(rules(settings.namespace))} access rules stand; passwords in {settings.kafka_secrets()}")


@topics.command("passwords")
def passwords(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(help="where the files go, one a user, mode 0600")],
) -> None:
    """Make the password files of a namespace's users, of admin and of the node, before there is a broker; some may be there."""
    with errors():
        namespace = settings_of(ctx).namespace
        names = [ADMIN if principal.name == ADMIN else user_of(namespace, principal.name) for principal in PRINCIPALS]
        # The gate and the evaluator share the key of the fingerprints; on one machine they find it in one home.
        made = [name for name in (*names, BROKER_USER, "fingerprint.key") if make_secret(folder.absolute() / name)]
        say(f"{len(made)} files made in {folder}, {len(names) + 2 - len(made)} were there")


@topics.command("list")
def show(ctx: typer.Context) -> None:
    """The namespace's topics. Exit 1 when one is missing."""
    with errors():
        settings = settings_of(ctx)
        with running_broker(settings) as address:
            states = list_topics(sign_in(settings, address, ADMIN), settings.namespace)
        for state in states:
            count = f"{state.partitions} partitions" if state.partitions else "missing"
            say(f"{state.name:40} {count:14} {state.spec.plane:9} written by {state.spec.writer}")
        if not all(state.partitions for state in states):
            raise typer.Exit(1)


@topics.command("acls")
def acls_of(
    ctx: typer.Context, as_data: Annotated[bool, typer.Option("--json", help="as JSON instead of commands")] = False
) -> None:
    """Print the namespace's access rules for another cluster, as kafka-acls.sh commands. Nothing is changed."""
    with errors():
        namespace = settings_of(ctx).namespace
    if as_data:
        print(json.dumps([asdict(rule) for rule in rules(namespace)], indent=1))
    else:
        print("\n".join(kafka_acls_lines(namespace)))
