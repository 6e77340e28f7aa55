"""A control group per sandbox, where this process may make one: exact limits on memory and processes, counted by the kernel.

Both hierarchies are known: version 2 (memory and pids enabled for children) and version 1 (two mounts). The supervisor stays
outside of the group, so that the kernel's choice when memory runs out can only fall on what the policy started.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_PREFIX = "bat-"
_REMOVE_S = 2.0


class Cgroup:
    """One sandbox's group. `procs` are descriptors that a child writes "0" to, to join."""

    def __init__(self, folders: dict[str, Path], *, memory_bytes: int, processes: int) -> None:
        self._folders = folders
        self.procs: list[int] = []
        unified = folders["memory"] == folders["pids"]
        try:
            for folder in set(folders.values()):
                folder.mkdir()
            if unified:
                _write(folders["memory"] / "memory.max", memory_bytes)
                _write(folders["memory"] / "memory.swap.max", 0, optional=True)
            else:
                _write(folders["memory"] / "memory.limit_in_bytes", memory_bytes)
                _write(folders["memory"] / "memory.memsw.limit_in_bytes", memory_bytes, optional=True)
            _write(folders["pids"] / "pids.max", processes)
            self._events = open_counters(folders)
            for folder in sorted(set(folders.values())):
                self.procs.append(os.open(folder / "cgroup.procs", os.O_WRONLY))
        except OSError:
            self.remove()
            raise

    _events: dict[str, int]

    def hits(self) -> dict[str, int]:
        """How often each limit has bitten since the group was made."""
        return read_counters(self._events)

    def remove(self) -> None:
        """Close and remove the group; its processes must have been killed."""
        for fd in (*self.procs, *getattr(self, "_events", {}).values()):
            os.close(fd)
        self.procs, self._events = [], {}
        for folder in set(self._folders.values()):
            _remove(folder)


@dataclass(frozen=True, kw_only=True)
class CgroupParent:
    """Where groups can be made: one folder per controller, both the same in version 2."""

    memory: Path
    pids: Path
    version: int = field(default=1)

    def make(self, name: str, *, memory_bytes: int, processes: int) -> Cgroup:
        """A group called `name` (see orphans) with its limits set; raises OSError where the kernel refuses."""
        folders = {"memory": self.memory / (_PREFIX + name), "pids": self.pids / (_PREFIX + name)}
        return Cgroup(folders, memory_bytes=memory_bytes, processes=processes)

    def left_behind(self) -> Iterator[tuple[str, Path]]:
        """(name, folder) of every group of ours below this parent, whoever owns it."""
        for parent in {self.memory, self.pids}:
            with contextlib.suppress(OSError):
                for folder in parent.glob(_PREFIX + "*"):
                    yield folder.name.removeprefix(_PREFIX), folder


def remove_folder(folder: Path) -> None:
    """Remove a group that a dead owner left."""
    _remove(folder)


def find_parent() -> CgroupParent | None:
    """The parent below which this process can make groups that limit memory and processes; None where it cannot."""
    for candidate in _candidates():
        name = f"probe-{os.getpid()}-{time.monotonic_ns()}"
        try:
            candidate.make(name, memory_bytes=64 << 20, processes=4).remove()
        except OSError:
            continue
        return candidate
    return None


def groups_of(pid: int) -> dict[str, Path]:
    """Controller ("memory", "pids") -> the folder of the group that process `pid` is in; raises OSError where none is seen."""
    mounts, own = _mounts(), _own_paths(pid)
    found = {}
    for name in ("memory", "pids"):
        root, path = (mounts.get(name), own.get(name)) if name in mounts else (mounts.get(""), own.get(""))
        if root is None or path is None or not (folder := root / path.lstrip("/")).is_dir():
            raise FileNotFoundError(f"no folder of the {name} group of process {pid} below {root}")
        found[name] = folder
    return found


def open_counters(folders: dict[str, Path]) -> dict[str, int]:
    """Descriptors of the files that count how often the limits of these groups bit."""
    version_1 = (folders["memory"] / "memory.oom_control").exists()
    memory = os.open(folders["memory"] / ("memory.oom_control" if version_1 else "memory.events"), os.O_RDONLY)
    try:
        return {"memory": memory, "processes": os.open(folders["pids"] / "pids.events", os.O_RDONLY)}
    except OSError:
        os.close(memory)
        raise


def read_counters(files: dict[str, int]) -> dict[str, int]:
    """How often each limit has bitten since its group was made."""
    return {"memory": _counter(files["memory"], b"oom_kill"), "processes": _counter(files["processes"], b"max")}


def _candidates() -> Iterator[CgroupParent]:
    mounts = _mounts()
    own = _own_paths()
    if (root := mounts.get("")) is not None:
        for path in dict.fromkeys((_below(root, own.get("", "/")), root)):
            with contextlib.suppress(OSError):
                if {"memory", "pids"} <= set((path / "cgroup.subtree_control").read_text().split()):
                    yield CgroupParent(memory=path, pids=path, version=2)
    if "memory" in mounts and "pids" in mounts:
        here = {name: _below(mounts[name], own.get(name, "/")) for name in ("memory", "pids")}
        yield CgroupParent(memory=here["memory"], pids=here["pids"])
        yield CgroupParent(memory=mounts["memory"], pids=mounts["pids"])


def _mounts() -> dict[str, Path]:
    """Controller ("" for version 2) -> mount point."""
    found: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        point = Path(left.split()[4])
        if kind == "cgroup2":
            found.setdefault("", point)
        elif kind == "cgroup":
            for name in ("memory", "pids"):
                if name in options.split(" ")[-1].split(","):
                    found.setdefault(name, point)
    return found


def _own_paths(pid: int | str = "self") -> dict[str, str]:
    """Controller ("" for version 2) -> path of the group of process `pid` below the mount point."""
    found = {}
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            found[name] = path
    return found


def _below(root: Path, path: str) -> Path:
    return root / path.lstrip("/") if (root / path.lstrip("/")).is_dir() else root


def _write(path: Path, value: int, *, optional: bool = False) -> None:
    try:
        path.write_text(str(value))
    except OSError:
        if not optional:
            raise


def _counter(fd: int, name: bytes) -> int:
    for line in os.pread(fd, 4096, 0).splitlines():
        key, _, value = line.partition(b" ")
        if key == name:
            return int(value)
    return 0


def _remove(folder: Path) -> None:
    """A group whose last process was just killed is busy for a moment."""
    deadline = time.monotonic() + _REMOVE_S
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.002)
            continue
        return
