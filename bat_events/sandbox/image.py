"""What a sandbox can see: the argument list of bubblewrap, worked out once per pool.

The host's folders that are mounted, all read-only: /usr/bin and /usr/lib, this Python, the named packages of this
environment one by one, and the caller's `readonly_paths`. Everything else of the host is absent: other packages (this project
with its graders, and the data sets that images come from, are such), /home, /root, /etc, /var, /sys, sockets.
Paths inside are the same on every machine, so that tracebacks and receipts are.
"""

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from bat_events.sandbox import inside, seccomp
from bat_events.sandbox.interface import SandboxUnavailable

WORKSPACE, PACKAGES, SUPERVISOR, PYTHON = "/workspace", "/opt/packages", "/opt/supervisor", "/opt/python"
LIBRARIES, COMMANDS = "/opt/library", "/opt/bin"
# The three writable file systems, in the order in which the supervisor hands over their descriptors.
WRITABLE = (WORKSPACE, "/tmp", "/dev/shm")
SLACK_BYTES = 256 * 1024  # a full file system is one whose use exceeds the limit, so it must be able to

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True, kw_only=True)
class Image:
    """How sandboxes of one pool are started. `as_root`: with a user of its own per sandbox, instead of a user name space."""

    as_root: bool
    trace: bool  # as root without a cgroup the supervisor must see the memory of another user's processes
    program: str
    python: str
    mounts: tuple[str, ...]
    fixed_addresses: bool

    def command(self, *, control_fd: int, request: str, inputs: Path, disk_bytes: int) -> list[str]:
        """The bubblewrap command line of one sandbox whose /workspace/input is the host folder `inputs`."""
        size = str(disk_bytes + SLACK_BYTES)
        writable = [part for path in WRITABLE for part in ("--perms", "1777", "--size", size, "--tmpfs", path)]
        start = ["/usr/bin/setarch", "-R"] if self.fixed_addresses else []
        return [
            self.program,
            *self._separation(),
            *self.mounts,
            *writable,
            *("--dir", f"{WORKSPACE}/input", "--ro-bind", str(inputs), f"{WORKSPACE}/input"),
            *("--remount-ro", "/", "--chdir", WORKSPACE, "--"),
            *start,
            *(self.python, "-S", "-P", "-s", "-B", f"{SUPERVISOR}/supervisor.py", str(control_fd), request),
        ]

    def _separation(self) -> list[str]:
        args = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        args += ["--die-with-parent", "--new-session", "--as-pid-1", "--hostname", "sandbox", "--cap-drop", "ALL"]
        if self.as_root:
            rights = ("CAP_SETUID", "CAP_SETGID", "CAP_KILL") + (("CAP_SYS_PTRACE",) if self.trace else ())
            return args + [part for right in rights for part in ("--cap-add", right)]
        return [*args, "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"]


def build_image(*, packages: Sequence[str], readonly_paths: Sequence[Path], as_root: bool, trace: bool) -> Image:
    """Look at this machine; raises SandboxUnavailable naming what is missing and how to get it."""
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxUnavailable("bubblewrap is not installed: apt-get install bubblewrap")
    if not seccomp.supported():
        raise SandboxUnavailable("the system call filter knows x86-64 and arm64 only: use the docker sandbox here")
    python, python_mounts = _python()
    libraries = [f"{LIBRARIES}/{number}/{path.name}" for number, path in enumerate(readonly_paths)]
    mounts = [*_system(), *python_mounts, *_folder("/opt"), *_folder(LIBRARIES), *_packages(packages)]
    mounts += [
        *_folder(COMMANDS),
        "--symlink",
        python,
        f"{COMMANDS}/python",
        "--symlink",
        python,
        f"{COMMANDS}/python3",
    ]
    mounts += ["--ro-bind", str(Path(inside.__file__).parent), SUPERVISOR]
    for source, target in zip(readonly_paths, libraries, strict=True):
        if not source.is_dir():
            raise SandboxUnavailable(f"readonly_paths: {source} is not a folder")
        mounts += [*_folder(str(Path(target).parent)), "--ro-bind", str(source.resolve()), target]
    return Image(
        as_root=as_root,
        trace=trace,
        program=program,
        python=python,
        mounts=(*mounts, *_environment(libraries)),
        fixed_addresses=_can_fix_addresses(),
    )


