"""All services of a namespace under one roof: starts each as a child process and starts again what dies.

A child that the broker denied something is not started again: `refused` says which, and why.

A child runs in a process group of its own, so Ctrl-C reaches the supervisor only, which then asks each child to stop.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bat_events.service.run import DENIED

_BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 10.0)
_STEADY_S = 60.0  # a child that lived this long starts again without delay


@dataclass
class Child:
    """One supervised process."""

    name: str
    process: subprocess.Popen[bytes]
    started: float
    deaths: int = 0
    restart_at: float | None = None
    refused: str | None = None
    exit_codes: list[int] = field(default_factory=list)


class Supervisor:
    """See the module. `poll` is to be called often; it starts again what has died."""

    def __init__(
        self, services: Sequence[str], *, env: Mapping[str, str], logs: Callable[[str], Path], max_deaths: int = 8
    ) -> None:
        self._env = {**os.environ, **env}
        self._logs = logs
        self._max_deaths = max_deaths
        self._children = [Child(name, self._spawn(name), time.monotonic()) for name in services]

    @property
    def children(self) -> list[Child]:
        """The supervised processes."""
        return self._children

    @property
    def refused(self) -> dict[str, str]:
        """Services that stopped because the broker denied them something, with their last words."""
        return {child.name: child.refused for child in self._children if child.refused is not None}

    def poll(self) -> list[str]:
        """Start again what died; returns a line about each death. Raises RuntimeError for one that dies again and again."""
        lines = []
        now = time.monotonic()
        for child in self._children:
            if child.refused is not None:
                continue
            if child.restart_at is not None:
                if now >= child.restart_at:
                    child.process, child.started, child.restart_at = self._spawn(child.name), now, None
                continue
            code = child.process.poll()
            if code is None:
                continue
            child.exit_codes.append(code)
            if code == DENIED:
                child.refused = self._last_words(child.name)
                lines.append(f"{child.name} was denied access and is not started again: {child.refused}")
                continue
            child.deaths = child.deaths + 1 if now - child.started < _STEADY_S else 1
            if child.deaths > self._max_deaths:
                raise RuntimeError(
                    f"{child.name} ended {child.deaths} times in a row (last exit {code}): {self._last_words(child.name)}"
                )
            wait = _BACKOFF_S[min(child.deaths - 1, len(_BACKOFF_S) - 1)]
            child.restart_at = now + wait
            lines.append(f"{child.name} ended ({_how(code)}); starting it again in {wait:g} s")
        return lines

    def stop(self, timeout_s: float = 20.0) -> None:
        """Ask every child to stop, wait, and end by force what does not."""
        running = [child for child in self._children if child.process.poll() is None]
        for child in running:
            with contextlib.suppress(ProcessLookupError):
                child.process.terminate()
        deadline = time.monotonic() + timeout_s
        for child in running:
            try:
                child.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()

    def _last_words(self, name: str) -> str:
        output = self._logs(name) / f"{name}.out"
        lines = output.read_text(errors="replace").split("\n") if output.exists() else []
        said = [line for line in lines if line.strip()][-1:]
        return "".join(said) or f"see {self._logs(name) / name}.log"

    def _spawn(self, name: str) -> subprocess.Popen[bytes]:
        folder = self._logs(name)
        folder.mkdir(parents=True, exist_ok=True)
        output = (folder / f"{name}.out").open("ab")
        try:
            return subprocess.Popen(
                [sys.executable, "-m", "bat_events.cli.main", "serve", name],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        finally:
            output.close()


def _how(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit {code}"
