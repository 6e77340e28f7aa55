"""Encode, produce, consume, decode beside raw confluent-kafka; the service loop with and without transactions; its latency.

Run: python bench/log.py [--events N] [--repeats N] [--latency-events N] [--bootstrap HOST:PORT] [--json FILE]. Without a
bootstrap a local broker is started in a temporary folder. All sides move the same keys, headers and bodies with the same client
settings, by turns; rows are medians. Shares of the clock are what counts, and mean something on an idle machine only; those of
processor time (this process with the client's threads, without the broker) hold on a busy one too.
"""

import argparse
import contextlib
import gc
import itertools
import json
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
from log_parts.events import PARTITIONS, TOPICS, encode, events, placed, reward, rollout
from log_parts.loops import BATCH, KINDS, Answers, start
from log_parts.sides import BatReader, RawReader, RawWriter, bat_writer
from rich.console import Console
from rich.table import Table

from bat_events.log.admin import admin_client
from bat_events.log.cluster import Address
from bat_events.log.interface import Outgoing
from bat_events.log.local_kafka import LocalKafka
from bat_events.log.topics import broker_name
from bat_events.service.runtime import collect_seldom

__all__ = ["encode", "events", "reward", "rollout"]  # what bench/peers.py moves too

Spent = tuple[float, float]
"""Seconds of the clock and of the processor."""

_EVERY_S = (0.03, 0.06)  # between two events whose latency is measured: they must not queue
_WARM_UP = 20


class Sheet:
    """What was measured: per row, seconds of clock and processor for an event, one pair for every repeat."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Spent]] = {}

    def add(self, row: str, count: int, spent: Spent) -> None:
        """One measurement of so many events."""
        self.rows.setdefault(row, []).append((spent[0] / count, spent[1] / count))

    def median(self, row: str) -> Spent:
        """The row's medians."""
        clock, processor = zip(*self.rows[row], strict=True)
        return statistics.median(clock), statistics.median(processor)


def spent(call: Callable[[], object]) -> Spent:
    """What a call takes."""
    began, busy = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - began, time.process_time() - busy


def make_topics(address: Address) -> str:
    """A namespace of its own that holds what is needed here."""
    namespace = f"bench-{uuid.uuid4().hex[:8]}"
    wanted = [NewTopic(broker_name(namespace, name), count, 1) for name, count in PARTITIONS.items()]
    admin = admin_client(address)
    for future in admin.create_topics(wanted).values():
        future.result()
    return namespace


@contextlib.contextmanager
def broker(bootstrap: str | None) -> Iterator[Address]:
    """The named broker, or a local one for as long as this lasts."""
    if bootstrap:
        yield bootstrap
        return
    with tempfile.TemporaryDirectory() as folder:
        local = LocalKafka(Path(folder), heap_mb=512, secured=False)
        local.up()
        try:
            yield local.bootstrap
        finally:
            local.down()


def paths(address: Address, count: int, repeats: int, sheet: Sheet) -> float:
    """Encode, produce, consume and decode, by turns; returns a record's mean size in bytes."""
    made = events(count)
    records = encode(made)
    there, here = make_topics(address), make_topics(address)
    writers: dict[str, Any] = {"raw": RawWriter(address, here), "bat-events": bat_writer(address, here)}
    bat_writer(address, there).publish(records)
    for writer in writers.values():
        publish(writer, records[: 4 * BATCH])  # a fresh broker's first transactions are its slowest
    readers: dict[str, Callable[[], Any]] = {
        "raw: consume": lambda: RawReader(address, there, TOPICS),
        "consume": lambda: BatReader(address, there, TOPICS, decode=False),
        "consume and decode": lambda: BatReader(address, there, TOPICS, decode=True),
    }
    gc.collect()
    collect_seldom()  # as services do, and for the bare client too
    for number in range(repeats):
        sheet.add("encode", count, spent(lambda: encode(made)))
        for name, writer in by_turns(list(writers.items()), number):
            row = "produce" if name == "bat-events" else "raw: produce"
            sheet.add(row, count, spent(partial(publish, writer, records)))
        for row, opened in by_turns(list(readers.items()), number):
            reader = opened()
            reader.read(BATCH)  # connected
            seen = 0
            began, busy = time.perf_counter(), time.process_time()
            while seen < count - BATCH:
                seen += reader.read(BATCH)
            sheet.add(row, seen, (time.perf_counter() - began, time.process_time() - busy))
            reader.close()
    return sum(len(r.value) + len(r.key) + sum(len(k) + len(v) for k, v in r.headers) for r in records) / count


def publish(writer: Any, records: Sequence[Outgoing]) -> None:
    """In batches."""
    for at in range(0, len(records), BATCH):
        writer.publish(records[at : at + BATCH])


def by_turns(items: list[Any], number: int) -> list[Any]:
    """Every item, another one first each time."""
    return items[number % len(items) :] + items[: number % len(items)]


