"""Rebuilds over records that are there already, in this process or in one that dies at a named moment."""

import functools
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from audit_log import campaign, records

from bat_events.audit.materialiser import Materialiser
from bat_events.audit.rebuild import Rebuilder
from bat_events.codec import Codec
from bat_events.log.interface import Partition, Record

NAMESPACE = "audit"


@functools.cache
def log() -> list[Record]:
    """The small campaign's records, the same in every call: trace ids are drawn."""
    return records(campaign().out)


class ListedRecords:
    """A RecordSource over a list."""

    name = "list of this test"

    def __init__(self, found: Sequence[Record]) -> None:
        self._found = found
        self.total = len(found)
        self.ends: Mapping[Partition, int] = {
            place: max(r.offset + 1 for r in found if r.place == place) for place in {r.place for r in found}
        }

    def ends_now(self) -> Mapping[Partition, int]:
        return self.ends

    def batches(self, most: int) -> Iterator[Sequence[Record]]:  # noqa: ARG002
        half = len(self._found) // 2
        yield self._found[:half]
        yield self._found[half:]

    def close(self) -> None:
        return


def materialiser() -> Materialiser:
    """Writes rows at a fixed time."""
    return Materialiser(codec=Codec(), now=lambda: datetime(2026, 3, 2, tzinfo=UTC))


def rebuilder(
    home: Path, found: Sequence[Record] | None = None, crash: Callable[[str], None] = lambda _: None
) -> Rebuilder:
    """A rebuild of the small campaign's file."""
    source = ListedRecords(log() if found is None else found)
    return Rebuilder(home=home, namespace=NAMESPACE, source=source, materialiser=materialiser(), crash=crash)


def killed_at(moment: str, call: Callable[..., object], *arguments: object) -> None:
    """Run `call(*arguments, crash)` in a process that kills itself at the moment, and wait for its death."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["rebuild_parts"])
    process = processes.Process(target=_run, args=(moment, call, arguments))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, f"not killed at {moment}: exit code {process.exitcode}"


def _run(moment: str, call: Callable[..., object], arguments: Sequence[object]) -> None:
    def crash(where: str) -> None:
        if where == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    call(*arguments, crash)


def rebuild_here(home: Path, found: Sequence[Record], crash: Callable[[str], None]) -> None:
    """A rebuild, for another process."""
    rebuilder(home, found, crash).run()
