"""What the commands share: settings from options, the broker, a context, errors as one line."""

import contextlib
import sys
from collections.abc import Iterator

import typer
from rich.console import Console

from bat_events.errors import BatError
from bat_events.log.access import ADMIN
from bat_events.log.acls import apply_access
from bat_events.log.admin import TopicState, apply_topics
from bat_events.log.local_kafka import LocalKafka
from bat_events.log.local_kafka_parts import BrokerError
from bat_events.sandbox.interface import SandboxFault
from bat_events.service.context import Context, sign_in
from bat_events.service.runtime import Status
from bat_events.settings import Settings, load_settings

out = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 150)
err = Console(stderr=True, soft_wrap=True)


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """An error of this package ends the command with one line and exit code 2."""
    try:
        yield
    except (BatError, BrokerError, SandboxFault) as error:
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


def local_broker(settings: Settings) -> LocalKafka:
    """The broker of this home as the settings want it."""
    return LocalKafka(
        settings.home.absolute(),
        heap_mb=settings.kafka.heap_mib,
        secured=settings.secured,
        secrets=settings.kafka_secrets(),
    )


def bootstrap(settings: Settings, *, start: bool) -> str:
    """The cluster's address: the named one, or the local broker's (started if asked to)."""
    if settings.bootstrap:
        return settings.bootstrap
    broker = local_broker(settings)
    if not start:
        status = broker.status()
        if not status.running or status.bootstrap is None:
            raise BatError("no broker is running: start one with `bat-events broker up`, or set BAT_KAFKA_BOOTSTRAP")
        return status.bootstrap
    return broker.up(say)


def make_context(settings: Settings, name: str) -> Context:
    """A context of this process, which is the principal of that name on the broker."""
    address = sign_in(settings, bootstrap(settings, start=False), name)
    return Context(settings=settings, bootstrap=address, status=Status(service=name))


def prepare(settings: Settings, address: str, *, access: bool | None = None) -> list[TopicState]:
    """Create what the namespace lacks: topics and schemas; with `access` users and rules too, as on the local broker.

    Where another cluster asks for logins and the admin's password is not on this machine, the topics are taken as they are:
    who starts campaigns need not be who administers the cluster. Raises LogError.
    """
    admin = sign_in(settings, address, ADMIN)
    own = settings.bootstrap is None
    if access is None:
        access = own and settings.secured
        if settings.secured and not own and not (settings.kafka_secrets() / ADMIN).exists():
            return []
    elif access and not settings.secured:
        raise BatError("users and access rules need logins: set kafka.security to scram")
    if access:
        apply_access(admin, settings.namespace, settings.kafka_secrets(), own=own)
    return apply_topics(
        admin, settings.namespace, partitions=settings.kafka.partitions, replication=settings.kafka.replication
    )


def environment(settings: Settings, address: str) -> dict[str, str]:
    """What a child process needs to have the same settings, and to leave nothing outside its home."""
    scratch = settings.home.absolute() / "work" / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    return {
        "BAT_HOME": str(settings.home.absolute()),
        "TMPDIR": str(scratch),
        "BAT_NAMESPACE": settings.namespace,
        "BAT_KAFKA_BOOTSTRAP": address,
        "BAT_METRICS__PORT": "0",  # the supervisor answers for its children
        "BAT_KAFKA__SECURITY": "scram" if settings.secured else "none",
        "BAT_KAFKA__SECRETS": str(settings.kafka_secrets()),  # where passwords lie; none is ever in an environment
        "OMP_NUM_THREADS": str(settings.training.threads),
        "TOKENIZERS_PARALLELISM": "false",
    }


@contextlib.contextmanager
def running_broker(settings: Settings) -> Iterator[str]:
    """The cluster's address; a local broker that was not running runs for as long as this lasts."""
    if settings.bootstrap:
        yield settings.bootstrap
        return
    broker = local_broker(settings)
    was_running = broker.status().running
    address = broker.up(say if not was_running else _quiet)
    try:
        yield address
    finally:
        if not was_running:
            broker.down()


@contextlib.contextmanager
def reading(settings: Settings, principal: str) -> Iterator[Context]:
    """A context for a command that reads or writes the log as one principal and ends."""
    with running_broker(settings) as address:
        yield Context(
            settings=settings, bootstrap=sign_in(settings, address, principal), status=Status(service=principal)
        )


def _quiet(_: str) -> None:
    return None
