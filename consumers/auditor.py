"""Materialises the log into DuckDB and answers queries meanwhile.

Its offsets are rows of the same file, so it needs no consumer group: killed at any moment it goes on where the last
committed batch ended. It writes nothing to the log.

There are two: the auditor reads every topic but the held-out ones; the held-out auditor reads those, as a user of its own
and into a file of that plane.
"""

import time
from collections.abc import Callable, Mapping

import duckdb
import structlog

from bat_events.audit.errors import AuditError
from bat_events.audit.file import AuditFile, first_line, is_corruption, is_dead, is_full
from bat_events.audit.kept import keep
from bat_events.audit.materialiser import AUDITED, HELDOUT_AUDITED, Materialiser
from bat_events.audit.places import audit_path, heldout_home
from bat_events.audit.server import HandOver, QueryServer, socket_path
from bat_events.log.admin import learn_schemas
from bat_events.log.interface import CrashPoint, LogReader, Partition, Record
from bat_events.log.kafka import KafkaReader
from bat_events.service.context import Context
from bat_events.service.metrics_log import metered
from bat_events.service.runtime import Status, SystemClock, no_crash
from bat_events.service.services import Service

BATCH = 4096
"""Records in one transaction at most: DuckDB takes large batches several times faster, but a batch lies in memory."""

KEEP_SHARE = 0.03
"""Of the time, at most, goes into making kept tables anew while the log grows."""

AGAIN_S = 2.0
"""Between two tries of a batch for which the disk has no space."""

_logger = structlog.get_logger(service="auditor")


class AuditMachine:
    """See the module. `step` takes one batch and returns whether there was one. On a full disk it keeps the batch and waits.

    `read_from` opens a reader at given offsets and `asked` gives the next rebuilt file to take over; without them none is.
    """

    def __init__(
        self,
        *,
        file: AuditFile,
        materialiser: Materialiser,
        reader: LogReader,
        status: Status,
        crash: CrashPoint = no_crash,
        read_from: Callable[[Mapping[Partition, int]], LogReader] | None = None,
        asked: Callable[[], HandOver | None] = lambda: None,
    ) -> None:
        self._file, self._materialiser, self._reader = file, materialiser, reader
        self._status, self._crash = status, crash
        self._read_from, self._asked = read_from, asked
        self._hand_over: HandOver | None = None
        self._held: list[Record] = []
        self._again = self._keep_again = 0.0
        self._unkept = True

    def step(self, timeout_s: float) -> bool:
        """One batch in one transaction. Raises the log's errors, AuditError where the file turns out to be damaged."""
        if self._file.damage is not None:
            raise self._file.set_aside(self._file.damage)
        if not self._file.adopting and not self._held:
            self._begin_take_over()
        if self._held and not self._try_again(timeout_s):
            return False
        records = self._held or self._reader.poll(BATCH, timeout_s)
        if records:
            try:
                self._status.events_out += self._materialiser.take(self._file.writer, records, self._crash)
            except duckdb.Error as error:
                if is_corruption(error):
                    raise self._file.set_aside(str(error)) from error
                if is_full(error) and self._file.adopting:
                    self._give_up(error)
                    return False
                if is_full(error):
                    self._hold(records, error)
                    return False
                raise AuditError(f"{self._file.path}: {error}") from error
            self._held = []
            self._unkept = True
            self._status.events_in += len(records)
        self._status.behind = not self._reader.caught_up()
        self._finish()
        self._keep()
        self._status.doing = self._doing()
        self._status.tell()
        return bool(records)

    def close(self) -> None:
        """Let go of the log."""
        self._reader.close()

    def _begin_take_over(self) -> None:
        """Write a rebuilt file from now on, from where it ends. One that cannot be had changes nothing."""
        hand_over = self._asked()
        if hand_over is None:
            return
        if self._read_from is None:
            hand_over.end("this auditor cannot take a file over")
            return
        try:
            self._file.adopt(hand_over.mark)
        except AuditError as error:
            hand_over.end(str(error))
            return
        self._crash("adopted")
        self._hand_over = hand_over
        self._reader.close()
        self._reader = self._read_from(self._file.offsets())

    def _finish(self) -> None:
        """Put a new file in place once it knows as much as the one that answers."""
        caught_up = not self._status.behind
        if self._file.adopting and (caught_up or self._file.knows_as_much()):
            try:
                self._file.finish()
            except duckdb.Error as error:
                if not is_full(error):
                    raise AuditError(f"{self._file.path}: {error}") from error
                self._give_up(error)
                return
            self._crash("swapped")
            self._end_hand_over(None)
        elif self._file.rebuilding is not None and caught_up:
            self._file.finish()

    def _give_up(self, error: duckdb.Error) -> None:
        """Leave a rebuilt file for which there is no space: the one that answers is whole, and is gone on with."""
        assert self._read_from is not None
        self._file.abandon()
        self._reader.close()
        self._reader = self._read_from(self._file.offsets())
        self._status.behind = True
        self._end_hand_over(f"no space left for the rebuilt file, the old one stays: make some ({first_line(error)})")

    def _end_hand_over(self, error: str | None) -> None:
        if self._hand_over is not None:
            self._hand_over.end(error)
            self._hand_over = None

    def _keep(self) -> None:
        """Make the kept tables anew once all is read, not too often. Where they cannot be made, answers take longer, no more."""
        idle = not (self._status.behind or self._file.adopting or self._file.rebuilding is not None)
        began = time.monotonic()
        if not (self._unkept and idle) or began < self._keep_again:
            return
        try:
            keep(self._file.writer)
            self._unkept = False
        except duckdb.Error as error:
            if is_corruption(error):
                raise self._file.set_aside(str(error)) from error
            _logger.warning("kept tables were not made", file=str(self._file.path), error=first_line(error))
            if is_dead(error):
                self._file.reopen()
        self._keep_again = time.monotonic() + (time.monotonic() - began) / KEEP_SHARE

    def _hold(self, records: list[Record], error: duckdb.Error) -> None:
        """Keep a batch for which there is no space: nothing of it was written, and no other service need stop for it."""
        if not self._held:
            _logger.error("no space", file=str(self._file.path), error=first_line(error))
        self._held, self._again = records, time.monotonic() + AGAIN_S
        self._status.behind = True
        self._status.say(
            f"no space left on the disk of {self._file.path}: make some; what was materialised stays, the next "
            f"{len(records):,} events are tried again every {AGAIN_S:g} s"
        )
        if is_dead(error):
            self._file.reopen()

    def _try_again(self, timeout_s: float) -> bool:
        """Whether it is time to try the batch that is held again; waits a little where it is not."""
        if time.monotonic() >= self._again:
            return True
        time.sleep(min(timeout_s, AGAIN_S))
        return False

    def _doing(self) -> str:
        if self._file.adopting:
            return "taking over a rebuilt audit file"
        if self._file.rebuilding is not None:
            return f"rebuilding the audit file from the log: {self._file.rebuilding}"
        return "reading the log" if self._status.behind else "up to date, answering queries"


