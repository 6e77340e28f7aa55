"""A notary over a log in memory, read in drawn interleavings."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from bat_events.codec import Codec
from bat_events.consumers.notary import SEALED, NotaryMachine
from bat_events.consumers.seal_state import seal_type
from bat_events.log.access import HELDOUT_TOPICS
from bat_events.log.interface import CrashPoint, Outgoing, Partition, Record
from bat_events.service.runtime import Status, no_crash
from tests.replay.loop import PARTITIONS, Loop

CODEC = Codec()
START_MS = 1_700_000_000_000
SEALING_AT = datetime.fromtimestamp(START_MS / 1000 + 10_000, UTC)
HOUR_MS = 3_600_000


def timed_records(loop: Loop) -> list[Record]:
    """The loop's records with the times at which they were written: a second for each transaction."""
    found: dict[Partition, list[int]] = {}
    for number, transaction in enumerate(loop.store.transactions):
        for out in transaction:
            found.setdefault((out.topic, out.partition), []).append(START_MS + 1000 * number)
    return [
        replace(record, timestamp_ms=found[where][place])
        for where in sorted(loop.store.records)
        for place, record in enumerate(loop.store.records[where])
    ]


class FixedClock:
    """A clock that says what it is told, a second later each time."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        """See Clock."""
        return self.at

    def sleep(self, seconds: float) -> None:
        """See Clock."""


class ScrambledSealingLog:
    """A SealingLog whose polls take a drawn number of records from drawn partitions."""

    def __init__(self, records: Sequence[Record], topics: Sequence[str], rng: random.Random) -> None:
        self._rng = rng
        self.parts: dict[Partition, list[Record]] = {
            (topic, number): [] for topic in topics for number in range(PARTITIONS[topic])
        }
        for record in records:
            if record.topic in topics:
                self.parts[(record.topic, record.partition)].append(record)
        self._read = dict.fromkeys(self.parts, 0)
        self.positions: dict[Partition, int] = {}
        self.written: list[Record] = []

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:  # noqa: ARG002
        """See LogReader."""
        waiting = [where for where, at in self._read.items() if at < len(self.parts[where])]
        if not waiting:
            return []
        where = self._rng.choice(waiting)
        batch = self.parts[where][self._read[where] :][: self._rng.choice((1, 3, 50))]
        self._read[where] += len(batch)
        self.positions[where] = batch[-1].offset + 1
        return batch

    def caught_up(self) -> bool:
        """See LogReader."""
        return all(at == len(self.parts[where]) for where, at in self._read.items())

    def end_offsets(self) -> Mapping[Partition, int]:
        """See SealingLog."""
        return {where: records[-1].offset + 1 if records else 0 for where, records in self.parts.items()}

    def commit(self, outputs: Sequence[Outgoing], offsets: Mapping[Partition, int], crash: CrashPoint) -> None:  # noqa: ARG002
        """See SealingLog."""
        crash("begun")
        for out in outputs:
            part = self.parts[(out.topic, out.partition)]
            record = Record(
                topic=out.topic,
                partition=out.partition,
                offset=part[-1].offset + 2 if part else 0,
                key=out.key,
                value=out.value,
                headers=out.headers,
                timestamp_ms=out.timestamp_ms or 0,
            )
            part.append(record)
            self.written.append(record)
        crash("committed")

    def close(self) -> None:
        """See LogReader."""


def sealed(
    records: Sequence[Record],
    heads: Path,
    *,
    seed: int = 0,
    heldout: bool = False,
    salt: Callable[[], bytes] = lambda: b"\x07" * 32,
    crash: CrashPoint = no_crash,
) -> list[Record]:
    """The records of the seals that a notary adds to a log, which may hold seals already."""
    topics = ("round", *HELDOUT_TOPICS) if heldout else SEALED
    log = ScrambledSealingLog(records, topics, random.Random(seed))
    own = seal_type(heldout=heldout).TOPIC
    machine = NotaryMachine(
        log=log,
        seals=[CODEC.decode(record) for record in records if record.topic == own],
        codec=CODEC,
        clock=FixedClock(SEALING_AT),
        status=Status(service="notary"),
        partitions=PARTITIONS,
        heads=heads,
        heldout=heldout,
        salt=salt,
        crash=crash,
    )
    idle = 0
    try:
        while idle < 3:
            idle = 0 if machine.step(0.0) else idle + 1
    except BaseException as error:
        error.written = log.written  # type: ignore[attr-defined]
        raise
    return log.written
