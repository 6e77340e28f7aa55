"""The pool of sandboxes on a container engine: a container per rollout, from an image that was built here, used once.

What the container is given stands in `slot`; docs/sandbox.md says what is defended, by which means, and what is not.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import bat_events
from bat_events.sandbox import orphans
from bat_events.sandbox.docker import engine as engines
from bat_events.sandbox.docker.image import DEFAULT_IMAGE, find_image
from bat_events.sandbox.docker.slot import DockerSlot
from bat_events.sandbox.interface import Limits, SandboxUnavailable
from bat_events.sandbox.session import SupervisedSandbox
from bat_events.sandbox.supervised import Slot
from bat_events.sandbox.warm_pool import WarmPool

ENGINE = "docker"
_PROJECT = Path(bat_events.__file__).resolve().parent


class DockerPool(WarmPool):
    """A SandboxPool of containers, some of them started before they are asked for.

    root: a folder of this machine for read-only inputs and sockets; made where missing. What a killed owner left in it, and the
    containers of killed owners, are removed (`reaped`: names and ids).
    readonly_paths: importable folders, first on the path; mounted read-only unless the image holds the same content.
    preimports, aliases: see BubblewrapPool. The packages are those of the image.
    address: the engine's socket, `unix:///…`; None: DOCKER_HOST, else Docker's usual one. runtime: runc, crun or another that the
    engine knows; None: its default. cpus: processors that one container may use.
    Raises SandboxUnavailable, with a remedy, where no engine answers, the image is missing or no container starts.
    """

    def __init__(
        self,
        *,
        root: Path,
        readonly_paths: Sequence[Path] = (),
        preimports: Sequence[str] = ("numpy",),
        aliases: Mapping[str, str] | None = None,
        image: str = DEFAULT_IMAGE,
        address: str | None = None,
        runtime: str | None = None,
        cpus: float = 1.0,
        prestart: int = 1,
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root
        self._aliases = dict(aliases or {})
        self._preimports = tuple(dict.fromkeys((*preimports, *self._aliases.values())))
        self._runtime, self._cpus = runtime, cpus
        self.name = secrets.token_hex(8)
        self.engine = engines.connect(address)
        try:
            if runtime is not None and runtime not in self.engine.runtimes:
                raise SandboxUnavailable(
                    f"the engine at {self.engine.address} knows no runtime {runtime!r}, only {', '.join(self.engine.runtimes)}: "
                    "start it with --add-runtime, or set sandbox.runtime to one of these"
                )
            self._image = find_image(self.engine, image)
            # The image has folders of these names of its own, so what is looked for is what only the host has.
            self.hidden = tuple(
                map(
                    str,
                    (root.resolve(), _PROJECT, self.engine.socket, "/run/docker.sock", "/var/lib/docker", "/sys/class"),
                )
            )
            self._libraries = self._image.place(readonly_paths)
            self.isolation = f"docker ({runtime or self.engine.default_runtime}, {self._image.id})"
            self.reaped = engines.reap(self.engine) + orphans.reap(root, None)
            super().__init__(prestart=prestart)
            self.start_first()
        except BaseException:
            self.engine.close()
            raise

    def start_slot(self, limits: Limits) -> DockerSlot:
        """See WarmPool."""
        return DockerSlot(
            self.engine,
            self._image,
            root=self._root,
            limits=limits,
            runtime=self._runtime,
            cpus=self._cpus,
            pool=self.name,
            libraries=self._libraries,
            preimports=self._preimports,
            aliases=self._aliases,
        )

    def fixed_at_start(self, limits: Limits) -> tuple[int, ...]:
        """See WarmPool: what the engine sets when it makes a container."""
        return (limits.disk_bytes, limits.memory_bytes, limits.processes)

    def occupy(
        self,
        slot: Slot,
        *,
        inputs: Mapping[str, bytes],
        files: Mapping[str, bytes],
        limits: Limits,
        rollout: str,
        forget: Callable[[SupervisedSandbox], None],
    ) -> SupervisedSandbox:
        """See WarmPool."""
        assert isinstance(slot, DockerSlot)
        try:
            if rollout:
                slot.rename(rollout)
        except BaseException:
            slot.close()
            raise
        return SupervisedSandbox(
            slot,
            engine=ENGINE,
            isolation=self.isolation,
            inputs=inputs,
            files=files,
            limits=limits,
            group=slot.counters,
            user=slot.user,
            change_user=False,
            limit_user=False,
            forget=forget,
        )

    def close(self) -> None:
        """See WarmPool."""
        super().close()
        self.engine.close()

    def sweep(self) -> None:
        """See WarmPool: what could not be removed when it was closed is tried once more."""
        engines.remove_all(self.engine, self.name)
