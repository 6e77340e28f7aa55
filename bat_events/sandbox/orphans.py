"""Names that say who owns a sandbox's folder or group, so that a later pool can remove what a killed worker left.

The owner's processes need no reaping: bubblewrap and the supervisor inside end with the thread that started them.
"""

import contextlib
import os
import re
import secrets
import shutil
from pathlib import Path

from bat_events.sandbox.cgroup import CgroupParent, remove_folder

_NAME = re.compile(r"(\d+)-(\d+)-[0-9a-f]{12}")


def new_name() -> str:
    """A name that no other sandbox has: owner's pid, owner's start in clock ticks since boot, a random part."""
    return f"{os.getpid()}-{_started(os.getpid())}-{secrets.token_hex(6)}"


def owner_is_gone(name: str) -> bool:
    """Whether `name` was given by `new_name` in a process that no longer runs."""
    match = _NAME.fullmatch(name)
    return match is not None and _started(int(match[1])) != int(match[2])


def reap(root: Path, parent: CgroupParent | None) -> list[str]:
    """Remove the folders below `root` and the groups below `parent` of dead owners; returns their names."""
    gone = []
    for folder in root.iterdir():
        if owner_is_gone(folder.name):
            shutil.rmtree(folder, ignore_errors=True)
            gone.append(folder.name)
    for name, group in parent.left_behind() if parent else ():
        if owner_is_gone(name):
            remove_folder(group)
            gone.append(name)
    return sorted(set(gone))


def _started(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        # The command's name may hold spaces and brackets; the fields after the last bracket do not.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return None
