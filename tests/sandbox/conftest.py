"""One warm pool of each kind for the tests. Where bubblewrap cannot run they fail with its remedy; where no container
engine can be started, its half is skipped with the reason."""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from quick_limits import QUICK

from bat_events.sandbox.bubblewrap import BubblewrapPool
from bat_events.sandbox.docker import private_engine
from bat_events.sandbox.docker.build import LOCAL, build_image
from bat_events.sandbox.docker.engine import connect
from bat_events.sandbox.docker.pool import DockerPool
from bat_events.sandbox.docker.private_engine import PrivateEngine
from bat_events.sandbox.session import SupervisedSandbox
from bat_events.sandbox.warm_pool import WarmPool


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    folder.chmod(0o755)
    (folder / "practice_skills.py").write_text("calls = []\n\ndef double(x):\n    return 2 * x\n")
    return folder


@pytest.fixture(scope="session")
def engine(library: Path) -> Iterator[PrivateEngine]:
    """A container engine of the tests' own, with the sandbox image built from this machine's files."""
    if why := private_engine.lack():
        pytest.skip(why)
    with PrivateEngine() as engine:
        client = connect(engine.address)
        build_image(client, base=LOCAL, libraries=[library], packages=["numpy"])
        client.close()
        yield engine


@pytest.fixture(scope="session", params=["bubblewrap", "docker"])
def pool(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, library: Path) -> Iterator[WarmPool]:
    root = tmp_path_factory.mktemp("sandboxes")
    made: WarmPool
    if request.param == "bubblewrap":
        made = BubblewrapPool(root=root, readonly_paths=[library], aliases={"m": "practice_skills"}, prestart=2)
    else:
        engine: PrivateEngine = request.getfixturevalue("engine")
        made = DockerPool(
            root=root,
            readonly_paths=[library],
            aliases={"m": "practice_skills"},
            address=engine.address,
            runtime=engine.runtimes[0],
            prestart=2,
        )
    with made as pool:
        yield pool


@pytest.fixture
def sandbox(pool: WarmPool) -> Iterator[SupervisedSandbox]:
    with pool.open(inputs={"input/case/a.txt": b"alpha"}, files={"notes/plan.txt": b"plan"}, limits=QUICK) as sandbox:
        yield sandbox


def open_handles() -> Counter[str]:
    """Open descriptors by what they lead to; other tests' broker clients, which reconnect when they like, are left out."""
    network = {connection.fd for connection in psutil.Process().net_connections("inet")}
    found: Counter[str] = Counter()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            if int(name) not in network:
                found[os.readlink(f"/proc/self/fd/{name}").split("[")[0]] += 1
    return found


def wait_until(condition: str, check: object, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
        time.sleep(0.05)
