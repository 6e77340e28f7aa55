"""A slot of bubblewrap: its process, the socket to its supervisor, its folder on the host."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bat_events.sandbox import image as images
from bat_events.sandbox.image import Image
from bat_events.sandbox.interface import SandboxFault, SandboxUnavailable
from bat_events.sandbox.orphans import new_name
from bat_events.sandbox.supervised import Slot

_START_S = 60.0
_END_S = 5.0

_REMEDY = (
    "bubblewrap could not start a sandbox. As a normal user it needs user name spaces "
    "(sysctl user.max_user_namespaces > 0; kernel.unprivileged_userns_clone=1 on older Debian; "
    "kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu); as root inside a container it needs CAP_SYS_ADMIN "
    "(for docker: --privileged); it needs bubblewrap 0.8 or newer. Nothing is run without isolation. It said: "
)


class BubblewrapSlot(Slot):
    """Starts in the constructor, which returns when the imports are warm; must be made by a thread that outlives it."""

    def __init__(
        self, image: Image, *, root: Path, disk_bytes: int, preimports: Sequence[str], aliases: Mapping[str, str]
    ) -> None:
        super().__init__()
        self.name = new_name()
        self._home = root / self.name
        self.inputs = self._home / "input"
        self._home.mkdir(mode=0o700)
        self.inputs.mkdir()
        self.inputs.chmod(0o755)
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {"preimports": list(preimports), "aliases": dict(aliases), "folders": images.WRITABLE}
        command = image.command(
            control_fd=theirs.fileno(), request=json.dumps(request), inputs=self.inputs.resolve(), disk_bytes=disk_bytes
        )
        self._process: subprocess.Popen[bytes] | None = None
        try:
            # A session of its own: Ctrl-C is for the worker, which then closes its sandboxes in order.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={},
            )
            theirs.close()
            self._wait_ready()
        except BaseException:
            theirs.close()
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The host's process id of bubblewrap: unique on the machine while the sandbox lives."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """See Slot."""
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """See Slot."""
        self.close_handles()
        if self._process is not None:
            # Seeing its socket closed the supervisor exits, and the kernel ends the rest before bubblewrap returns.
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stderr:
                self._process.stderr.close()
        shutil.rmtree(self._home, ignore_errors=True)

    def _wait_ready(self) -> None:
        try:
            self.answer(_START_S)
        except SandboxFault as error:
            raise SandboxUnavailable(_REMEDY + str(error)) from error
        if len(self.folders) != len(images.WRITABLE):
            raise SandboxUnavailable(
                f"sandbox {self.name}: got {len(self.folders)} folders, not {len(images.WRITABLE)}"
            )

    def last_words(self) -> str:
        """See Slot."""
        if self._process is None or self._process.stderr is None:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        os.set_blocking(self._process.stderr.fileno(), False)
        words = self._process.stderr.read() or b""
        return f"exit {self._process.poll()}: {words.decode(errors='replace').strip()[-2000:]}"
