"""What bench/rebuild.py measures, each in a process of its own: a function of (archive, folder for DuckDB's files) -> events."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

NAMESPACE = "bench"


class Clock:
    """Wall and processor seconds of what is measured, preparations left out."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Counts while it is open."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu


def _materialiser(quick_least: int | None = None) -> Any:
    from bat_events.audit.materialiser import QUICK_LEAST, Materialiser
    from bat_events.codec import Codec

    least = QUICK_LEAST if quick_least is None else quick_least
    return Materialiser(codec=Codec(), now=lambda: datetime.now(UTC), quick_least=least)


def _source(archive: Path) -> Any:
    from bat_events.audit.materialiser import AUDITED
    from bat_events.audit.rebuild import ArchiveRecords

    return ArchiveRecords(archive, AUDITED, check=False)


def lines(archive: Path, folder: Path, clock: Clock) -> int:  # noqa: ARG001
    """Read every record and its envelope one by one, as replay does; no body is decoded, nothing is written."""
    from bat_events.replay.archive_lines import archive_lines
    from bat_events.replay.archive_reader import ArchiveReader

    with clock.running():
        streams = archive_lines(ArchiveReader(archive, check=False))
        return sum(1 for stream in streams.values() for _ in stream)


def columns(archive: Path, folder: Path, clock: Clock) -> int:  # noqa: ARG001
    """Unpack the archive and find every record and header, side by side."""
    from bat_events.audit.columnar.archive import column_batches

    source = _source(archive)
    with clock.running():
        return sum(len(batch) for part in source.parts for batch in column_batches(source.reader, part))


def _batches(archive: Path) -> Iterator[Any]:
    from bat_events.audit.rebuild.rebuilder import read_batches

    yield from read_batches(_source(archive), _materialiser())


def arrow(archive: Path, folder: Path, clock: Clock) -> int:
    """DuckDB alone: ready Arrow tables of the same batches into the same tables, a transaction a batch, and the checkpoint."""
    from bat_events.audit.file import AuditFile
    from bat_events.audit.shape import typed_tables

    file = AuditFile(folder / "arrow.duckdb", NAMESPACE, lock=False)
    count = 0
    for batch in _batches(archive):
        tables = [("events", batch.events), *((typed_tables()[t.cls].name, t.rows) for t in batch.typed)]
        with clock.running():
            file.writer.execute("BEGIN TRANSACTION")
            for name, rows in tables:
                file.writer.register("ready", rows)
                file.writer.execute(f"INSERT INTO {name} SELECT * FROM ready")
                file.writer.unregister("ready")
            file.writer.execute("COMMIT")
        count += batch.records
    with clock.running():
        file.writer.execute("CHECKPOINT")
    file.close()
    return count


def rebuild(archive: Path, folder: Path, clock: Clock) -> int:
    """The whole rebuild, up to the rename; no artefact store, so no receipts."""
    return _rebuild(archive, folder, clock, None)


def one_by_one(archive: Path, folder: Path, clock: Clock) -> int:
    """The same with every record read alone by the codec."""
    from bat_events.audit.file import AuditFile

    materialiser = _materialiser(1 << 62)
    source = _source(archive)
    file = AuditFile(folder / "alone.duckdb", NAMESPACE, lock=False)
    count = 0
    with clock.running():
        for part in source.parts:
            batch = []
            for archived in source.reader.records(part.topic, part.partition):
                batch.append(archived.record)
                count += 1
                if len(batch) == 4096:
                    materialiser.take(file.writer, batch)
                    batch = []
            materialiser.take(file.writer, batch)
        file.writer.execute("CHECKPOINT")
    file.close()
    return count


def _rebuild(archive: Path, folder: Path, clock: Clock, quick_least: int | None) -> int:
    from bat_events.audit.rebuild import Rebuilder

    source = _source(archive)
    rebuilder = Rebuilder(
        home=folder, namespace=NAMESPACE, source=source, materialiser=_materialiser(quick_least), say=lambda _: None
    )
    with clock.running():
        return rebuilder.run().records


Row = Callable[[Path, Path, Clock], int]

ROWS: dict[str, tuple[Row, str]] = {
    "lines": (lines, "reading the archive alone, record by record"),
    "columns": (columns, "reading the archive alone, side by side"),
    "arrow": (arrow, "DuckDB alone, from ready Arrow tables"),
    "one_by_one": (one_by_one, "records read one by one, into DuckDB"),
    "rebuild": (rebuild, "audit rebuild"),
}
