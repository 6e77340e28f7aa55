"""The kernel's counters of a container's control group, read on the host: what a limit's bite is known by."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from bat_events.sandbox import cgroup
from bat_events.sandbox.interface import SandboxUnavailable


class ContainerCounters:
    """Counters of the group that process `pid` (the container's first) is in. The engine made the group and removes it."""

    procs: Sequence[int] = ()

    def __init__(self, pid: int, container: str) -> None:
        try:
            folders = cgroup.groups_of(pid)
        except OSError as error:
            raise SandboxUnavailable(
                f"container {container[:12]}: its control group cannot be read ({error}): run the worker where it sees the "
                "engine's processes and /sys/fs/cgroup, which is the engine's own machine"
            ) from error
        for folder in folders.values():
            if not re.search(rf"(^|[/-]){container}", str(folder)):
                raise SandboxUnavailable(
                    f"container {container[:12]}: process {pid} is in the group {folder}, which does not name that container"
                )
        self._files: dict[str, int] = {}
        try:
            self._files = cgroup.open_counters(folders)
        except OSError as error:
            raise SandboxUnavailable(f"container {container[:12]}: no counter of its limits: {error}") from error

    def hits(self) -> dict[str, int]:
        """See Counters."""
        return cgroup.read_counters(self._files)

    def remove(self) -> None:
        """See Counters: only the descriptors are ours."""
        for fd in self._files.values():
            os.close(fd)
        self._files = {}


def memory_in_use(pid: int) -> int:
    """Bytes charged to the memory group of process `pid`, caches included."""
    folder = cgroup.groups_of(pid)["memory"]
    for name in ("memory.current", "memory.usage_in_bytes"):
        if (path := Path(folder) / name).exists():
            return int(path.read_text())
    raise FileNotFoundError(f"{folder} counts no memory")
