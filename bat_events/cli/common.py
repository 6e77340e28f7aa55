"""What the commands share: settings from options, the broker, a context, errors as one line."""

import contextlib
import sys
from collections.abc import Iterator

import typer
from rich.console import Console

from bat_events.errors import BatError
from bat_events.log.local_kafka import LocalKafka
from bat_events.log.local_kafka_parts import BrokerError
from bat_events.service.context import Context
from bat_events.service.runtime import Status
from bat_events.settings import Settings, load_settings

out = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 150)
err = Console(stderr=True, soft_wrap=True)


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """An error of this package ends the command with one line and exit code 2."""
    try:
        yield
    except (BatError, BrokerError) as error:
        err.print(f"error: {error}", style="red", highlight=False, markup=False)
        raise typer.Exit(2) from None


def settings_of(context: typer.Context) -> Settings:
    """The settings with the global options of this call."""
    options = context.find_root().params
    return load_settings(home=options.get("home"), namespace=options.get("namespace"))


def say(line: str) -> None:
    """One line of progress."""
    out.print(line, highlight=False, markup=False)
    sys.stdout.flush()


def bootstrap(settings: Settings, *, start: bool) -> str:
    """The cluster's address: the named one, or the local broker's (started if asked to)."""
    if settings.bootstrap:
        return settings.bootstrap
    broker = LocalKafka(settings.home.absolute(), heap_mb=settings.kafka.heap_mib)
    if not start:
        status = broker.status()
        if not status.running or status.bootstrap is None:
            raise BatError("no broker is running: start one with `bat-events broker up`, or set BAT_KAFKA_BOOTSTRAP")
        return status.bootstrap
    return broker.up(say)


def make_context(settings: Settings, name: str, *, start: bool = False) -> Context:
    """A context of this process."""
    return Context(settings=settings, bootstrap=bootstrap(settings, start=start), status=Status(service=name))


def environment(settings: Settings, address: str) -> dict[str, str]:
    """What a child process needs to have the same settings, and to leave nothing outside its home."""
    scratch = settings.home.absolute() / "work" / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    return {
        "BAT_HOME": str(settings.home.absolute()),
        "TMPDIR": str(scratch),
        "BAT_NAMESPACE": settings.namespace,
        "BAT_KAFKA_BOOTSTRAP": address,
        "OMP_NUM_THREADS": str(settings.training.threads),
        "TOKENIZERS_PARALLELISM": "false",
    }


@contextlib.contextmanager
def running_broker(settings: Settings) -> Iterator[str]:
    """The cluster's address; a local broker that was not running runs for as long as this lasts."""
    if settings.bootstrap:
        yield settings.bootstrap
        return
    broker = LocalKafka(settings.home.absolute(), heap_mb=settings.kafka.heap_mib)
    was_running = broker.status().running
    address = broker.up(say if not was_running else _quiet)
    try:
        yield address
    finally:
        if not was_running:
            broker.down()


@contextlib.contextmanager
def reading(settings: Settings, name: str) -> Iterator[Context]:
    """A context for a command that reads or writes the log and ends."""
    with running_broker(settings) as address:
        yield Context(settings=settings, bootstrap=address, status=Status(service=name))


def _quiet(_: str) -> None:
    return None
