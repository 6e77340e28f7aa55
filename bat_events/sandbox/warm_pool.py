"""What every pool does: keep some sandboxes started before they are asked for, use each once, close what is left.

A pool's own part is to start a slot with given limits, and to say which limits a started slot cannot change any more.
"""

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from bat_events.sandbox.interface import Limits, SandboxFault
from bat_events.sandbox.session import SupervisedSandbox
from bat_events.sandbox.supervised import Slot

_STARTERS = 2


class WarmPool(ABC):
    """A SandboxPool that starts `prestart` sandboxes ahead. Subclasses call `start_first` when they are ready to start any."""

    isolation: str
    """Which isolation this pool gives, as receipts have it."""

    hidden: tuple[str, ...]
    """Paths of this machine of which nothing is seen inside."""

    def __init__(self, *, prestart: int) -> None:
        # bubblewrap ends with the thread that started it, so starters must live as long as the pool.
        self._starters = ThreadPoolExecutor(_STARTERS, thread_name_prefix="sandbox-start")
        self._lock = threading.Lock()
        self._stock: list[Future[Slot]] = []
        self._open: set[SupervisedSandbox] = set()
        self._prestart = prestart
        self._limits = Limits()
        self._closed = False

    @abstractmethod
    def start_slot(self, limits: Limits) -> Slot:
        """A warm sandbox; raises SandboxFault, and SandboxUnavailable where none can be had."""

    @abstractmethod
    def fixed_at_start(self, limits: Limits) -> tuple[int, ...]:
        """Those limits that a started sandbox has for good."""

    @abstractmethod
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
        """Put a rollout's workspace into a slot, or close the slot and raise."""

    @abstractmethod
    def sweep(self) -> None:
        """Remove what is left when every sandbox is closed."""

    def start_first(self) -> None:
        """Start one sandbox and wait for it, so that a pool that cannot isolate is never made; then the others."""
        first = self._submit()
        try:
            first.result()
        except BaseException:
            self._starters.shutdown()
            self.sweep()
            raise
        self._stock.append(first)
        self._refill()

    def open(
        self, *, inputs: Mapping[str, bytes], files: Mapping[str, bytes], limits: Limits, rollout: str = ""
    ) -> SupervisedSandbox:
        """See SandboxPool.open. New fixed limits cost one cold start; later sandboxes are prestarted with them."""
        slot = self._take(limits)
        while not slot.alive:  # one that waited may have been ended by a machine short of memory
            slot.close()
            slot = self._take(limits)
        sandbox = self.occupy(
            slot, inputs=inputs, files=files, limits=limits, rollout=rollout, forget=self._open.discard
        )
        self._open.add(sandbox)
        return sandbox

    def settle(self) -> None:
        """Wait until every sandbox that is being started has been."""
        with self._lock:
            stock = list(self._stock)
        for starting in stock:
            starting.result()

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
        self.sweep()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _take(self, limits: Limits) -> Slot:
        with self._lock:
            if self._closed:
                raise SandboxFault("the sandbox pool is closed")
            unfit = []
            if self.fixed_at_start(limits) != self.fixed_at_start(self._limits):
                self._limits = limits
                unfit, self._stock = self._stock, []
            future = self._stock.pop(0) if self._stock else self._submit()
            self._refill()
        for other in unfit:
            if not other.cancel():
                with contextlib.suppress(SandboxFault):
                    other.result().close()
        return future.result()

    def _refill(self) -> None:
        while len(self._stock) < self._prestart:
            self._stock.append(self._submit())

    def _submit(self) -> Future[Slot]:
        return self._starters.submit(self.start_slot, self._limits)
