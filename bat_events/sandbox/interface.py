"""What a sandbox promises, whichever engine is behind it.

A sandbox serves one rollout: files persist from call to call, processes do not. Every call is answered by a `Receipt`
that the runtime issues from outside the sandbox, so nothing the policy runs can forge one. What the policy caused
(time-out, memory, too many processes, too much output, a breach) is an `end` of the receipt; what it did not cause
raises `SandboxFault`, and the rollout is then missing, never zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from bat_events.errors import Unable

Language = Literal["python", "bash"]

# "exited": ran to its end, whatever the exit code. The others were cut short by the runtime, for that reason.
CallEnd = Literal["exited", "timeout", "memory", "output", "processes", "disk", "breach"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one call (the reference's, scaled by the campaign's settings)."""

    timeout_s: float = 10.0
    memory_bytes: int = 1 << 30
    processes: int = 32
    output_bytes: int = 128 * 1024
    disk_bytes: int = 64 << 20
    cpu_s: float = 10.0
    code_bytes: int = 256 * 1024


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """One path that a call created, changed or removed; digests are SHA-256 hex, None where the file was absent."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """Runtime-issued evidence of one tool call. All fields but `wall_s` are equal when an equal call is made again."""

    index: int
    engine: str  # "bubblewrap" or "docker"
    language: Language
    code_digest: str
    exit_code: int | None  # None unless `end` is "exited"
    end: CallEnd
    stdout: str  # decoded with replacement, clipped at the output limit
    stderr: str
    workspace_before: str  # digest of the sorted (path, size, digest) list of the writable workspace
    workspace_after: str
    changes: tuple[FileChange, ...]
    wall_s: float = field(compare=False)


class SandboxFault(RuntimeError):
    """The infrastructure failed: no fault of the policy. The rollout is missing and must not be scored."""


class SandboxUnavailable(SandboxFault, Unable):
    """No isolation on this machine: the message says what to install. Nothing is ever run bare."""


class Sandbox(Protocol):
    """A workspace with one rollout inside. Use as a context manager; leaving it removes every process and file."""

    def __enter__(self) -> "Sandbox": ...

    def __exit__(self, *exc: object) -> None: ...

    def execute(self, language: Language, code: str) -> Receipt:
        """Run `code` in the workspace; raises SandboxFault on an infrastructure fault only."""
        ...

    def files(self) -> dict[str, bytes]:
        """The writable workspace's regular files now, path relative to the workspace -> content (symlinks are left out)."""
        ...

    def inputs_intact(self) -> bool:
        """Whether the read-only inputs still have the digests they were given with."""
        ...


class SandboxPool(Protocol):
    """Hands out fresh sandboxes, each used once."""

    def open(self, *, inputs: Mapping[str, bytes], files: Mapping[str, bytes], limits: Limits) -> Sandbox:
        """A sandbox whose working directory /workspace holds `files` (writable) and `inputs` (read-only, under input/).

        Paths of `inputs` start with "input/". Raises SandboxUnavailable where no isolation can be had.
        """
        ...

    def close(self) -> None:
        """Remove every process and file that this pool still owns."""
        ...
