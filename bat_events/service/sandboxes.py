"""Which pool serves: the container engine where it can, else bubblewrap, and never neither.

The choice is made once, when a worker starts, and is in every receipt. A pool whose limits do not bite does not serve: that is an
error, not a reason to take the other one.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bat_events.sandbox.interface import SandboxUnavailable
from bat_events.sandbox.selftest import QUICK, require_limits
from bat_events.sandbox.warm_pool import WarmPool
from bat_events.settings import SandboxSettings


def make_pool(
    settings: SandboxSettings,
    *,
    root: Path,
    readonly_paths: Sequence[Path],
    preimports: Sequence[str],
    aliases: Mapping[str, str],
    warn: Callable[[str], None],
) -> WarmPool:
    """A pool that passed the quick self-test. `warn` hears that the weaker isolation is used although another was not ruled out.

    Raises SandboxUnavailable where the settings name an isolation that cannot be had, where none can, or where a limit
    does not bite.
    """
    pool: WarmPool | None = None
    if settings.isolation != "bubblewrap":
        from bat_events.sandbox.docker.pool import DockerPool

        try:
            pool = DockerPool(
                root=root,
                readonly_paths=readonly_paths,
                preimports=preimports,
                aliases=aliases,
                image=settings.image,
                address=settings.docker_host,
                runtime=settings.runtime,
                cpus=settings.cpus,
                prestart=settings.prestart,
            )
        except SandboxUnavailable as error:
            if settings.isolation == "docker":
                raise
            warn(f"bubblewrap is used, the weaker isolation (sandbox.isolation: auto), because {error}")
    if pool is None:
        from bat_events.sandbox.bubblewrap import BubblewrapPool

        pool = BubblewrapPool(
            root=root, readonly_paths=readonly_paths, preimports=preimports, aliases=aliases, prestart=settings.prestart
        )
    try:
        require_limits(pool, QUICK)
    except BaseException:
        pool.close()
        raise
    return pool
