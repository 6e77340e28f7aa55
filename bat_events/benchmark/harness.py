"""One run of an outside command: no shell, a time-out, an environment of allowed names, a capped log, nothing left behind.

Whatever the command starts is ended with it: its process group gets SIGTERM, then SIGKILL; what left the group is found by
its session and by a mark in its environment, which every child inherits. Containers are beyond that: a harness that starts
some must end them when it gets SIGTERM.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import psutil

from bat_events.domain.external import PLACEHOLDERS

MARK = "BAT_EVALUATION_RUN"
LOG_HEAD, LOG_TAIL = 768 << 10, 256 << 10  # bytes kept of what the command writes
GRACE_S = 10.0  # between SIGTERM and SIGKILL
_LOOK_S = 0.2
_PROGRESS = re.compile(rb"^progress (\d{1,6})/(\d{1,6})\r?$", re.MULTILINE)

Ended = Literal["exited", "timed_out", "stopped"]
Progress = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class HarnessRun:
    """How a run ended. `exit_code` is negative for a signal; it is the leader's own only where it `exited`."""

    ended: Ended
    exit_code: int
    wall_s: float
    log_bytes: int


class HarnessNotStarted(Exception):
    """The command cannot be started at all: there is no such program, or it may not be executed."""


def fill(command: Sequence[str], *, checkpoint: Path, request: Path, output: Path) -> list[str]:
    """The argv: elements that are exactly a placeholder are replaced, nothing within an element is."""
    values = dict(zip(PLACEHOLDERS, map(str, (checkpoint, request, output)), strict=True))
    return [values.get(element, element) for element in command]


def run_harness(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    mark: str,
    log: Path,
    timeout_s: float,
    stop: threading.Event,
    tell: Callable[[float, Progress | None], None],
    grace_s: float = GRACE_S,
) -> HarnessRun:
    """Run the command to its end, its time-out, or `stop`; `tell` gets elapsed seconds and the newest progress line.

    Raises HarnessNotStarted.
    """
    program = shutil.which(argv[0], path=environment.get("PATH", os.defpath))
    if program is None:
        raise HarnessNotStarted(f"{argv[0]!r} is no program that can be run: give its full path")
    begun = time.monotonic()
    try:
        process = subprocess.Popen(
            [os.path.abspath(program), *argv[1:]],
            cwd=cwd,
            env={**environment, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise HarnessNotStarted(f"{argv[0]!r} cannot be run: {error}") from None
    assert process.stdout is not None
    output = _Log(process.stdout, log)
    ended: Ended = "exited"
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)
                break
            elapsed = time.monotonic() - begun
            if stop.is_set() or elapsed > timeout_s:
                ended = "stopped" if stop.is_set() else "timed_out"
                break
            tell(elapsed, output.progress)
    finally:
        _end(process, mark, grace_s)
    output.close()
    return HarnessRun(
        ended=ended, exit_code=process.returncode, wall_s=time.monotonic() - begun, log_bytes=output.written
    )


def sweep(mark: str, session: int | None = None) -> int:
    """End by force every process that carries the mark or belongs to the session; returns how many there were."""
    count = 0
    for _ in range(20):  # what is being started while we look is found the next time
        found = [process for process in psutil.process_iter() if _belongs(process, mark, session)]
        if not found:
            break
        count += len(found)
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, timeout=2.0)
    return count


def _end(process: "subprocess.Popen[bytes]", mark: str, grace_s: float) -> None:
    if process.poll() is None:  # not reaped yet, so the group is still ours to signal
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    sweep(mark, process.pid)


def _belongs(process: psutil.Process, mark: str, session: int | None) -> bool:
    try:
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        if session is not None and os.getsid(process.pid) == session:
            return True
        return bool(process.environ().get(MARK) == mark)
    except (psutil.Error, OSError):
        return False  # gone meanwhile, or another user's


class _Log:
    """Drains the command's output in a thread: the head and the tail go to the file, the middle is counted only."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self.progress: Progress | None = None
        self.written = 0
        self._stream, self._path = stream, path
        self._tail = bytearray()
        self._line = b""
        self._thread = threading.Thread(target=self._drain, name="harness-log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait for the end of the output; every writer of it has been ended."""
        self._thread.join(GRACE_S)

    def _drain(self) -> None:
        with self._path.open("wb") as file:
            while chunk := os.read(self._stream.fileno(), 1 << 16):
                kept = chunk[: max(0, LOG_HEAD - self.written)]
                file.write(kept)
                file.flush()
                self.written += len(chunk)
                self._tail += chunk[len(kept) :]
                del self._tail[:-LOG_TAIL]
                self._look(chunk)
            cut = self.written - LOG_HEAD - len(self._tail)
            if cut > 0:
                file.write(b"\n[... %d bytes left out ...]\n" % cut)
            file.write(self._tail)
        self._stream.close()

    def _look(self, chunk: bytes) -> None:
        *lines, rest = (self._line + chunk).split(b"\n")
        self._line = rest[-64:]
        found = _PROGRESS.findall(b"\n".join(lines))
        if found:
            done, of = found[-1]
            self.progress = (int(done), int(of))
