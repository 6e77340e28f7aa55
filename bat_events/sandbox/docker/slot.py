"""A slot of the container engine: one container, whose first process is the supervisor, on a socket of its own.

The supervisor connects to a socket in a folder that is mounted read-only; the runtime takes that one connection, checks by the
kernel's word that it comes from this container, and removes the socket before any code of a policy runs. Output pipes, code and
the descriptors of the writable folders pass over it, so no stream and no file of a call goes through the engine, and
reading and limiting them is the same code for both engines.
"""

import contextlib
import json
import os
import re
import secrets
import select
import shutil
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bat_events.sandbox.docker.counters import ContainerCounters
from bat_events.sandbox.docker.engine import Engine, faults, labels, remove
from bat_events.sandbox.docker.image import CONTROL, SandboxImage
from bat_events.sandbox.docker.profile import seccomp_profile
from bat_events.sandbox.image import SLACK_BYTES, WORKSPACE, WRITABLE, environment
from bat_events.sandbox.interface import Limits, SandboxFault, SandboxUnavailable
from bat_events.sandbox.orphans import new_name
from bat_events.sandbox.supervised import Slot

_START_S = 60.0
_LOOK_S = 0.5
_SOCKET = "supervisor"
# Numbers that no account has, apart from those of bubblewrap's sandboxes.
_FIRST_UID, _UIDS = 1_100_000_000, 900_000_000
SUPERVISOR_BYTES = 32 << 20
"""What the supervisor with its imports may hold beside a call's memory: the engine limits both together."""


MASKED = (
    *(
        "/proc/acpi",
        "/proc/asound",
        "/proc/interrupts",
        "/proc/kcore",
        "/proc/keys",
        "/proc/latency_stats",
        "/proc/scsi",
    ),
    *("/proc/sched_debug", "/proc/timer_list", "/proc/timer_stats", "/sys"),
)
READONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


