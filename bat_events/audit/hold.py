"""A lock that the kernel takes back from whoever dies."""

import fcntl
import os
import time
from pathlib import Path

from bat_events.audit.errors import AuditBusy


class Hold:
    """Holds `path` until `release`, or until the process ends in whatever way. The file itself stays: removing it would let two
    hold it. Raises AuditBusy with `message` where another process holds it longer than `wait_s`.
    """

    def __init__(self, path: Path, message: str, wait_s: float = 0.0) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    self.release()
                    raise AuditBusy(message) from None
                time.sleep(0.1)

    def release(self) -> None:
        """Let go."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
