"""Build the stack's images on an engine that can reach no registry, of this machine's own files: for trying the stack out.

    python tools/local_images.py [ENGINE-ADDRESS]

The services' image then holds the core packages only (no torch): deciders, gates and auditors run in it, workers that train or
render do not. The broker's image holds this machine's Java and the jars that `make setup` fetched.
"""

import os
import re
import sys
import tarfile
import tempfile
from importlib import metadata
from pathlib import Path

from bat_events.log.local_kafka_parts import find_java, jars_folder
from bat_events.sandbox.docker.base import write_base
from bat_events.sandbox.docker.engine import Engine, connect

ROOT = Path(__file__).resolve().parents[1]


def core_packages() -> list[str]:
    """What pyproject.toml's core needs, with what that needs, as installed here."""
    wanted, found = [], set()
    text = (ROOT / "pyproject.toml").read_text()
    wanted += re.findall(r'^    "([a-z0-9-]+)[><=]', text.split("[project.optional-dependencies]")[0], re.MULTILINE)
    while wanted:
        name = re.sub(r"[-_.]+", "-", wanted.pop()).lower()
        try:
            needs = metadata.distribution(name).requires or []
        except metadata.PackageNotFoundError:
            continue  # needed on another platform only
        if name not in found:
            found.add(name)
            wanted += [re.split(r"[\s\[;><=!~(]", need)[0] for need in needs if "extra ==" not in need]
    return sorted(found)


def build(engine: Engine, name: str, dockerfile: str, files: dict[str, Path], base: str) -> None:
    """Build `dockerfile` with the build argument BASE; `files`: path in the context -> file or folder."""
    with tempfile.TemporaryFile() as context:
        with tarfile.open(fileobj=context, mode="w") as archive:
            for inside, path in files.items():
                archive.add(path, inside, filter=lambda info: None if "__pycache__" in info.name else info)
        context.seek(0)
        steps = engine.api.build(
            fileobj=context,
            custom_context=True,
            dockerfile=dockerfile,
            tag=name,
            buildargs={"BASE": base},
            network_mode="none",
            rm=True,
            decode=True,
        )
        for step in steps:
            if "error" in step:
                raise SystemExit(f"{name}: {step['error']}")
    print(f"built {name}")


def main() -> None:
    """Build both images."""
    engine = connect(sys.argv[1] if len(sys.argv) > 1 else None)
    project = {name: ROOT / name for name in ("bat_events", "consumers", "producers", "replay", "schemas")}
    project |= {name: ROOT / name for name in ("pyproject.toml", "constraints.txt", "README.md", "compose")}
    java, jars = find_java(os.environ).path.resolve().parents[1], jars_folder(os.environ)
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        write_base(archive, core_packages(), extra={"/opt/java": java, "/opt/kafka": jars})
        archive.flush()
        engine.api.import_image_from_file(archive.name, repository="bat-events-local-base", tag="latest")
    build(engine, "bat-events", "compose/services/Dockerfile", project, "bat-events-local-base")
    build(engine, "bat-events-broker", "compose/broker/Dockerfile", {"compose": ROOT / "compose"}, "bat-events")


if __name__ == "__main__":
    main()
