"""`bat-events broker …` and `bat-events topics …`."""

import typer

from bat_events.cli.common import bootstrap, errors, running_broker, say, settings_of
from bat_events.log.admin import apply_topics, list_topics
from bat_events.log.local_kafka import LocalKafka

app = typer.Typer(no_args_is_help=True, help="The local single-node Kafka.")
topics = typer.Typer(no_args_is_help=True, help="A namespace's topics.")


@app.command()
def up(ctx: typer.Context) -> None:
    """Start the local broker, or say where it is."""
    with errors():
        settings = settings_of(ctx)
        say(f"Kafka answers at {bootstrap(settings, start=True)}")


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
            say(f"an existing cluster is used: {settings.bootstrap}")
            return
        found = LocalKafka(settings.home.absolute()).status()
        size = f"{found.data_bytes / 2**20:.1f} MiB of data"
        if not found.running:
            say(f"not running; {size}")
            raise typer.Exit(1)
        say(f"Kafka {found.version} answers at {found.bootstrap} (pid {found.pid}); {size}; log {found.log}")


@topics.command("apply")
def apply(ctx: typer.Context) -> None:
    """Create the namespace's missing topics and publish the schemas. What exists is left as it is."""
    with errors():
        settings = settings_of(ctx)
        with running_broker(settings) as address:
            states = apply_topics(
                address,
                settings.namespace,
                partitions=settings.kafka.partitions,
                replication=settings.kafka.replication,
            )
            for state in states:
                say(f"{state.name:40} {state.partitions:3} partitions, written by {state.spec.writer}")


@topics.command("list")
def show(ctx: typer.Context) -> None:
    """The namespace's topics. Exit 1 when one is missing."""
    with errors():
        settings = settings_of(ctx)
        with running_broker(settings) as address:
            states = list_topics(address, settings.namespace)
        for state in states:
            count = f"{state.partitions} partitions" if state.partitions else "missing"
            say(f"{state.name:40} {count:14} {state.spec.plane:9} written by {state.spec.writer}")
        if not all(state.partitions for state in states):
            raise typer.Exit(1)