def _folder(path: str) -> tuple[str, ...]:
    # Without this bubblewrap makes a missing parent with mode 0700, closed to the call's user.
    return ("--perms", "0755", "--dir", path)


def _system() -> list[str]:
    args = [
        *_folder("/usr"),
        *_folder("/etc"),
        "--ro-bind",
        "/usr/bin",
        "/usr/bin",
        "--ro-bind",
        "/usr/lib",
        "/usr/lib",
    ]
    args += ["--ro-bind-try", "/usr/lib64", "/usr/lib64"]
    for name in ("bin", "sbin", "lib", "lib64"):
        top = Path("/", name)
        if top.is_symlink():
            args += ["--symlink", os.readlink(top), str(top)]
        elif top.is_dir():
            args += ["--ro-bind", str(top), str(top)]
    if Path("/usr/lib/python3/dist-packages").is_dir():
        args += ["--tmpfs", "/usr/lib/python3/dist-packages", "--remount-ro", "/usr/lib/python3/dist-packages"]
    args += [
        "--ro-bind-try",
        "/etc/alternatives",
        "/etc/alternatives",
        "--ro-bind-try",
        "/etc/ld.so.cache",
        "/etc/ld.so.cache",
    ]
    args += ["--proc", "/proc", *_folder("/dev")]
    for name in ("null", "zero", "full", "random", "urandom"):
        args += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        args += ["--symlink", f"/proc/self/fd{target}", f"/dev/{name}"]
    return args


def _python() -> tuple[str, list[str]]:
    """The interpreter's path inside, and its mounts; its own site-packages are hidden."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(sys.base_prefix).resolve()
    if base == Path("/usr"):
        return f"/usr/bin/{name}", []
    mounts = [*_folder("/opt"), "--ro-bind", str(base), PYTHON]
    hidden = f"lib/{name}/site-packages"
    if (base / hidden).is_dir():
        mounts += ["--tmpfs", f"{PYTHON}/{hidden}", "--remount-ro", f"{PYTHON}/{hidden}"]
    if not (base / "bin" / name).exists():
        raise SandboxUnavailable(f"no interpreter {name} below {base}/bin: run with a Python that has one")
    return f"{PYTHON}/bin/{name}", mounts


def _packages(names: Sequence[str]) -> list[str]:
    """One read-only mount per top-level file or folder that the named distributions installed."""
    sources: dict[str, Path] = {}
    for name in names:
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError as error:
            raise SandboxUnavailable(f"the sandbox's package {name} is not installed: pip install {name}") from error
        tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}
        sources |= {top: Path(str(distribution.locate_file(top))).resolve() for top in tops}
    mounts = [*_folder("/opt"), *_folder(PACKAGES)]
    for top, source in sorted(sources.items()):
        mounts += ["--ro-bind", str(source), f"{PACKAGES}/{top}"]
    return mounts


def _environment(libraries: Sequence[str]) -> list[str]:
    variables = environment(libraries)
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and Path(sys.base_prefix).resolve() != Path("/usr"):
        variables |= {"LD_LIBRARY_PATH": f"{PYTHON}/lib"}
    return ["--clearenv", *(part for pair in variables.items() for part in ("--setenv", *pair))]


def environment(libraries: Sequence[str]) -> dict[str, str]:
    """The variables of every process inside, whichever engine; `libraries` are importable folders."""
    return {
        "PATH": f"{COMMANDS}:/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "MALLOC_ARENA_MAX": "2",  # an arena per thread would map 128 MiB each
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": ":".join((*libraries, PACKAGES)),
        **dict.fromkeys(_ONE_THREAD, "1"),
    }


@functools.cache
def _can_fix_addresses() -> bool:
    """Whether address randomisation can be switched off: an object's printed address is then the same in every sandbox."""
    try:
        return subprocess.run(["/usr/bin/setarch", "-R", "true"], capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
