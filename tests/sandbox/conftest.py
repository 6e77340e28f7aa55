"""One warm pool for the tests; where bubblewrap cannot run they fail with its remedy, they never skip."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from quick_limits import QUICK

from bat_events.sandbox.bubblewrap import BubblewrapPool, BubblewrapSandbox

OpenSandbox = Callable[..., BubblewrapSandbox]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    folder.chmod(0o755)
    (folder / "practice_skills.py").write_text("calls = []\n\ndef double(x):\n    return 2 * x\n")
    return folder


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Iterator[BubblewrapPool]:
    with BubblewrapPool(
        root=tmp_path_factory.mktemp("sandboxes"),
        readonly_paths=[library],
        preimports=["numpy"],
        aliases={"m": "practice_skills"},
        prestart=2,
    ) as pool:
        yield pool


@pytest.fixture
def sandbox(pool: BubblewrapPool) -> Iterator[BubblewrapSandbox]:
    with pool.open(inputs={"input/case/a.txt": b"alpha"}, files={"notes/plan.txt": b"plan"}, limits=QUICK) as sandbox:
        yield sandbox
