"""The doctor's trials: each really isolates, limits or asks something, and says what was lacking, or None.

They answer whether this machine can do it at all; the sandbox itself checks its own settings again when it starts.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_TRIAL_S = 20.0
_CGROUPS = Path("/sys/fs/cgroup")
_LIMIT_BYTES = 48 << 20
_APPETITE_BYTES = 192 << 20
_NO_LIMIT = 1 << 62  # cgroup v1 writes "no limit" as the largest page-aligned number

# Inside: the devices of the network, our own process id, whether a folder that every user may write to can be written to.
_INSIDE = 'grep -c : /proc/net/dev; echo $$; if (: >"$1") 2>&-; then echo writable; else echo read-only; fi'


def output_of(command: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The lines that a command prints; empty where it is missing, fails or does not end."""
    found = shutil.which(command[0], path=env.get("PATH", ""))
    if found is None:
        return []
    try:
        done = subprocess.run(
            [found, *command[1:]], capture_output=True, text=True, timeout=_TRIAL_S, check=True, env=dict(env)
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.splitlines()


def user_namespace_lack(env: Mapping[str, str]) -> str | None:
    """Makes a user namespace with util-linux's unshare."""
    inside = output_of(["unshare", "--user", "--map-root-user", "id", "-u"], env)
    return None if inside == ["0"] else "cannot be made by this user"


def bubblewrap_lack(env: Mapping[str, str]) -> str | None:
    """Runs a shell under bubblewrap and looks at what it sees."""
    found = shutil.which("bwrap", path=env.get("PATH", ""))
    if found is None:
        return "bwrap is not on PATH"
    command = [found, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    trace = Path(f"/var/tmp/bat-doctor-{os.getpid()}")
    try:
        done = subprocess.run(
            [*command, "/bin/sh", "-c", _INSIDE, "sh", str(trace)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TRIAL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{found} does not run: {error}"
    trace.unlink(missing_ok=True)
    seen = done.stdout.split()
    if done.returncode != 0 or len(seen) != 3:
        return f"{found} fails: {done.stderr.strip() or f'exit code {done.returncode}'}"
    devices, pid, system = seen
    lacks = [
        what
        for what, bad in (
            ("the host's network", devices != "1"),
            ("the host's processes", int(pid) > 10),
            ("a writable system", system != "read-only"),
        )
        if bad
    ]
    return f"{found} isolates badly, inside one sees {' and '.join(lacks)}" if lacks else None


def memory_limit_lack() -> str | None:
    """Makes a cgroup with a memory limit and lets a child of ours exceed it, where the kernel lets us make one."""
    own = _own_memory_group()
    if own is None:
        return "no cgroup with a memory controller is mounted"
    # cgroup v2 gives no limits to the children of a group that holds processes, so those above are tried as well.
    lacks = []
    for group in dict.fromkeys((own, own.parent, _hierarchy())):
        lack = _limit_lack(group)
        if lack is None:
            return None
        lacks.append(lack)
    return lacks[0]


def _limit_lack(group: Path) -> str | None:
    try:
        with _child_group(group) as child:
            limit = "memory.max" if (child / "memory.max").exists() else "memory.limit_in_bytes"
            if not (child / limit).exists():
                return f"is not handed down by {group}"
            (child / limit).write_text(str(_LIMIT_BYTES))
            with contextlib.suppress(OSError):  # absent where the kernel counts no swap
                (child / "memory.swap.max").write_text("0")
            eater = "import sys; open(sys.argv[1], 'w').write('0'); b'x' * int(sys.argv[2])"
            done = subprocess.run(
                [sys.executable, "-IS", "-c", eater, str(child / "cgroup.procs"), str(_APPETITE_BYTES)],
                capture_output=True,
                timeout=_TRIAL_S,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return f"a process over its limit in {group} hangs instead of being killed"
    except OSError as error:
        return f"cannot be set in {group}: {error.strerror}"
    if done.returncode == 0:
        return f"is set in {group} but does not bite"
    # A Python that could not even join the group ends with 1; the kernel's killer sends SIGKILL.
    return None if done.returncode == -9 else f"no process can be put into a group under {group}"


def memory_left_in_group() -> int:
    """Bytes until our own cgroup's limit; a huge number where there is none."""
    group = _own_memory_group()
    for limit, usage in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        with contextlib.suppress(OSError, ValueError):
            if group is not None:
                return int((group / limit).read_text()) - int((group / usage).read_text())
    return _NO_LIMIT


def container_engine(env: Mapping[str, str]) -> tuple[str, str | None]:
    """Asks the engine behind DOCKER_HOST, else Docker's or Podman's socket, for its version: (answer, lack)."""
    candidates = [env["DOCKER_HOST"]] if env.get("DOCKER_HOST") else ["unix:///var/run/docker.sock"]
    if not env.get("DOCKER_HOST") and env.get("XDG_RUNTIME_DIR"):
        candidates.append(f"unix://{env['XDG_RUNTIME_DIR']}/podman/podman.sock")
    lacks = []
    for address in candidates:
        try:
            version = _ask_version(address)
        except (OSError, ValueError, KeyError, TypeError) as error:
            lacks.append(f"{address}: {error}")
            continue
        return f"{version} at {address}", None
    return "", "; ".join(lacks)


def image_lack(address: str, image: str) -> str | None:
    """Asks the engine at `address` whether it has an image of that name."""
    try:
        _ask(address, f"/images/{image}/json")
    except (OSError, ValueError) as error:
        return f"no image {image} on the engine at {address} ({error})"
    return None


def _ask_version(address: str) -> str:
    return str(_ask(address, "/version")["Version"])


def _ask(address: str, path: str) -> dict[str, Any]:
    parts = urlsplit(address)
    where: str | tuple[str, int]
    if parts.scheme == "unix":
        family, where = socket.AF_UNIX, parts.path
    elif parts.scheme == "tcp" and parts.hostname:
        family, where = socket.AF_INET, (parts.hostname, parts.port or 2375)
    else:
        raise ValueError("neither unix:// nor tcp://")
    with socket.socket(family) as connection:
        connection.settimeout(5)
        connection.connect(where)
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: engine\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].decode(errors="replace")
    if status.split()[1:2] != ["200"]:
        raise ValueError(f"answers {status!r}")
    found: dict[str, Any] = json.loads(body)
    return found


def _own_memory_group() -> Path | None:
    """The directory of the memory cgroup that this process is in, of either version; the hierarchy's root where that
    directory cannot be seen, as inside a container."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            root = _CGROUPS / "memory"
        elif controllers == "" and "memory" in _controllers(_CGROUPS):
            root = _CGROUPS
        else:
            continue
        own = root / path.lstrip("/")
        return own if own.is_dir() else root if root.is_dir() else None
    return None


def _hierarchy() -> Path:
    return _CGROUPS / "memory" if (_CGROUPS / "memory").is_dir() else _CGROUPS


def _controllers(group: Path) -> list[str]:
    try:
        return (group / "cgroup.controllers").read_text().split()
    except OSError:
        return []


@contextlib.contextmanager
def _child_group(group: Path) -> Iterator[Path]:
    child = group / f"bat-doctor-{os.getpid()}"
    child.mkdir()
    try:
        yield child
    finally:
        child.rmdir()
