"""Runs one service in this process until it is told to stop: signals, status file, logs, exit codes.

Exit codes: 0 stopped as asked; 1 halted on an error (a supervisor starts it again); 3 another instance took over; 4 the
broker does not let this service do what it tried (a supervisor leaves it stopped: trying again changes nothing).
"""

import contextlib
import json
import logging
import logging.handlers
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import structlog

from bat_events.errors import AccessDenied, BatError, FencedError
from bat_events.log.access import BY_PRINCIPAL
from bat_events.service.context import Context
from bat_events.service.metrics_files import MetricsFile, serve_metrics
from bat_events.service.runtime import Status
from bat_events.service.services import Service

OK, HALTED, REPLACED, DENIED = 0, 1, 3, 4
_IDLE_S = 0.2
_STATUS_EVERY_S = 0.5


def configure_logs(folder: Path, name: str) -> structlog.stdlib.BoundLogger:
    """JSON lines into `folder`/`name`.log, rotated at 8 MiB, 3 kept."""
    folder.mkdir(parents=True, exist_ok=True)
    handler = logging.handlers.RotatingFileHandler(folder / f"{name}.log", maxBytes=8 << 20, backupCount=3)
    handler.setFormatter(logging.Formatter("%(message)s"))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(service=name, pid=os.getpid())
    return logger


class StatusFile:
    """Writes what a service is doing for people to see; nothing reads it to decide anything."""

    def __init__(self, folder: Path, service: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{service}.{os.getpid()}.json"
        self._last = 0.0
        self._doing = ""
        self._lock = threading.Lock()  # the loop and a running effect both report

    def __call__(self, status: Status) -> None:
        with self._lock, contextlib.suppress(OSError):  # a full disk must not stop a service for its status
            self._write(status)

    def _write(self, status: Status) -> None:
        now = time.monotonic()
        if status.doing == self._doing and now - self._last < _STATUS_EVERY_S:
            return
        self._last, self._doing = now, status.doing
        data = {
            "service": status.service,
            "pid": os.getpid(),
            "doing": status.doing,
            "in": status.events_in,
            "out": status.events_out,
            "retries": status.retries,
            "behind": status.behind,
            "at": time.time(),
        }
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(data))
        temporary.replace(self._path)

    def remove(self) -> None:
        """Take the file away: the service has ended."""
        self._path.unlink(missing_ok=True)


def _halted(name: str, error: Exception) -> str:
    """A halt for the status file, which stands in the open: what a held-out service says stays in its log."""
    return "halted: see its log" if _heldout(name) else f"halted: {error}"


def _heldout(service: str) -> bool:
    return service in BY_PRINCIPAL and BY_PRINCIPAL[service].plane == "heldout"


def log_folder(home: Path, namespace: str, service: str) -> Path:
    """Where a service's logs lie: those of the held-out plane apart, for an error may name what it choked on."""
    return (home / "heldout" if _heldout(service) else home) / "logs" / namespace


def run_service(name: str, context: Context, build: Callable[[str, Context], Service]) -> int:
    """Build and drive a service; returns its exit code."""
    settings = context.settings
    home = settings.home.absolute()
    logger = configure_logs(log_folder(home, settings.namespace, name), name)
    status_file = StatusFile(home / "run" / settings.namespace, name)
    metrics_file = MetricsFile(home / "run" / settings.namespace, name, context.metrics)
    context.metrics.follow(context.status)
    context.status.listeners += [status_file, metrics_file]
    closers = [status_file.remove, metrics_file.remove]

    def ask_to_stop(signum: int, _: FrameType | None) -> None:
        logger.info("stopping", signal=signal.Signals(signum).name)
        context.stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    service: Service | None = None
    try:
        if settings.metrics.port:
            closers.append(serve_metrics(settings.metrics, context.metrics.registry))
        context.status.tell()
        service = build(name, context)
        context.status.say("waiting")
        logger.info("started", namespace=settings.namespace)
        drive(service, context)
        return OK
    except FencedError as error:
        logger.warning("replaced", error=str(error))
        return REPLACED
    except AccessDenied as error:
        logger.error("denied", error=str(error), kind=type(error).__name__)
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return DENIED
    except BatError as error:
        logger.error("halted", error=str(error), kind=type(error).__name__)
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        context.status.say(_halted(name, error))
        return HALTED
    except Exception as error:
        logger.exception("halted")
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        context.status.say(_halted(name, error))
        return HALTED
    finally:
        for closer in (*(service.closers if service else []), *closers):
            closer()


def drive(service: Service, context: Context) -> None:
    """Step the machines in turn until told to stop."""
    while not context.stop.is_set():
        wait = _IDLE_S / len(service.machines)
        for machine in service.machines:
            if not machine.step(wait):
                context.status.tell()
