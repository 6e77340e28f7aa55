"""The undisturbed run: every service of the registry in a thread of this one process, on the real broker."""

import contextlib
import importlib
import threading
from collections.abc import Iterator

from bat_events.cli.common import make_context
from bat_events.consumers.registry import SERVICES, build
from bat_events.service.run import drive
from bat_events.settings import KafkaSettings, Settings, load_settings
from tests.e2e.commands import Home

_LATE = ("pydicom.pixels.utils", "nibabel", "nilearn", "scipy.ndimage", "scipy.special")
"""Imported by the services at their first use; two threads at once find some of them half made."""


def settings_of(home: Home) -> Settings:
    """What the commands of a home take from their environment, for this process."""
    return load_settings(
        home=home.path,
        namespace=home.namespace,
        kafka_bootstrap=home.kafka.bootstrap,
        kafka=KafkaSettings(security="scram", secrets=home.kafka.secrets),
    )


@contextlib.contextmanager
def all_services(home: Home) -> Iterator[list[str]]:
    """Run them for as long as this lasts; yields what went wrong so far, one line each."""
    for module in _LATE:
        importlib.import_module(module)
    settings = settings_of(home)
    faults: list[str] = []
    stop = threading.Event()

    def run(name: str) -> None:
        try:
            context = make_context(settings, name)
            context.stop = stop
            service = build(name, context)
            try:
                drive(service, context)
            finally:
                for closer in service.closers:
                    closer()
        except Exception as error:  # noqa: BLE001  (whoever waits for the campaign is told)
            faults.append(f"{name}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(name,), name=name, daemon=True) for name in SERVICES]
    for thread in threads:
        thread.start()
    try:
        yield faults
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
