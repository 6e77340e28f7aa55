"""The sandboxes that practice has: the skill library in them, everything else as a policy finds it."""

from collections.abc import Iterator

import pytest

from bat_events.benchmark.registry import sandbox_extras
from bat_events.sandbox.bubblewrap import BubblewrapPool


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BubblewrapPool]:
    paths, modules, aliases = sandbox_extras("mini")
    root = tmp_path_factory.mktemp("hacks")
    with BubblewrapPool(root=root, readonly_paths=paths, preimports=modules, aliases=aliases, prestart=3) as pool:
        yield pool