def loops(address: Address, count: int, repeats: int, sheet: Sheet) -> None:
    """Each loop catches up on rollouts that are there: between its first answers and its last."""
    records = encode([placed(rollout(number), number) for number in range(count)])
    for number, kind in itertools.product(range(repeats), [k for k in KINDS if k != "worker"]):
        namespace = make_topics(address)
        publish(bat_writer(address, namespace), records)
        answers = Answers(address, namespace)
        process, stop = start(kind, address, namespace)
        assert process.pid is not None
        child = psutil.Process(process.pid)
        first = max(count // 10, BATCH)
        began = answers.wait(first, alive=process.is_alive)
        busy = sum(child.cpu_times()[:2])
        ended = answers.wait(count - first, alive=process.is_alive)
        sheet.add(f"loop: {kind}", count - first, (ended - began, sum(child.cpu_times()[:2]) - busy))
        stop.set()
        process.join(30)
        answers.close()
        print(f"loop {kind}, repeat {number + 1}", flush=True)


def latency(address: Address, count: int) -> dict[str, list[float]]:
    """Seconds from a rollout's commit to its answer, one at a time, all loops by turns while the others wait."""
    records = encode([placed(rollout(number), number) for number in range(_WARM_UP + count)])
    kinds = ("raw", "reactor", "worker")
    sides: dict[str, Any] = {}
    for kind in kinds:
        namespace = make_topics(address)
        process, stop = start(kind, address, namespace)
        sides[kind] = (RawWriter(address, namespace), Answers(address, namespace), process, stop)
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    gaps = random.Random(1)
    for number, record in enumerate(records):
        for kind in by_turns(list(kinds), number):
            writer, answers, process, _ = sides[kind]
            writer.publish([record])
            began = time.perf_counter()
            found[kind].append(answers.wait(1, alive=process.is_alive) - began)
            time.sleep(gaps.uniform(*_EVERY_S))
    for _, answers, process, stop in sides.values():
        stop.set()
        process.join(30)
        answers.close()
    return {kind: seconds[_WARM_UP:] for kind, seconds in found.items()}


_LIMITS = {
    "produce": "raw: produce",
    "consume": "raw: consume",
    "consume and decode": "raw: consume",
    "whole path": "raw: whole path",
    "loop: raw": "loop: raw unsafe",
    "loop: reactor": "loop: reactor unsafe",
}
"""What a row is a share of."""


def table_of(sheet: Sheet, title: str) -> Table:
    """Rates, and shares of the limit."""
    table = Table("step", "events/s", "share of its limit", "µs of CPU", "share by CPU", "its limit", title=title)
    medians = {row: sheet.median(row) for row in sheet.rows}
    for whole, parts in (
        ("raw: whole path", ("raw: produce", "raw: consume")),
        ("whole path", ("encode", "produce", "consume and decode")),
    ):
        medians[whole] = (sum(medians[part][0] for part in parts), sum(medians[part][1] for part in parts))
    for row, (clock, processor) in medians.items():
        limit = _LIMITS.get(row)
        shares = [f"{medians[limit][n] / medians[row][n]:.2f}" if limit else "" for n in (0, 1)]
        table.add_row(row, f"{1 / clock:,.0f}", shares[0], f"{1e6 * processor:.1f}", shares[1], limit or "")
    return table


def latency_table(found: dict[str, list[float]]) -> Table:
    """Percentiles in milliseconds, and how many times the bare client's."""
    table = Table(
        "event to answer", "p50 ms", "times raw", "p99 ms", "times raw", title=f"{len(found['raw'])} events each"
    )
    cuts = {kind: statistics.quantiles(seconds, n=100) for kind, seconds in found.items()}
    for kind, cut in cuts.items():
        row = [
            f"{1000 * cut[n]:.1f}" if number == 0 else f"{cut[n] / cuts['raw'][n]:.2f}"
            for n in (49, 98)
            for number in (0, 1)
        ]
        table.add_row(kind, *row)
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--latency-events", type=int, default=400)
    parser.add_argument("--bootstrap")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sheet, console, found = Sheet(), Console(width=None if sys.stdout.isatty() else 150), {}
    with broker(options.bootstrap) as address:
        size = paths(address, options.events, options.repeats, sheet)
        loops(address, options.events, max(1, options.repeats * 3 // 5), sheet)
        if options.latency_events:
            found = latency(address, options.latency_events)
    title = f"{options.events:,} events of {size:,.0f} bytes with key and headers, {BATCH} a batch, medians of {options.repeats}"
    console.print(table_of(sheet, title))
    if found:
        console.print(latency_table(found))
    if options.json:
        options.json.write_text(json.dumps({"rows": sheet.rows, "latency_s": found}, indent=1))


if __name__ == "__main__":
    main()
