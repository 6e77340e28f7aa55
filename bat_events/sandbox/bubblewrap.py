"""The pool of sandboxes on bubblewrap: name spaces, an unprivileged user and a system call filter on the shared kernel.

As root each sandbox gets a user id of its own; as a normal user it gets a user name space. docs/sandbox.md says what is
defended, by which means, and what is not.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bat_events.sandbox import cgroup
from bat_events.sandbox.image import build_image
from bat_events.sandbox.interface import Limits, SandboxFault
from bat_events.sandbox.orphans import reap
from bat_events.sandbox.session import SupervisedSandbox
from bat_events.sandbox.slot import BubblewrapSlot
from bat_events.sandbox.supervised import Slot
from bat_events.sandbox.warm_pool import WarmPool

ENGINE = "bubblewrap"
ISOLATION = "bubblewrap (weaker)"
"""Weaker than a container: the host's own /usr is what is seen, and no engine apart from this process holds the limits."""

DEFAULT_PACKAGES = ("numpy", "scipy")
# Added to bubblewrap's pid: no two living sandboxes of a machine share a user, and no account has such a number.
_FIRST_UID = 1_000_000_000


class BubblewrapPool(WarmPool):
    """A SandboxPool of bubblewrap sandboxes, some of them started before they are asked for.

    root: a folder of the host for the sandboxes' read-only inputs; made where missing. What a killed owner left in it is removed.
    readonly_paths: folders mounted read-only and importable inside, first on the path.
    preimports: modules that are warm at every call and bound in its globals under their own name; aliases: name -> module, too.
    packages: distributions of this environment that code inside may import; nothing else of site-packages is visible.
    prestart: sandboxes kept warm. Raises SandboxUnavailable, with a remedy, where this machine cannot isolate.
    """

    isolation = ISOLATION
    hidden = ("/home", "/root", "/etc/passwd", "/etc/shadow", "/sys", "/run", "/var", "/mnt")

    def __init__(
        self,
        *,
        root: Path,
        readonly_paths: Sequence[Path] = (),
        preimports: Sequence[str] = ("numpy",),
        aliases: Mapping[str, str] | None = None,
        packages: Sequence[str] = DEFAULT_PACKAGES,
        prestart: int = 1,
        use_cgroup: bool = True,
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root
        self._aliases = dict(aliases or {})
        self._preimports = tuple(dict.fromkeys((*preimports, *self._aliases.values())))
        self.parent = cgroup.find_parent() if use_cgroup else None
        self.as_root = os.geteuid() == 0
        self.reaped = reap(root, self.parent)
        self._image = build_image(
            packages=packages, readonly_paths=readonly_paths, as_root=self.as_root, trace=self.parent is None
        )
        super().__init__(prestart=prestart)
        self.start_first()

    def start_slot(self, limits: Limits) -> BubblewrapSlot:
        """See WarmPool."""
        return BubblewrapSlot(
            self._image,
            root=self._root,
            disk_bytes=limits.disk_bytes,
            preimports=self._preimports,
            aliases=self._aliases,
        )

    def fixed_at_start(self, limits: Limits) -> tuple[int, ...]:
        """See WarmPool: the size of the writable file systems."""
        return (limits.disk_bytes,)

    def occupy(
        self,
        slot: Slot,
        *,
        inputs: Mapping[str, bytes],
        files: Mapping[str, bytes],
        limits: Limits,
        rollout: str,  # noqa: ARG002  a process has no name of its own
        forget: Callable[[SupervisedSandbox], None],
    ) -> SupervisedSandbox:
        """See WarmPool: the control group is made here, with the limits of this rollout."""
        assert isinstance(slot, BubblewrapSlot)
        group = None
        try:
            if self.parent is not None:
                group = self.parent.make(slot.name, memory_bytes=limits.memory_bytes, processes=limits.processes)
        except OSError as error:
            slot.close()
            raise SandboxFault(f"sandbox {slot.name} could not be limited: {error}") from error
        return SupervisedSandbox(
            slot,
            engine=ENGINE,
            isolation=self.isolation,
            inputs=inputs,
            files=files,
            limits=limits,
            group=group,
            user=_FIRST_UID + slot.pid if self.as_root else None,
            change_user=self.as_root,
            forget=forget,
        )

    def sweep(self) -> None:
        """See WarmPool: every slot removed its own folder and group."""
