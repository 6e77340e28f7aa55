"""A container engine of one's own, for tests and benchmarks: its own data, its own socket, nothing of the host's network.

It needs root and Debian's docker.io (crun beside it, if wanted). It ends with `stop`, by its own process id.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from bat_events.sandbox.docker.engine import connect
from bat_events.sandbox.interface import SandboxUnavailable

_START_S = 60.0
_END_S = 30.0
INSTALL = "apt-get install -y --no-install-recommends docker.io crun"
# In a mount name space of its own. crun takes the unified hierarchy, where it is mounted beside the older ones, for the whole of
# it. Images and layers lie in memory: that is quick, and gone with the name space.
_ALONE = 'umount /sys/fs/cgroup/unified 2>/dev/null; mount -t tmpfs -o mode=0711,size=2g none "$0" && exec "$@"'


def lack() -> str | None:
    """Why no engine can be started here, or None."""
    if os.geteuid() != 0:
        return "a private container engine needs root"
    if shutil.which("dockerd") is None:
        return f"dockerd is not installed: {INSTALL}"
    return None


class PrivateEngine:
    """A dockerd on a socket of its own; a context manager. Raises SandboxUnavailable where it does not come up."""

    def __init__(self) -> None:
        if why := lack():
            raise SandboxUnavailable(why)
        self.folder = Path(tempfile.mkdtemp(prefix="bat-engine-"))
        self.address = f"unix://{self.folder}/docker.sock"
        crun = shutil.which("crun")
        self.runtimes = ("crun", "runc") if crun else ("runc",)
        (self.folder / "data").mkdir()
        command = ["unshare", "-m", "sh", "-c", _ALONE, f"{self.folder}/data", "dockerd"]
        command += ["--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/exec"]
        command += ["--pidfile", f"{self.folder}/pid", "-H", self.address]
        command += ["--iptables=false", "--bridge=none", "--ip-forward=false"]
        command += [f"--add-runtime=crun={crun}"] if crun else []
        with open(self.folder / "log", "wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def mounts(self) -> int:
        """How many mounts its name space has: images and containers that live."""
        return len(Path(f"/proc/{self._process.pid}/mountinfo").read_text().splitlines())

    def shims(self) -> list[int]:
        """Process ids of its helpers: one for each container that lives."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                line = entry.read_bytes()
                if b"shim" in line and str(self.folder).encode() in line:
                    found.append(int(entry.parent.name))
        return sorted(found)

    def stop(self) -> None:
        """End it and remove all that it kept; safe to call twice."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)  # a session, so a group, of its own
                self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> "PrivateEngine":
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                connect(self.address).close()
            except SandboxUnavailable as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    words = (self.folder / "log").read_text(errors="replace")[-2000:]
                    raise SandboxUnavailable(f"dockerd did not come up: {error}; its log ends: {words}") from error
                time.sleep(0.1)
            else:
                return
