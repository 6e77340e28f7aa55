"""The child of one call: gives up every right, installs the system call filter, then runs the policy's code.

Order matters. The cgroup is joined and the limits are set while there are still rights to do so; the filter is last but one;
the supervisor gets the filter's listener, and only then, with all of the supervisor's descriptors closed, does code run.
"""

import atexit
import builtins
import ctypes
import linecache
import os
import random
import resource
import socket
import sys
import threading
import traceback
import types
from typing import Any, NoReturn

_CODE_FD = 3
_LINK_FD = 4
_SPARE_FD = 100
_SET_DUMPABLE = 4
_THREAD_BYTES = 16 << 20
_FILE_SLACK_BYTES = 128 * 1024
_LONGEST_ARGUMENT = 100_000  # the kernel refuses one of 128 KiB


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def main(
    request: dict[str, Any],
    fds: list[int],
    link: socket.socket,
    *,
    settings: dict[str, Any],
    cgroup_fds: list[int],
    warm: dict[str, Any],
) -> NoReturn:
    """Never returns; a failure before the code starts is told to the supervisor and is no fault of the policy."""
    try:
        os.setsid()
        for fd in cgroup_fds:
            os.write(fd, b"0")
        _keep_only(fds, link)
        _confine(settings, request["limits"])
    except BaseException as error:  # noqa: BLE001  a forked child must not unwind into the supervisor's loop
        try:
            os.write(_LINK_FD, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(127)
    code = _read_code(_CODE_FD)
    if request["language"] == "bash":
        _run_bash(code)
    os.close(_CODE_FD)
    os._exit(_run_python(code.decode(), warm["preimports"], warm["aliases"]))


def _keep_only(fds: list[int], link: socket.socket) -> None:
    """Leave exactly: 0 to 2 the call's streams, its code, and the link to the supervisor until the filter is loaded."""
    out, err, code = fds
    sources = (os.open("/dev/null", os.O_RDONLY), out, err, code, link.fileno())
    for place, source in enumerate(sources):
        os.dup2(source, _SPARE_FD + place, inheritable=False)
    for place in range(len(sources)):
        os.dup2(_SPARE_FD + place, place, inheritable=place != _LINK_FD)
    os.closerange(_LINK_FD + 1, 1 << 20)


def _confine(settings: dict[str, Any], limits: dict[str, Any]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET_DUMPABLE, 1, 0, 0, 0)  # nothing of the supervisor is open here any more
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    _set_limits(limits, limit_user=settings["limit_user"])
    os.umask(0o022)
    if settings["uid"] is not None:
        os.setgroups([])
        os.setresgid(settings["gid"], settings["gid"], settings["gid"])
        os.setresuid(settings["uid"], settings["uid"], settings["uid"])
    os.chdir(
        "/workspace"
    )  # as its owner: whatever rights earlier calls took from others, the runtime restored the owner's
    # The user's change emptied every set but the inheritable one.
    if libc.capset(ctypes.byref((ctypes.c_uint32 * 2)(0x20080522, 0)), ctypes.byref((ctypes.c_uint32 * 6)())):
        raise OSError(ctypes.get_errno(), "capset")
    libc.prctl(
        _SET_DUMPABLE, 1, 0, 0, 0
    )  # the change of user cleared it: otherwise /proc/self, and so /dev/stdout, is closed to the code
    listener = _install_filter(libc, bytes.fromhex(settings["filter"]), settings["seccomp_number"])
    with socket.socket(fileno=_LINK_FD) as link:
        socket.send_fds(link, [b"ok"], [listener])
    os.close(listener)


def _set_limits(limits: dict[str, Any], *, limit_user: bool) -> None:
    def cap(which: int, soft: int, hard: int | None = None) -> None:
        ceiling = resource.getrlimit(which)[1]
        wanted = soft if hard is None else hard
        hard = wanted if ceiling == resource.RLIM_INFINITY else min(wanted, ceiling)
        resource.setrlimit(which, (min(soft, hard), hard))

    with open("/proc/self/statm", "rb") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    cpu_s = max(int(-(-limits["cpu_s"] // 1)), 1)
    cap(resource.RLIMIT_CPU, cpu_s, cpu_s + 1)
    # The cgroup or the sampler counts real memory; this only bounds what one process may map, stacks of threads included.
    cap(resource.RLIMIT_AS, mapped + 2 * limits["memory_bytes"] + limits["processes"] * _THREAD_BYTES)
    # The cgroup or the sampler holds the exact limit. Twice as much leaves the sampler, which looks only now and then, something
    # to see: a bomb that is refused its forks at the limit itself can end as if nothing had been.
    if limit_user:  # not where the user may be one who has other processes on the host
        cap(resource.RLIMIT_NPROC, 2 * limits["processes"] + 2)
    cap(
        resource.RLIMIT_FSIZE, limits["disk_bytes"] + _FILE_SLACK_BYTES
    )  # the runtime must see that the limit was passed
    cap(resource.RLIMIT_NOFILE, 256)
    cap(resource.RLIMIT_CORE, 0)
    cap(resource.RLIMIT_MEMLOCK, 0)
    cap(resource.RLIMIT_MSGQUEUE, 0)


def _install_filter(libc: ctypes.CDLL, instructions: bytes, seccomp_number: int) -> int:
    """Load the filter and return the listener that hears of every breach, from whichever descendant."""
    if libc.prctl(38, 1, 0, 0, 0):  # PR_SET_NO_NEW_PRIVS
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    program = _Program(len(instructions) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    # SECCOMP_SET_MODE_FILTER with SECCOMP_FILTER_FLAG_NEW_LISTENER; the descriptor is close-on-exec.
    listener = int(libc.syscall(seccomp_number, 1, 8, ctypes.byref(program)))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp with a listener was refused (it needs Linux 5.0)")
    return listener


def _read_code(fd: int) -> bytes:
    parts, offset = [], 0
    while part := os.pread(fd, 1 << 20, offset):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _run_bash(code: bytes) -> NoReturn:
    if len(code) < _LONGEST_ARGUMENT:
        os.set_inheritable(_CODE_FD, False)
        script: bytes | str = code
    else:
        script = f". /proc/self/fd/{_CODE_FD}"
    os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-c", script, "bash"], os.environ)


def _run_python(code: str, preimports: list[str], aliases: dict[str, str]) -> int:
    """Run as `python -c` would; returns the exit code."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    for name in preimports:
        top = name.partition(".")[0]
        module.__dict__[top] = sys.modules[top]
    for alias, name in aliases.items():
        module.__dict__[alias] = sys.modules[name]
    sys.modules["__main__"] = module
    sys.argv = ["-c"]
    sys.path.insert(0, "")
    linecache.cache["<code>"] = (len(code), None, code.splitlines(keepends=True), "<code>")
    # Unseeded draws are then the same in every sandbox: an equal call has an equal receipt. A fork reseeds `random` by itself.
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    exit_code = 0
    try:
        exec(compile(code, "<code>", "exec"), module.__dict__)
    except SystemExit as request:
        exit_code = _exit_code(request.code)
    except BaseException as error:  # noqa: BLE001  the policy may raise anything
        exit_code = 1
        _show(error)
    for step in (threading._shutdown, atexit._run_exitfuncs, sys.stdout.flush, sys.stderr.flush):  # type: ignore[attr-defined]
        try:
            step()
        except BaseException:  # noqa: BLE001  the policy's handlers may raise anything
            exit_code = exit_code or 1
    return exit_code


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _show(error: BaseException) -> None:
    """The traceback without this file's own frame."""
    try:
        inner = error.__traceback__.tb_next if error.__traceback__ else None
        traceback.print_exception(type(error), error, inner)
    except BaseException:  # noqa: BLE001  nor can its exceptions be trusted to print
        os.write(2, type(error).__name__.encode())
