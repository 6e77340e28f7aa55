"""Read side by side or record by record: the same tables, on sound, golden and fuzzed logs."""

import dataclasses
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from bat_events.audit.columnar.columns import columns_of
from bat_events.audit.columnar.plan import plan_of
from bat_events.audit.columnar.understand import Understood
from bat_events.audit.file import AuditFile
from bat_events.audit.materialiser import Materialiser
from bat_events.audit.rebuild.compare import compare
from bat_events.codec import Codec
from bat_events.events.base import event_types
from bat_events.log.interface import Partition, Record
from bat_events.replay import ArchiveSource
from tests.support.fuzzing import Fuzzer
from tests.support.samples import as_record, sample, written

GOLDEN = Path(__file__).parents[1] / "golden"
NEVER = 1 << 62


def numbered(found: Sequence[Record]) -> list[Record]:
    """The records, each with an offset of its own."""
    ends: dict[Partition, int] = {}
    out = []
    for record in found:
        ends[record.place] = ends.get(record.place, -1) + 1
        out.append(dataclasses.replace(record, offset=ends[record.place], timestamp_ms=1_780_000_000_000))
    return out


def with_own_ids(found: Sequence[Record], seed: int) -> list[Record]:
    """The records, nine in ten with an id that no other has, so that they are no duplicates."""
    drawn = random.Random(seed)
    out = []
    for record in found:
        own = drawn.randbytes(16).hex().encode() if drawn.random() < 0.9 else None
        headers = tuple((n, own if own and n == "ce_id" and len(v) == 32 else v) for n, v in record.headers)
        out.append(dataclasses.replace(record, headers=headers))
    return out


def differences(folder: Path, found: Sequence[Record], batch: int) -> list[str]:
    """The tables that differ between the two ways; the quick way must have been taken."""
    files = []
    for name, least in (("quick", 1), ("slow", NEVER)):
        file = AuditFile(folder / f"{name}.duckdb", "audit", lock=False)
        materialiser = Materialiser(codec=Codec(), now=lambda: datetime(2026, 3, 2, tzinfo=UTC), quick_least=least)
        for begin in range(0, len(found), batch):
            materialiser.take(file.writer, found[begin : begin + batch])
        files.append(file)
    first, second = (lambda sql, file=file: file.writer.execute(sql).fetchall() for file in files)
    assert files[0].offsets() == files[1].offsets()
    odd = [f"{table.table}: {table.first}" for table in compare(first, second, files[0].offsets()).different]
    for file in files:
        file.close()
    return odd


def test_every_event_type_but_dead_letters_is_read_side_by_side() -> None:
    assert {cls.type_name() for cls in event_types() if plan_of(cls) is None} == {
        "DeadLettered",
        "Discarded",
        "Redriven",
    }


def test_every_sound_event_is_understood_and_no_changed_one() -> None:
    sound = [as_record(written(sample(cls, salt)), offset=0) for cls in event_types() for salt in range(3)]
    columns, others = columns_of(sound)
    assert columns is not None
    assert {sound[number].topic for number in others} == {r.topic for r in sound if r.topic.startswith("boundary.")}
    types = {sound[columns.index[row]].headers[4] for row in np.flatnonzero(~Understood(columns).good)}
    assert types == {("ce_type", f"bat.{name}.v1".encode()) for name in ("DeadLettered", "Discarded", "Redriven")}
    changed = [dataclasses.replace(r, value=r.value[:-1] + bytes([r.value[-1] ^ 1])) for r in sound if r.value]
    columns, _ = columns_of(changed)
    assert columns is not None
    assert not Understood(columns).good.any()


def test_sound_events_of_every_type_repeated_and_mixed(tmp_path: Path) -> None:
    found = [as_record(written(sample(cls, salt)), offset=0) for cls in event_types() for salt in range(4)]
    random.Random(1).shuffle(found)
    found = with_own_ids(found, 1)
    repeated = numbered([*found, *found[:40], *found[::7]])
    repeated += [dataclasses.replace(odd, offset=odd.offset + 5000) for odd in _oddities(found[0])]
    assert differences(tmp_path, repeated, 100) == []


def _oddities(record: Record) -> list[Record]:
    """Of a time that there is not, of a campaign of two lines, and of both."""
    two_lines = tuple((n, b"a\nb" if n == "bat_campaign" else v) for n, v in record.headers)
    ids = (f"{number:032x}".encode() for number in (1, 2, 3))
    odd = [
        dataclasses.replace(record, timestamp_ms=1 << 62),
        dataclasses.replace(record, headers=two_lines),
        dataclasses.replace(record, headers=two_lines, timestamp_ms=-5),
    ]
    own = [tuple((n, id_ if n == "ce_id" else v) for n, v in r.headers) for r, id_ in zip(odd, ids, strict=True)]
    return [
        dataclasses.replace(r, headers=headers, offset=number)
        for number, (r, headers) in enumerate(zip(odd, own, strict=True))
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_almost_events(tmp_path: Path, seed: int) -> None:
    fuzzed = list(Fuzzer(seed).inputs(2000))
    sound = [as_record(written(sample(cls, salt)), offset=0) for cls in event_types() for salt in range(6)]
    mixed = [*fuzzed, *sound]
    random.Random(seed).shuffle(mixed)
    assert differences(tmp_path, numbered(with_own_ids(mixed, seed)), 900) == []


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir() if path.is_dir()))
def test_golden_logs(tmp_path: Path, name: str) -> None:
    found = [record for record in ArchiveSource(GOLDEN / name).records() if isinstance(record, Record)]
    assert len(found) > 200
    assert differences(tmp_path, found, 2000) == []
