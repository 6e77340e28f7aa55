"""One rollout's sandbox, from its first file to its last receipt."""

import dataclasses
import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bat_events.sandbox import seccomp, workspace
from bat_events.sandbox.call import Outcome, perform
from bat_events.sandbox.interface import CallEnd, Language, Limits, Receipt, SandboxFault
from bat_events.sandbox.supervised import Counters, Slot


class SupervisedSandbox:
    """One rollout's sandbox, of either engine; made by a pool's `open`. Not for use by two threads at once.

    user: the uid and gid that own the workspace, where this process may give files away; change_user: whether the child of a
    call still has to become that user; limit_user: whether processes are counted by user too. group: the kernel's counters,
    None where only the supervisor counts.
    """

    def __init__(
        self,
        slot: Slot,
        *,
        engine: str,
        isolation: str,
        inputs: Mapping[str, bytes],
        files: Mapping[str, bytes],
        limits: Limits,
        group: Counters | None,
        user: int | None,
        change_user: bool,
        limit_user: bool = True,
        forget: "Callable[[SupervisedSandbox], None]",
    ) -> None:
        self._slot = slot
        self._engine, self._isolation = engine, isolation
        self._limits = limits
        self._calls = 0
        self._forget = forget
        self._group = group
        self._closed = False
        try:
            self._write(inputs, files, user)
            self._initialise(user if change_user else None, limit_user)
            self._before = workspace.take_snapshot(self._folder, max_bytes=limits.disk_bytes)
        except OSError as error:
            self.close()
            raise SandboxFault(f"sandbox {slot.name} could not be prepared: {error}") from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "SupervisedSandbox":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def execute(self, language: Language, code: str) -> Receipt:
        """See Sandbox.execute. A signal's exit code is 128 plus its number, as a shell has it."""
        if self._closed:
            raise SandboxFault(f"sandbox {self._slot.name} is closed")
        started = time.monotonic()
        source = code.encode(errors="surrogatepass")
        refusal = _refusal(language, code, self._limits)
        try:
            if refusal is None:
                outcome = self._perform(language, source)
                os.fchmod(self._folder, 0o755)  # the policy owns it: closing it must not make the next call fail
            else:
                outcome = Outcome(end="exited", exit_code=2, stdout=b"", stderr=refusal.encode())
            after = (
                workspace.take_snapshot(self._folder, max_bytes=self._limits.disk_bytes)
                if refusal is None
                else self._before
            )
        except OSError as error:
            raise SandboxFault(f"sandbox {self._slot.name}: {error}") from error
        if after.over and not self._before.over and outcome.end == "exited":
            outcome = dataclasses.replace(outcome, end="disk", exit_code=None)
        receipt = Receipt(
            index=self._calls,
            engine=self._engine,
            isolation=self._isolation,
            language=language,
            code_digest=hashlib.sha256(source).hexdigest(),
            exit_code=outcome.exit_code,
            end=outcome.end,
            stdout=outcome.stdout.decode(errors="replace"),
            stderr=outcome.stderr.decode(errors="replace"),
            workspace_before=self._before.digest,
            workspace_after=after.digest,
            changes=workspace.compare(self._before, after),
            wall_s=time.monotonic() - started,
        )
        self._calls += 1
        self._before = after
        return receipt

    def files(self) -> dict[str, bytes]:
        """See Sandbox.files; within the disk limit and workspace.FILES_MAX."""
        try:
            return workspace.read_files(self._folder, max_bytes=self._limits.disk_bytes)
        except OSError as error:
            raise SandboxFault(f"sandbox {self._slot.name}: {error}") from error

    def inputs_intact(self) -> bool:
        """Whether the inputs, read again on the host, have the digest they were written with."""
        return _digest_inputs(self._slot.inputs) == self._inputs_digest

    def close(self) -> None:
        """End every process, remove every file; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._slot.close()
        if self._group is not None:
            self._group.remove()
        self._forget(self)

    @property
    def _folder(self) -> int:
        if self._closed:
            raise SandboxFault(f"sandbox {self._slot.name} is closed")
        return self._slot.folders[0]

    def _write(self, inputs: Mapping[str, bytes], files: Mapping[str, bytes], uid: int | None) -> None:
        for path in inputs:
            if workspace.checked_path(path).parts[0] != "input" or path == "input":
                raise ValueError(f"an input's path must start with input/: {path!r}")
        for path in files:
            if workspace.checked_path(path).parts[0] == "input":
                raise ValueError(f"input/ is for inputs, not for writable files: {path!r}")
        owner = None if uid is None else (uid, uid)
        folder = os.open(self._slot.inputs, os.O_RDONLY | os.O_DIRECTORY)
        try:
            workspace.write_files(
                folder, {path.removeprefix("input/"): data for path, data in inputs.items()}, owner=None
            )
        finally:
            os.close(folder)
        self._inputs_digest = _digest_inputs(self._slot.inputs)
        workspace.write_files(self._folder, files, owner=owner)
        if owner is not None:
            os.fchown(self._folder, *owner)
        os.fchmod(self._folder, 0o755)

    def _initialise(self, uid: int | None, limit_user: bool) -> None:
        message = {
            "op": "init",
            "uid": uid,
            "gid": uid,
            "limit_user": limit_user,
            "sample": self._group is None,
            "filter": seccomp.compile_filter().hex(),
            "seccomp_number": seccomp.seccomp_number(),
        }
        self._slot.ask(message, self._group.procs if self._group else ())
        self._slot.answer(10.0)

    @property
    def slot(self) -> Slot:
        """What holds this sandbox: for tests and diagnosis."""
        return self._slot

    def _perform(self, language: Language, source: bytes) -> Outcome:
        hits = self._group.hits() if self._group else {}
        used = [self._use(folder) for folder in self._slot.folders]
        return perform(
            self._slot,
            language=language,
            code=source,
            limits=self._limits,
            over_limit=lambda: self._over_limit(hits, used),
        )

    def _over_limit(self, hits: Mapping[str, int], used: Sequence[tuple[int, int]]) -> CallEnd | None:
        if self._group is not None:
            now = self._group.hits()
            if now["memory"] > hits["memory"]:
                return "memory"
            if now["processes"] > hits["processes"]:
                return "processes"
        for folder, (old_bytes, old_names) in zip(self._slot.folders, used, strict=True):
            new_bytes, new_names = self._use(folder)
            # What an earlier call left full must still be open to cleaning up: only growth is cut short.
            if new_bytes > max(self._limits.disk_bytes, old_bytes) or new_names > max(workspace.FILES_MAX, old_names):
                return "disk"
        return None

    @staticmethod
    def _use(folder: int) -> tuple[int, int]:
        return workspace.bytes_used(folder), workspace.names_used(folder)


def _refusal(language: str, code: str, limits: Limits) -> str | None:
    """Why malformed code is not run; the policy is told, and it is no fault of the sandbox."""
    if language not in ("python", "bash"):
        return f"language must be python or bash, not {language!r}"
    try:
        size = len(code.encode())
    except UnicodeEncodeError:
        return "the code holds surrogates, which are not text"
    if size > limits.code_bytes:
        return f"the code has {size} bytes; at most {limits.code_bytes} are run"
    if "\0" in code:
        return "the code holds a NUL byte"
    return None


def _digest_inputs(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_dir():
            content = b"" if path.is_symlink() else path.read_bytes()
            digest.update(f"{path.relative_to(folder)}\0{len(content)}\0".encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()