class DockerSlot(Slot):
    """Starts in the constructor, which returns when the imports are warm."""

    def __init__(
        self,
        engine: Engine,
        image: SandboxImage,
        *,
        root: Path,
        limits: Limits,
        runtime: str | None,
        cpus: float,
        pool: str,
        libraries: Mapping[str, Path | None],
        preimports: Sequence[str],
        aliases: Mapping[str, str],
    ) -> None:
        super().__init__()
        self._engine = engine
        self.name = new_name()
        # As a normal user the runtime can write only to files of its own user; the engine's limits do not go by user.
        as_root = os.geteuid() == 0
        self.user = _FIRST_UID + secrets.randbelow(_UIDS) if as_root else os.getuid()
        self.container: str | None = None
        self.counters: ContainerCounters | None = None
        self._home = root / self.name
        self.inputs, folder = self._home / "input", self._home / "control"
        self._home.mkdir(mode=0o700)
        for made in (self.inputs, folder):
            made.mkdir()
            made.chmod(0o755)
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {"preimports": list(preimports), "aliases": dict(aliases), "folders": WRITABLE}
        mounts = [(folder, CONTROL), (self.inputs, f"{WORKSPACE}/input")]
        mounts += [(host, inside) for inside, host in libraries.items() if host is not None]
        try:
            with _listening(folder / _SOCKET, self.user) as listener:
                with faults(f"sandbox {self.name}: the container could not be started"):
                    self._start(image, limits, runtime, cpus, mounts, json.dumps(request), list(libraries), pool)
                self.control.close()
                self.control = self._accept(listener)
            self._wait_ready()
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """See Slot: the supervisor's end of the socket is open."""
        poller = select.poll()
        poller.register(self.control.fileno(), select.POLLRDHUP)
        return not poller.poll(0)

    @property
    def pid(self) -> int:
        """The host's process id of the supervisor."""
        return _peer(self.control)

    def rename(self, rollout: str) -> None:
        """Name the container after its rollout; the last part tells this attempt from others."""
        words = re.sub(r"[^a-zA-Z0-9_.-]+", "-", rollout)
        assert self.container is not None
        with faults(f"sandbox {self.name} could not be named after rollout {rollout}"):
            self._engine.api.rename(self.container, f"bat-{words}-{self.name.rpartition('-')[2]}")

    def close(self) -> None:
        """See Slot. Processes end with the socket; a container that the engine will not remove is left to the pool's sweep."""
        self.close_handles()
        if self.counters is not None:
            self.counters.remove()
        if self.container is not None:
            with contextlib.suppress(SandboxFault):
                remove(self._engine, self.container)
                self.container = None
        shutil.rmtree(self._home, ignore_errors=True)

    def last_words(self) -> str:
        """See Slot."""
        if self.container is None:
            return "it was not made"
        with contextlib.suppress(SandboxFault), faults("no last words"):
            words = self._engine.api.logs(self.container, tail=20)
            state = self._engine.api.inspect_container(self.container)["State"]
            return (
                f"exit {state['ExitCode']}: {words.decode(errors='replace').strip()[-2000:]} {state['Error']}".strip()
            )
        return "the engine says nothing of it"

    def _start(
        self,
        image: SandboxImage,
        limits: Limits,
        runtime: str | None,
        cpus: float,
        mounts: Sequence[tuple[Path, str]],
        request: str,
        libraries: Sequence[str],
        pool: str,
    ) -> None:
        api = self._engine.api
        size = limits.disk_bytes + SLACK_BYTES
        # Files in memory stay when a call is killed. They must never take the supervisor's share: its death would be a fault,
        # and a policy that can cause one could wish a bad rollout away.
        memory = max(limits.memory_bytes, len(WRITABLE) * size) + SUPERVISOR_BYTES
        own = f"rw,exec,nosuid,nodev,mode=1777,size={size},uid={self.user},gid={self.user}"
        host: dict[str, Any] = api.create_host_config(
            network_mode="none",
            ipc_mode="none",
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true", f"seccomp={seccomp_profile()}"],
            pids_limit=limits.processes + 1,  # the supervisor is one
            mem_limit=memory,
            memswap_limit=memory,  # both together: no swap
            nano_cpus=int(cpus * 1e9),
            tmpfs=dict.fromkeys(WRITABLE, own),
            binds=[f"{path.resolve()}:{inside}:ro" for path, inside in mounts],
            log_config={"Type": "json-file", "Config": {"max-size": "64k", "max-file": "1"}},
            runtime=runtime,
        )
        # The engine's usual list does not cover /sys, where crun leaves a writable memory file system in place of control groups.
        host["MaskedPaths"], host["ReadonlyPaths"] = list(MASKED), list(READONLY)
        self.container = api.create_container(
            image=image.id,
            name=f"bat-{self.name}",
            command=[*image.start, f"{CONTROL}/{_SOCKET}", request],
            user=f"{self.user}:{self.user}",
            working_dir=WORKSPACE,
            hostname="sandbox",
            environment=environment(libraries),
            labels=labels(self.name, pool),
            network_disabled=True,
            host_config=host,
        )["Id"]
        api.start(self.container)

    def _accept(self, listener: socket.socket) -> socket.socket:
        deadline = time.monotonic() + _START_S
        listener.settimeout(_LOOK_S)
        while True:
            try:
                control, _ = listener.accept()
            except TimeoutError:
                assert self.container is not None
                with faults(f"sandbox {self.name}"):
                    running = self._engine.api.inspect_container(self.container)["State"]["Running"]
                if not running or time.monotonic() > deadline:
                    raise SandboxUnavailable(f"sandbox {self.name} did not start: {self.last_words()}") from None
                continue
            return control

    def _wait_ready(self) -> None:
        assert self.container is not None
        # Whoever connected must be in this container's control group; its counters then tell which limits bite.
        self.counters = ContainerCounters(self.pid, self.container)
        try:
            self.answer(_START_S)
        except SandboxFault as error:
            raise SandboxUnavailable(f"the container's supervisor could not start: {error}") from error
        if len(self.folders) != len(WRITABLE):
            raise SandboxUnavailable(f"sandbox {self.name}: got {len(self.folders)} folders, not {len(WRITABLE)}")


def _peer(control: socket.socket) -> int:
    """The process id, as this process sees it, of who connected."""
    pid, _, _ = struct.unpack("3i", control.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid)


@contextlib.contextmanager
def _listening(path: Path, user: int) -> Any:
    """A listening socket at `path` that `user` may connect to; it and the path are gone afterwards."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # A socket's path may have 107 bytes only; this one is short however deep the folder lies.
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.chmod(path, 0o600)
        if os.geteuid() == 0:
            os.chown(path, user, user)
        listener.listen(1)
        yield listener
    finally:
        listener.close()
        os.close(folder)
        path.unlink(missing_ok=True)
