"""A disk of a few MiB of memory that can be filled, so that writes really fail with ENOSPC."""

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

from tests.chaos.storm import Storm

_SIZE_MIB = 24


class DiskNotToBeHad(Exception):
    """This process may not mount anything."""


class Disk:
    """A tmpfs mounted on `folder`, which is made and empty."""

    def __init__(self, folder: Path, *, size_mib: int = _SIZE_MIB) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._filler = folder / "filler"
        if os.geteuid() != 0:
            raise DiskNotToBeHad("mounting a small disk needs root")
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m,mode=700", "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DiskNotToBeHad(f"a small disk cannot be mounted: {done.stderr.strip()}")

    def fill(self) -> None:
        """Leave no space."""
        with contextlib.suppress(OSError), self._filler.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        """Give the space back."""
        self._filler.unlink(missing_ok=True)

    def full(self) -> bool:
        """Whether there is no space."""
        return shutil.disk_usage(self.folder).free == 0

    def fill_while(self, storm: Storm, seconds: float = 15.0) -> None:
        """No space for the auditor for a while, with a death in the middle of it."""
        self.fill()
        storm.note("disk full", ["auditor"])
        end = time.monotonic() + seconds
        storm.until(lambda: "no space" in storm.field.doing("auditor"), timeout_s=seconds)
        storm.kill(["auditor"], "kill")
        storm.rest(max(2.0, end - time.monotonic()))
        storm.until(lambda: "no space" in storm.field.doing("auditor"), timeout_s=seconds)
        said = storm.field.doing("auditor").partition(":")[0]
        self.free()
        storm.note("space again", ["auditor"], said)

    def close(self) -> None:
        """Unmount, keeping what is on it: what lies there is read after a run."""
        kept = self.folder.with_name(f"{self.folder.name}.kept")
        self.free()
        shutil.copytree(self.folder, kept, dirs_exist_ok=True)
        subprocess.run(["umount", "-l", str(self.folder)], check=True)
        shutil.copytree(kept, self.folder, dirs_exist_ok=True)
        shutil.rmtree(kept)
