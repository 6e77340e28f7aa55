"""The pool of sandboxes on bubblewrap: name spaces, an unprivileged user and a system call filter on the shared kernel.

As root each sandbox gets a user id of its own; as a normal user it gets a user name space. docs/sandbox.md says what is
defended, by which means, and what is not.
"""

import contextlib
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from bat_events.sandbox import cgroup
from bat_events.sandbox.image import build_image
from bat_events.sandbox.interface import Limits, SandboxFault
from bat_events.sandbox.orphans import reap
from bat_events.sandbox.session import BubblewrapSandbox
from bat_events.sandbox.slot import Slot

_STARTERS = 2
DEFAULT_PACKAGES = ("numpy", "scipy")


class BubblewrapPool:
    """A SandboxPool of bubblewrap sandboxes, some of them started before they are asked for.

    root: a folder of the host for the sandboxes' read-only inputs; made where missing. What a killed owner left in it is removed.
    readonly_paths: folders mounted read-only and importable inside, first on the path.
    preimports: modules that are warm at every call and bound in its globals under their own name; aliases: name -> module, too.
    packages: distributions of this environment that code inside may import; nothing else of site-packages is visible.
    prestart: sandboxes kept warm. Raises SandboxUnavailable, with a remedy, where this machine cannot isolate.
    """

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
        # bubblewrap ends with the thread that started it, so starters must live as long as the pool.
        self._starters = ThreadPoolExecutor(_STARTERS, thread_name_prefix="sandbox-start")
        self._lock = threading.Lock()
        self._stock: list[Future[Slot]] = []
        self._open: set[BubblewrapSandbox] = set()
        self._prestart = prestart
        self._disk_bytes = Limits().disk_bytes
        self._closed = False
        try:
            first = self._submit()
            first.result()
        except BaseException:
            self._starters.shutdown()
            raise
        self._stock.append(first)
        self._refill()

    def open(self, *, inputs: Mapping[str, bytes], files: Mapping[str, bytes], limits: Limits) -> BubblewrapSandbox:
        """See SandboxPool.open. A new disk limit costs one cold start; later sandboxes are prestarted with it."""
        slot = self._take(limits.disk_bytes)
        while not slot.alive:  # one that waited may have been ended by a machine short of memory
            slot.close()
            slot = self._take(limits.disk_bytes)
        return BubblewrapSandbox(
            slot,
            inputs=inputs,
            files=files,
            limits=limits,
            parent=self.parent,
            as_root=self.as_root,
            forget=self._open,
        )

    def close(self) -> None:
        """Close every sandbox of this pool, used or not."""
        with self._lock:
            self._closed = True
            stock, self._stock = self._stock, []
        for sandbox in list(self._open):
            sandbox.close()
        for future in stock:
            if not future.cancel():
                with contextlib.suppress(SandboxFault):
                    future.result().close()
        self._starters.shutdown()

    def __enter__(self) -> "BubblewrapPool":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _take(self, disk_bytes: int) -> Slot:
        with self._lock:
            if self._closed:
                raise SandboxFault("the sandbox pool is closed")
            unfit = []
            if disk_bytes != self._disk_bytes:
                self._disk_bytes = disk_bytes
                unfit, self._stock = self._stock, []
            future = self._stock.pop(0) if self._stock else self._submit()
            self._refill()
        for other in unfit:
            if not other.cancel():
                other.result().close()
        return future.result()

    def _refill(self) -> None:
        while len(self._stock) < self._prestart:
            self._stock.append(self._submit())

    def _submit(self) -> Future[Slot]:
        return self._starters.submit(
            Slot,
            self._image,
            root=self._root,
            disk_bytes=self._disk_bytes,
            preimports=self._preimports,
            aliases=self._aliases,
        )
