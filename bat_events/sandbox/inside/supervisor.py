"""Process 1 of a sandbox: holds warm imports, forks one child per call, kills whatever the call left running.

Being process 1 it cannot be signalled from inside; being undumpable it cannot be traced or read through /proc. It reads
nothing that the policy can write: its only input is the runtime's socket, which a child closes before any code runs.
Leaving it closed (the runtime died or is done) ends this process, and the kernel then ends every other one in here.
"""

import array
import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

_MESSAGE_BYTES = 1 << 20
_REAP_EVERY_MS = 100
_SAMPLE_EVERY_MS = 20


class Supervisor:
    """The loop over requests; one instance per sandbox."""

    def __init__(self, control: socket.socket, run_child: Callable[..., NoReturn], warm: dict[str, Any]) -> None:
        self.control = control
        self.run_child = run_child
        self.warm = warm
        self.settings: dict[str, Any] = {}
        self.cgroup_fds: list[int] = []

    def serve(self) -> None:
        """Answer requests until the runtime closes its end."""
        while True:
            data, fds, _, _ = socket.recv_fds(self.control, _MESSAGE_BYTES, 8)
            if not data:
                return
            message = json.loads(data)
            if message["op"] == "init":
                self.settings, self.cgroup_fds = message, fds
                self._reply({"ok": True})
            elif message["op"] == "run":
                self._reply(self._run(message, fds))
            # A "kill" that comes after its call has ended finds nothing to kill.

    def _reply(self, message: dict[str, Any]) -> None:
        self.control.send(json.dumps(message).encode())

    def _run(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            self.run_child(message, fds, theirs, settings=self.settings, cgroup_fds=self.cgroup_fds, warm=self.warm)
        for fd in fds:
            os.close(fd)
        theirs.close()
        with ours:
            note, handles, _, _ = socket.recv_fds(ours, 4096, 1)
        if not handles:
            self._reap_all(pid)
            return {"unconfined": note.decode(errors="replace") or "the child died before it was confined"}
        try:
            verdict, status, cpu_s = self._watch(pid, handles[0], message["limits"])
        finally:
            os.close(handles[0])
        return {"status": status, "cpu_s": cpu_s, "verdict": verdict}

    def _watch(self, pid: int, listener: int, limits: dict[str, Any]) -> tuple[str | None, int, float]:
        """Wait for the child; returns (why it was cut short, wait status, CPU seconds of it and what it waited for)."""
        sampling = bool(self.settings["sample"])
        poller = select.poll()
        pidfd = os.pidfd_open(pid)
        for fd in (self.control.fileno(), listener, pidfd):
            poller.register(fd, select.POLLIN)
        verdict: str | None = None
        try:
            while True:
                events = dict(poller.poll(_SAMPLE_EVERY_MS if sampling else _REAP_EVERY_MS))
                if listener in events:
                    if events[listener] & select.POLLIN:
                        verdict = "breach"
                        break
                    poller.unregister(listener)
                if self.control.fileno() in events:
                    if not self.control.recv(_MESSAGE_BYTES):
                        os._exit(0)
                    break
                if pidfd in events:
                    break
                self._reap_orphans(pid)
                if sampling and (verdict := _over_limit(limits)):
                    break
        finally:
            os.close(pidfd)
        # One pass is enough: the kernel refuses a fork to a process that has a fatal signal pending.
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        status, cpu_s = self._reap_all(pid)
        return verdict, status, cpu_s

    @staticmethod
    def _reap_orphans(pid: int) -> None:
        """Daemons that ended must not go on counting as processes of the call."""
        while True:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None or found.si_pid in (0, pid):
                return
            os.waitpid(found.si_pid, 0)

    @staticmethod
    def _reap_all(pid: int) -> tuple[int, float]:
        status, cpu_s = 0, 0.0
        while True:
            try:
                reaped, code, usage = os.wait4(-1, 0)
            except ChildProcessError:
                return status, cpu_s
            if reaped == pid:
                status, cpu_s = code, usage.ru_utime + usage.ru_stime


def _over_limit(limits: dict[str, Any]) -> str | None:
    """What the processes in here exceed together, by reading /proc: for machines without a usable cgroup."""
    page = os.sysconf("SC_PAGE_SIZE")
    tasks, resident, pids = 0, 0, []
    for name in os.listdir("/proc"):
        if not name.isdigit() or name == "1":
            continue
        try:
            with open(f"/proc/{name}/statm", "rb") as statm:
                resident += int(statm.read().split()[1]) * page
            tasks += len(os.listdir(f"/proc/{name}/task"))
        except (OSError, IndexError):
            continue
        pids.append(name)
    if tasks > limits["processes"]:
        return "processes"
    if resident > limits["memory_bytes"] and sum(map(_proportional_bytes, pids)) > limits["memory_bytes"]:
        return "memory"
    return None


def _proportional_bytes(pid: str) -> int:
    """Memory of a process with shared pages divided by their sharers; its whole resident set where that is hidden."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as rollup:
            for line in rollup:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _warm(preimports: list[str]) -> Callable[..., NoReturn]:
    for name in preimports:
        importlib.import_module(name)
    if "numpy" in sys.modules:
        importlib.import_module("numpy.random")  # numpy loads it on first use, which would be in every child
    import site

    site.setquit()
    child = importlib.import_module("child")
    del sys.modules["child"]  # the policy may have a module of that name
    run_child: Callable[..., NoReturn] = child.main
    return run_child


def _connect(where: str) -> socket.socket:
    """The runtime's socket: an inherited descriptor, or a path that the runtime removes as soon as it has heard from us."""
    if where.isdigit():
        control = socket.socket(fileno=int(where))
        control.set_inheritable(False)
    else:
        control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.connect(where)
    return control


def main() -> None:
    control = _connect(sys.argv[1])
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    started = time.monotonic()
    request = json.loads(sys.argv[2])
    sys.path.insert(0, os.path.dirname(__file__))
    try:
        run_child = _warm(request["preimports"])
        handles = [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in request["folders"]]
    except BaseException as error:
        control.send(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
        raise
    sys.path.remove(os.path.dirname(__file__))
    gc.collect()
    gc.freeze()
    ready = json.dumps({"ready": True, "warm_s": time.monotonic() - started}).encode()
    control.sendmsg([ready], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", handles))])
    for fd in handles:
        os.close(fd)
    Supervisor(control, run_child, request).serve()


if __name__ == "__main__":
    main()
    os._exit(0)