def check_log(stored: Mapping[Partition, int], ends: Mapping[Partition, int], file: AuditFile) -> None:
    """Raises AuditError where the log ends before what was already materialised: it is not the same log."""
    for (topic, partition), offset in sorted(stored.items()):
        end = ends.get((topic, partition), 0)
        if offset > end:
            raise AuditError(
                f"{file.path} was made from {topic}[{partition}] up to {offset}, but that partition ends at {end}: the log "
                "was cut or replaced. If that was intended, move the file away and start the auditor again"
            )


def build(context: Context, *, heldout: bool = False) -> Service:
    """An auditor of a namespace: one machine and the query server's threads."""
    home, namespace = context.settings.home, context.settings.namespace
    if heldout:
        home = heldout_home(home)
    codec = context.codec

    def read_from(start: Mapping[Partition, int]) -> KafkaReader:
        topics = HELDOUT_AUDITED if heldout else AUDITED
        return KafkaReader(
            bootstrap=context.bootstrap, namespace=namespace, topics=topics, start=start, group="auditor"
        )

    file = AuditFile(audit_path(home, namespace), namespace)
    closers: list[Callable[[], None]] = [file.close]
    try:
        if file.rebuilding is not None:
            context.status.say(f"rebuilding the audit file from the log: {file.rebuilding}")
        stored = file.offsets()
        reader = read_from(stored)
        opened = reader.close
        closers.insert(0, opened)
        check_log(stored, reader.end_offsets(), file)
        server = QueryServer(file, socket_path(home, namespace))
        closers.insert(0, server.close)
    except BaseException:
        for closer in closers:
            closer()
        raise
    materialiser = Materialiser(
        codec=codec,
        now=SystemClock().now,
        relearn=lambda: learn_schemas(codec, context.bootstrap, namespace),
        artefact=None if heldout else context.store.get,
    )

    def measured(reader: KafkaReader) -> LogReader:
        return metered(reader, context.metrics, context.status.service)

    machine = AuditMachine(
        file=file,
        materialiser=materialiser,
        reader=measured(reader),
        status=context.status,
        read_from=lambda start: measured(read_from(start)),
        asked=server.asked_to_take_over,
    )
    closers[closers.index(opened)] = machine.close  # the reader may be another one by then
    return Service(machines=[machine], closers=closers)
