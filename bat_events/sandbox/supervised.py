"""What a slot is, whichever engine started it: a warm supervisor behind a socket, and descriptors of its writable folders.

A slot is a started, not yet used sandbox. Requests and answers are JSON in one packet each, with descriptors beside them: the
call's output pipes and code go in, the writable folders come out. So output and files never pass through an engine.
"""

import json
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from bat_events.sandbox.interface import SandboxFault

_MESSAGE_BYTES = 1 << 20


class Counters(Protocol):
    """The kernel's word on a sandbox's limits."""

    @property
    def procs(self) -> Sequence[int]:
        """Descriptors that the child of a call writes "0" to, to join the group; none where it is in it already."""
        ...

    def hits(self) -> dict[str, int]:
        """How often the limits "memory" and "processes" have bitten until now."""
        ...

    def remove(self) -> None:
        """Give the group back."""
        ...


class Slot(ABC):
    """A started, warm, not yet used sandbox."""

    name: str
    control: socket.socket
    inputs: Path
    """The host's folder that is /workspace/input inside."""

    def __init__(self) -> None:
        self.folders: list[int] = []

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether the sandbox still runs."""

    @abstractmethod
    def close(self) -> None:
        """End every process and remove every file; safe to call twice."""

    @abstractmethod
    def last_words(self) -> str:
        """What the engine and the supervisor wrote to standard error."""

    def ask(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        """Send a request to the supervisor; raises SandboxFault when it is gone."""
        try:
            socket.send_fds(self.control, [json.dumps(message).encode()], fds)
        except OSError as error:
            raise SandboxFault(f"sandbox {self.name}: its supervisor is gone ({error}); {self.last_words()}") from error

    def answer(self, timeout_s: float) -> dict[str, Any]:
        """The supervisor's next answer; raises SandboxFault when it is gone, silent or reports a fault of its own."""
        try:
            self.control.settimeout(timeout_s)
            data, fds, _, _ = socket.recv_fds(self.control, _MESSAGE_BYTES, 8)
        except OSError as error:
            raise SandboxFault(f"sandbox {self.name}: no answer within {timeout_s} s ({error})") from error
        self.folders += fds
        if not data:
            raise SandboxFault(f"sandbox {self.name}: its supervisor ended; {self.last_words()}")
        reply: dict[str, Any] = json.loads(data)
        if "error" in reply:
            raise SandboxFault(f"sandbox {self.name}: {reply['error']}")
        return reply

    def close_handles(self) -> None:
        """Close the socket, which ends the supervisor, and the folders' descriptors."""
        self.control.close()
        for fd in self.folders:
            os.close(fd)
        self.folders = []
