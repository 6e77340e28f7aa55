"""What a sandbox image must hold, and finding one on the engine. It is run by its digest, so what is inside is what was checked.

The image is built here, from compose/sandbox/Dockerfile (see build). Its labels say what it was built from; one that was built
from another supervisor than this code's is refused, for both halves of a protocol must be of one version.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import docker.errors

from bat_events.sandbox import inside
from bat_events.sandbox.docker.engine import Engine, faults
from bat_events.sandbox.image import COMMANDS, LIBRARIES, SUPERVISOR
from bat_events.sandbox.interface import SandboxFault, SandboxUnavailable

CONTROL = "/opt/control"
DEFAULT_IMAGE = "bat-events-sandbox"
SUPERVISOR_LABEL, LIBRARIES_LABEL = "bat-events.supervisor", "bat-events.libraries"
BUILD = "`bat-events sandbox build` makes it"
_START = ("/usr/bin/env", "-u", "HOSTNAME", "/usr/bin/setarch", "-R", f"{COMMANDS}/python3")


@dataclass(frozen=True, kw_only=True)
class SandboxImage:
    """An image of this engine. `id` is its digest; `libraries`: digest of a folder's content -> where it lies inside."""

    id: str
    name: str
    libraries: Mapping[str, str]

    @property
    def start(self) -> list[str]:
        """The command line of the supervisor, but for the socket's path and the request."""
        return [*_START, "-S", "-P", "-s", "-B", f"{SUPERVISOR}/supervisor.py"]

    def place(self, paths: Sequence[Path]) -> dict[str, Path | None]:
        """Where each folder is inside -> the folder of the host to mount there; None where the image holds the same content."""
        placed: dict[str, Path | None] = {}
        for number, path in enumerate(paths):
            if not path.is_dir():
                raise SandboxUnavailable(f"readonly_paths: {path} is not a folder")
            held = self.libraries.get(folder_digest(path))
            if held is not None:
                placed[held] = None
            else:
                placed[f"{LIBRARIES}/mounted-{number}/{path.name}"] = path
        return placed


def find_image(engine: Engine, name: str = DEFAULT_IMAGE) -> SandboxImage:
    """The image called `name`, checked; raises SandboxUnavailable where it is missing or not of this code."""
    try:
        with faults(f"the image {name} cannot be looked up"):
            about = engine.api.inspect_image(name)
    except SandboxFault as error:
        if isinstance(error.__cause__, docker.errors.NotFound):
            raise SandboxUnavailable(f"the engine has no image {name}: {BUILD}") from error
        raise
    known = about["Config"].get("Labels") or {}
    if known.get(SUPERVISOR_LABEL) != supervisor_digest():
        raise SandboxUnavailable(f"the image {name} was built for another version of the sandbox: {BUILD} anew")
    return SandboxImage(id=about["Id"], name=name, libraries=json.loads(known.get(LIBRARIES_LABEL, "{}")))


def supervisor_digest() -> str:
    """SHA-256 of the code that runs as the supervisor."""
    return folder_digest(Path(inside.__file__).parent)


def folder_digest(folder: Path) -> str:
    """SHA-256 of the Python and data files below a folder: sorted paths, sizes, contents; not of what Python caches."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder)}\0{len(content)}\0".encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()
