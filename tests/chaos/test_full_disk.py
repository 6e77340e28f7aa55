"""DuckDB's disk is full: the auditor says so, keeps what it has, and goes on by itself when there is space again."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bat_events.audit.errors import AuditError
from bat_events.audit.file import MARK, AuditFile
from bat_events.audit.materialiser import Materialiser
from bat_events.audit.places import new_path, next_path
from bat_events.audit.server import HandOver
from bat_events.codec import Codec
from bat_events.consumers import auditor
from bat_events.consumers.auditor import AuditMachine
from bat_events.events.campaign import CampaignPaused
from bat_events.log.interface import Partition, Record
from bat_events.service.runtime import Status, SystemClock
from tests.chaos.disk import Disk, DiskNotToBeHad
from tests.support.samples import as_record, sample, written

EVENTS, BATCH = 3000, 500


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    try:
        made = Disk(tmp_path / "audit", size_mib=8)
    except DiskNotToBeHad as error:
        pytest.skip(str(error))
    try:
        yield made
    finally:
        made.close()


class Log:
    """Records from an offset on, in batches."""

    def __init__(self, records: list[Record], start: dict[Partition, int]) -> None:
        self._left = [record for record in records if record.offset >= start.get(record.place, 0)]

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:  # noqa: ARG002
        taken, self._left = self._left[:BATCH], self._left[BATCH:]
        return taken

    def caught_up(self) -> bool:
        return not self._left

    def close(self) -> None:
        return


@pytest.fixture(scope="module")
def records() -> list[Record]:
    reasons = (sample(CampaignPaused).model_copy(update={"reason": f"{n:0500d}"}) for n in range(EVENTS))
    return [as_record(written(event, ordinal=n), n) for n, event in enumerate(reasons)]


@contextlib.contextmanager
def audit(
    path: Path, records: list[Record], asked: Callable[[], HandOver | None] = lambda: None
) -> Iterator[tuple[AuditMachine, Status, AuditFile]]:
    file = AuditFile(path, "audit")
    status = Status(service="auditor")
    machine = AuditMachine(
        file=file,
        materialiser=Materialiser(codec=Codec(), now=SystemClock().now),
        reader=Log(records, file.offsets()),
        status=status,
        read_from=lambda start: Log(records, dict(start)),
        asked=asked,
    )
    try:
        yield machine, status, file
    finally:
        file.close()


def rows(file: AuditFile) -> tuple[int, int, int]:
    with file.cursor() as cursor:
        found = cursor.execute(
            "SELECT count(*), count(DISTINCT id), (SELECT sum(next_offset) FROM offsets) FROM events"
        ).fetchone()
    assert found is not None
    return found


def step_until_full(machine: AuditMachine, status: Status) -> None:
    for _ in range(2 * EVENTS // BATCH):
        machine.step(0.0)
        if status.doing.startswith("no space left on the disk of"):
            return
    raise AssertionError(f"the disk did not fill: {status.doing}")


def test_a_full_disk_is_said_and_loses_and_doubles_nothing(
    disk: Disk, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditor, "AGAIN_S", 0.05)
    path = disk.folder / "a.duckdb"
    with audit(path, records) as (machine, status, file):
        machine.step(0.0)
        disk.fill()
        step_until_full(machine, status)
        held = rows(file)
        assert held[0] == held[1] == held[2] < EVENTS  # what was committed is whole, and can be asked for
        assert status.behind
        machine.step(0.05)
        machine.step(0.05)
        assert rows(file) == held
    with audit(path, records) as (machine, status, file):  # a new process meets the full disk too
        assert rows(file) == held
        step_until_full(machine, status)
        disk.free()
        while not status.doing.startswith("up to date"):
            machine.step(0.05)
        assert rows(file) == (EVENTS, EVENTS, EVENTS)
        assert not status.behind
    with audit(path, records) as (_, _, file):
        assert rows(file) == (EVENTS, EVENTS, EVENTS)


def rebuilt(path: Path, records: list[Record], mark: str) -> None:
    """What a rebuild of these records leaves beside the live file."""
    made = AuditFile(new_path(path), "audit", lock=False)
    Materialiser(codec=Codec(), now=SystemClock().now).take(made.writer, records)
    made.writer.execute("INSERT INTO meta VALUES ($key, $mark)", {"key": MARK, "mark": mark})
    made.writer.execute("CHECKPOINT")
    made.close()


def test_a_rebuilt_file_that_finds_no_space_is_left_and_the_old_one_stays(
    disk: Disk, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditor, "AGAIN_S", 0.05)
    path = disk.folder / "a.duckdb"
    known, hand_overs = records[: 2 * BATCH], [HandOver("first"), HandOver("second")]
    waiting: list[HandOver] = []
    with audit(path, known, lambda: waiting.pop() if waiting else None) as (machine, status, file):
        while not status.doing.startswith("up to date"):
            machine.step(0.0)
        whole = rows(file)
        rebuilt(path, records[:BATCH], "first")
        waiting.append(hand_overs[0])
        disk.fill()
        machine.step(0.0)
        with pytest.raises(AuditError, match="no space left for the rebuilt file, the old one stays"):
            hand_overs[0].wait(0.0)
        assert rows(file) == whole == (2 * BATCH,) * 3
        assert not file.adopting
        assert not next_path(path).exists()
        disk.free()
        machine.step(0.0)
        rebuilt(path, records[:BATCH], "second")
        waiting.append(hand_overs[1])
        while file.adopting or waiting:
            machine.step(0.0)
        hand_overs[1].wait(0.0)
        assert rows(file) == whole
