"""`bat-events lag`: how far every service has come, as the broker knows it."""

import itertools
import json
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from bat_events.cli.common import bootstrap, errors, out, say, settings_of
from bat_events.errors import ConfigurationError
from bat_events.service.context import sign_in
from bat_events.service.metrics_files import gathered, registry_of, serve_metrics
from bat_events.service.metrics_lag import Lag, LagReader
from bat_events.settings import Settings

MONITOR = "monitor"
"""The principal that may ask."""


def lag(
    ctx: typer.Context,
    as_data: Annotated[bool, typer.Option("--json", help="every partition, as JSON")] = False,
    partitions: Annotated[bool, typer.Option("--partitions", help="a row for every partition")] = False,
    serve: Annotated[bool, typer.Option("--serve", help="answer Prometheus at metrics.port until Ctrl-C")] = False,
) -> None:
    """What waits for each service, how long the oldest of it has waited, and how many processes share the work."""
    with errors():
        settings = settings_of(ctx)
        reader = lag_reader(settings, bootstrap(settings, start=False))
        try:
            if serve:
                _serve(settings, reader)
                return
            rows, now = reader.read(), time.time()
        finally:
            reader.close()
    if as_data:
        print(json.dumps([{**asdict(row), "age_s": round(row.age_s(now), 3)} for row in rows], indent=1))
    else:
        out.print(table(rows, now, whole=partitions))


def lag_reader(settings: Settings, address: str) -> LagReader:
    """A reader with the monitor's rights, which also looks at the metrics files of this home."""
    folder: Path = settings.home.absolute() / "run" / settings.namespace
    return LagReader(sign_in(settings, address, MONITOR), settings.namespace, folder)


def supervisor_metrics(settings: Settings, address: str) -> Callable[[], None]:
    """Answer for all services that run under a supervisor here, and for the broker's view; gives what stops it."""
    if not settings.metrics.port:
        return lambda: None
    reader = lag_reader(settings, address)
    folder: Path = settings.home.absolute() / "run" / settings.namespace
    registry = registry_of(lambda: gathered(folder), reader.metrics)
    stop = serve_metrics(settings.metrics, registry)

    def end() -> None:
        stop()
        reader.close()

    return end


def table(rows: list[Lag], now: float, *, whole: bool) -> Table:
    """For people: a row for each service and topic, or for each partition."""
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("service", "topic", "partitions", "position", "end", "waits", "oldest", "members"):
        grid.add_column(name, justify="left" if name in ("service", "topic") else "right")
    by_topic = itertools.groupby(rows, key=lambda row: (row.service, row.topic))
    parts = [[row] for row in rows] if whole else [list(some) for _, some in by_topic]
    for some in parts:
        behind = sum(row.records > 0 for row in some)
        age = max(row.age_s(now) for row in some)
        cells: list[Any] = [
            some[0].service,
            some[0].topic,
            some[0].partition if whole else f"{behind} of {len(some)} behind" if behind else len(some),
            f"{sum(row.position for row in some):,}",
            f"{sum(row.end for row in some):,}",
            f"{sum(row.records for row in some):,}",
            f"{age:,.0f} s" if behind else "-",
            "-" if some[0].members is None else some[0].members,
        ]
        grid.add_row(*(str(cell) for cell in cells))
    return grid


def _serve(settings: Settings, reader: LagReader) -> None:
    if not settings.metrics.port:
        raise ConfigurationError("metrics.port is 0: set BAT_METRICS__PORT to the port where lag is to be answered")
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())
    stop = serve_metrics(settings.metrics, registry_of(reader.metrics))
    say(f"http://{settings.metrics.host}:{settings.metrics.port}/metrics answers; Ctrl-C stops it")
    try:
        asked.wait()
    finally:
        stop()
