"""Seconds from getting its partitions back to the first live result, on a log of 100,000 events, beside a raw reader.

Run: python bench/catchup.py [--events N] [--bootstrap HOST:PORT] [--json]. The log is that of bench/replay: the real
deciders, and workers that state facts of true size. For each reactor it ends just before one of its decisions, with its
offsets committed: so a service that starts now folds everything and then decides. Beside it: the bare client reading the
same topics to their ends.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from catchup_parts.measure import Caught

DECIDERS = ("planner", "bank")
TARGET_S = 5.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--response", type=int, default=16_384, help="most tokens of a rollout's response")
    parser.add_argument("--prompt", type=int, default=4096, help="most tokens of its prompt")
    parser.add_argument("--only", nargs="*", help="some services")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bootstrap")
    options = parser.parse_args()
    from catchup_parts.measure import Records, Trained, auditor, reactor, worker
    from log import broker
    from replay_parts.campaign import Generator

    from bat_events.codec import Codec
    from bat_events.deciders.versions import versions_of
    from bat_events.service.reactor import DeciderRules
    from bat_events.service.runtime import collect_seldom

    console = Console(stderr=options.json)
    records: Any = Records()
    Generator(records, options.events, options.response, options.prompt).run()
    size = sum(len(out.value) for out in records.all())
    console.print(f"{records.records:,} events, {size / 2**20:,.0f} MiB")
    codec = Codec()
    collect_seldom()  # as services do

    def decider(name: str) -> "Callable[[], Caught]":
        return lambda: reactor(address, records, DeciderRules(*versions_of(name)), codec)

    with broker(options.bootstrap) as address, tempfile.TemporaryDirectory() as folder:
        measures: dict[str, Callable[[], Caught]] = {
            **{name: decider(name) for name in DECIDERS},
            "trainer": lambda: reactor(address, records, Trained(), codec),
            "judge": lambda: worker(address, records, codec),
            "auditor": lambda: auditor(address, records, codec, Path(folder), behind=2000),
        }
        rows = [measure() for name, measure in measures.items() if not options.only or name in options.only]
    if options.json:
        print(json.dumps([{**asdict(row), "ratio": row.ratio} for row in rows], indent=1))
        return
    table = Table(title=f"caught up: {TARGET_S:g} s is the aim, from having the partitions to the first live result")
    for name in (
        "service",
        "log",
        "read",
        "start to partitions, s",
        "to first result, s",
        "thread, s",
        "raw, s",
        "ratio",
    ):
        table.add_column(name, justify="left" if name == "service" else "right")
    for row in rows:
        numbers = (
            f"{row.assigned_s:.2f}",
            f"{row.live_s:.2f}",
            f"{row.thread_s:.2f}",
            f"{row.raw_s:.2f}",
            f"{row.ratio:.1f}",
        )
        table.add_row(row.service, f"{row.log:,}", f"{row.read:,}", *numbers)
    console.print(table)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main()
