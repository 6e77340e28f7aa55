"""One call as the runtime sees it: streams read with a cap, the clock, the kernel's counters; and from them how it ended.

Nothing here believes the policy's code. The wait status and the breach come from the supervisor, memory and processes from the
control group (or the supervisor's sampling), time, output and disk from the runtime's own clock and descriptors.
"""

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from bat_events.sandbox.interface import CallEnd, Language, Limits, SandboxFault
from bat_events.sandbox.slot import Slot

_TICK_S = 0.02
_KILL_S = 15.0
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a call ended, with its clipped output."""

    end: CallEnd
    exit_code: int | None
    stdout: bytes
    stderr: bytes


def perform(
    slot: Slot,
    *,
    language: Language,
    code: bytes,
    limits: Limits,
    over_limit: Callable[[], CallEnd | None],
) -> Outcome:
    """Run `code` and wait until nothing of it is left.

    `over_limit` says which limit the call has exceeded by now; it is asked on every tick and once when all is over.
    Raises SandboxFault when the supervisor fails.
    """
    with ExitStack() as stack:
        streams, writers = _Streams(limits.output_bytes, stack), []
        for _ in range(2):
            reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            streams.add(reader)
            os.set_blocking(writer, True)
            writers.append(writer)
        source = _sealed(code)
        try:
            slot.ask({"op": "run", "language": language, "limits": asdict(limits)}, [*writers, source])
        finally:
            for fd in (*writers, source):
                os.close(fd)
        reply, cut = _supervise(slot, streams, limits, over_limit)
        streams.drain()
    exceeded, exit_code = over_limit(), None
    if "unconfined" in reply and exceeded is None:
        raise SandboxFault(f"sandbox {slot.name}: no code was run: {reply['unconfined']}")
    # What earlier calls left in memory file systems can kill a call before it begins; that is the policy's doing.
    end = exceeded if "unconfined" in reply and exceeded else _end(reply, cut, exceeded, streams.over, limits)
    if end == "exited":
        status = reply["status"]
        exit_code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return Outcome(end=end, exit_code=exit_code, stdout=streams.text(0), stderr=streams.text(1))


def _supervise(
    slot: Slot, streams: "_Streams", limits: Limits, over_limit: Callable[[], CallEnd | None]
) -> tuple[dict[str, Any], CallEnd | None]:
    """The supervisor's answer, and the reason for which the runtime cut the call short, if it did."""
    deadline = time.monotonic() + limits.timeout_s
    cut: CallEnd | None = None
    poller = select.poll()
    control = slot.control.fileno()
    for fd in (control, *streams.open):
        poller.register(fd, select.POLLIN)
    while True:
        wait_s = min(_TICK_S, max(deadline - time.monotonic(), 0.0))
        for fd, _ in poller.poll(wait_s * 1000 + 1):
            if fd == control:
                return slot.answer(1.0), cut
            if not streams.read(fd):
                poller.unregister(fd)
        if cut is None:
            late: CallEnd | None = "timeout" if time.monotonic() >= deadline else None
            cut = over_limit() or ("output" if streams.over else late)
            if cut is not None:
                slot.ask({"op": "kill"})
                deadline = time.monotonic() + _KILL_S
        elif time.monotonic() > deadline:
            raise SandboxFault(
                f"sandbox {slot.name}: its supervisor did not end a call within {_KILL_S} s of being told to"
            )


def _end(
    reply: dict[str, Any], cut: CallEnd | None, exceeded: CallEnd | None, output_over: bool, limits: Limits
) -> CallEnd:
    """Kernel evidence first: a call that breached and was then timed out is a breach."""
    if reply["verdict"] is not None:
        verdict: CallEnd = reply["verdict"]
        return verdict
    if exceeded is not None:
        return exceeded
    if cut is not None:
        return cut
    if output_over:
        return "output"
    # A signal alone the policy could send itself; the time used is the kernel's word. Its limit counts timer ticks and its
    # account the time run, and on a crowded machine a tick meets more often than the share of time that was run.
    spent = reply["cpu_s"] >= 0.5 * limits.cpu_s
    killed = os.WTERMSIG(reply["status"]) if os.WIFSIGNALED(reply["status"]) else None
    return "timeout" if spent and killed in (signal.SIGXCPU, signal.SIGKILL) else "exited"


def _sealed(code: bytes) -> int:
    """A descriptor to read `code` from; the mode lets bash open it again by its path in /proc."""
    fd = os.memfd_create("code", os.MFD_CLOEXEC)
    os.fchmod(fd, 0o444)
    view = memoryview(code)
    while view:
        view = view[os.write(fd, view) :]
    return fd


class _Streams:
    """The two output pipes, each kept up to a cap."""

    def __init__(self, cap_bytes: int, stack: ExitStack) -> None:
        self.cap_bytes = cap_bytes
        self.open: dict[int, bytearray] = {}
        self.over = False
        self._kept: list[bytearray] = []
        self._stack = stack

    def add(self, fd: int) -> None:
        self._stack.callback(os.close, fd)
        self.open[fd] = bytearray()
        self._kept.append(self.open[fd])

    def read(self, fd: int) -> bool:
        """Take what is there, once; False at the end of the stream."""
        kept = self.open[fd]
        try:
            part = os.read(fd, _CHUNK_BYTES)
        except BlockingIOError:
            return True
        room = self.cap_bytes - len(kept)
        kept += part[:room]
        self.over |= len(part) > room
        return bool(part)

    def drain(self) -> None:
        """Take what the dead writers left: every writer is gone, so a pipe holds at most its buffer."""
        for fd in self.open:
            while select.select([fd], [], [], 0)[0] and self.read(fd):
                pass

    def text(self, number: int) -> bytes:
        return bytes(self._kept[number])
