"""How metrics leave a process: as a file beside its status, over HTTP, and gathered for all services of a supervisor.

A process that stands still leaves an old file; its timestamps say so. The file of one that has died is left out, and taken away.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from bat_events.errors import ConfigurationError
from bat_events.service.metrics import Metrics
from bat_events.service.runtime import Status
from bat_events.settings import MetricsSettings

SUFFIX = ".prom"
_EVERY_S = 1.0

Collect = Callable[[], Iterable[Metric]]


class MetricsFile:
    """Writes a process's metrics, at most once a second; a listener of its Status."""

    def __init__(self, folder: Path, service: str, metrics: Metrics) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{service}.{os.getpid()}{SUFFIX}"
        self._metrics, self._last, self._lock = metrics, 0.0, threading.Lock()

    def __call__(self, _: Status) -> None:
        with self._lock:
            if time.monotonic() - self._last < _EVERY_S:
                return
            self._last = time.monotonic()
            with contextlib.suppress(OSError):  # a full disk must not stop a service for its metrics
                temporary = self._path.with_suffix(".prom-tmp")
                temporary.write_bytes(self._metrics.text())
                temporary.replace(self._path)

    def remove(self) -> None:
        """Take the file away: the process ends."""
        self._path.unlink(missing_ok=True)


def read_files(folder: Path) -> Iterator[tuple[int, float, list[Metric]]]:
    """Of each living process of this machine: its id, when it last wrote (s since the epoch), its metrics."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        pid = int(path.stem.rpartition(".")[2])
        if not psutil.pid_exists(pid):
            path.unlink(missing_ok=True)
            continue
        with contextlib.suppress(OSError):  # it ended just now
            yield pid, path.stat().st_mtime, list(text_string_to_metric_families(path.read_text()))


def gathered(folder: Path) -> list[Metric]:
    """Every process's metrics in one, told apart by the label `pid`."""
    families: dict[str, Metric] = {}
    written = GaugeMetricFamily(
        "bat_written_timestamp_seconds", "When the process last told its metrics", labels=["pid"]
    )
    for pid, at, metrics in read_files(folder):
        written.add_metric([str(pid)], at)
        for metric in metrics:
            family = families.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
            family.samples += [Sample(s.name, {**s.labels, "pid": str(pid)}, s.value) for s in metric.samples]
    return [*families.values(), written]


class _Collector:
    def __init__(self, collect: Collect) -> None:
        self.collect = collect

    def describe(self) -> list[Metric]:
        """Nothing beforehand: registering is not to ask anybody."""
        return []


def serve_metrics(settings: MetricsSettings, registry: CollectorRegistry) -> Callable[[], None]:
    """Answer GET /metrics in a thread; gives what stops it. Raises ConfigurationError where the port cannot be had."""
    try:
        server, thread = start_http_server(settings.port, settings.host, registry)
    except OSError as error:
        raise ConfigurationError(
            f"metrics.port {settings.port} on {settings.host} cannot be had ({error.strerror}): choose another, or 0 for none"
        ) from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join(5)

    return stop


def registry_of(*collects: Collect) -> CollectorRegistry:
    """A registry that asks anew at each scrape."""
    registry = CollectorRegistry()
    for collect in collects:
        collector: Any = _Collector(collect)
        registry.register(collector)
    return registry
