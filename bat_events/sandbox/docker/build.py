"""Builds the sandbox image from compose/sandbox/Dockerfile on this machine's engine.

Only a base image may come from elsewhere; with the base `local` nothing does.
"""

import io
import json
import tarfile
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from bat_events.sandbox import inside
from bat_events.sandbox.bubblewrap import DEFAULT_PACKAGES
from bat_events.sandbox.docker.base import write_base
from bat_events.sandbox.docker.engine import Engine, faults
from bat_events.sandbox.docker.image import (
    DEFAULT_IMAGE,
    LIBRARIES_LABEL,
    SUPERVISOR_LABEL,
    SandboxImage,
    find_image,
    folder_digest,
    supervisor_digest,
)
from bat_events.sandbox.image import LIBRARIES
from bat_events.sandbox.interface import SandboxUnavailable

DOCKERFILE = Path(__file__).resolve().parents[3] / "compose" / "sandbox" / "Dockerfile"
LOCAL, PUBLIC_BASE = "local", "python:3.11-slim-bookworm"


def build_image(
    engine: Engine,
    *,
    base: str = PUBLIC_BASE,
    libraries: Sequence[Path] = (),
    packages: Sequence[str] = DEFAULT_PACKAGES,
    name: str = DEFAULT_IMAGE,
) -> SandboxImage:
    """Build and check the image called `name`. base: a reference that the engine has or can pull, or "local".

    libraries: importable folders that the image shall hold; packages: distributions, of the versions of this environment.
    Raises SandboxUnavailable with the engine's own last words.
    """
    if not DOCKERFILE.is_file():
        raise SandboxUnavailable(f"{DOCKERFILE} is not there: build the image from a checkout of this project")
    if base == LOCAL:
        base = _import_base(engine, f"{name}-base", packages)
    placed = {folder_digest(path): f"{LIBRARIES}/{number}/{path.name}" for number, path in enumerate(libraries)}
    labels = {SUPERVISOR_LABEL: supervisor_digest(), LIBRARIES_LABEL: json.dumps(placed, sort_keys=True)}
    with tempfile.TemporaryFile() as context:
        _write_context(context, libraries, packages)
        context.seek(0)
        said: list[str] = []
        with faults("the sandbox image could not be built", SandboxUnavailable):
            steps = engine.api.build(
                fileobj=context,
                custom_context=True,
                tag=name,
                buildargs={"BASE": base},
                labels=labels,
                network_mode="none" if base.startswith(f"{name}-base") else "host",
                rm=True,
                forcerm=True,
                decode=True,
            )
            for step in steps:
                said.append(str(step.get("stream") or step.get("error") or "").strip())
                if "error" in step:
                    raise SandboxUnavailable(
                        f"the sandbox image could not be built from {base}: {' | '.join(line for line in said[-6:] if line)}"
                    )
    return find_image(engine, name)


def _import_base(engine: Engine, name: str, packages: Sequence[str]) -> str:
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        write_base(archive, packages)  # type: ignore[arg-type]
        archive.flush()
        with faults("the local base could not be imported", SandboxUnavailable):
            engine.api.import_image_from_file(archive.name, repository=name, tag="latest")
    return f"{name}:latest"


def _write_context(target: io.BufferedIOBase, libraries: Sequence[Path], packages: Sequence[str]) -> None:
    with tarfile.open(fileobj=target, mode="w") as archive:
        archive.add(DOCKERFILE, "Dockerfile")
        needs = "".join(f"{package}=={metadata.version(package)}\n" for package in packages).encode()
        info = tarfile.TarInfo("requirements.txt")
        info.size, info.mode = len(needs), 0o644
        archive.addfile(info, io.BytesIO(needs))
        archive.add(Path(inside.__file__).parent, "supervisor", filter=_plain)
        folder = tarfile.TarInfo("library")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(folder)
        for number, path in enumerate(libraries):
            archive.add(path, f"library/{number}/{path.name}", filter=_plain)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without caches, owned by root, readable by everyone, of no particular time: equal content builds an equal layer."""
    if "__pycache__" in info.name:
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = 0
    info.mode = 0o755 if info.isdir() else 0o644
    return info
