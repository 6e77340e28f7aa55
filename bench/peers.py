"""Speed beside peers: bat-events, Quix Streams, FastStream and faust-streaming, with raw confluent-kafka as the limit.

Run: python bench/peers.py [--events N] [--repeats N] [--tasks produce,consume,react,latency] [--only NAME]
[--bootstrap HOST:PORT] [--plot FILE] [--json FILE]. One broker, the same events (bodies, keys, headers), one process each, by
turns; medians. Peers are installed once into environments of their own under ~/.cache/bat-events/peers. Exit 1 where a
contestant lost an event or did it twice.
"""

import argparse
import itertools
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from peers_parts.contestants import CONTESTANTS, Contestant, prepare
from peers_parts.measuring import Bench, Failed, Report
from peers_parts.results import Results
from peers_parts.scene import Corpus, plain_broker
from rich.console import Console

TASKS = ("produce", "consume", "react", "latency")


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--latency-events", type=int, default=180, help="of which 30 to warm up, one in 70 ms")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--only", default="", help="contestants whose name holds one of these words, with commas")
    parser.add_argument("--bootstrap")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 170)
    tasks = options.tasks.split(",")
    chosen = [c for c in CONTESTANTS if any(word in c.name for word in options.only.split(","))]
    for name in sorted({c.environment for c in chosen if c.environment}):
        prepare(name, console.print)
    results = Results()
    with tempfile.TemporaryDirectory() as folder, plain_broker(options.bootstrap) as address:
        corpus = Corpus.make(options.events)
        corpus.save(Path(folder))
        bench = Bench(address, corpus, Path(folder))
        for number, task in itertools.product(range(options.repeats), tasks):
            for contestant in by_turns(chosen, number):
                if task in contestant.tasks and not (task == "latency" and number):
                    one(bench, contestant, task, options.latency_events, results, console)
        title = f"{options.events:,} events of {corpus.bytes_each:,.0f} bytes with key and headers, medians of {options.repeats}"
    for table in results.tables(title):
        console.print(table)
    if options.plot:
        from peers_parts.figure import draw

        draw(results, options.plot, title)
    if options.json:
        rows = [
            {"contestant": c.label, "task": t, **asdict(r)} for (c, t), found in results.reports.items() for r in found
        ]
        options.json.write_text(json.dumps(rows, indent=1))
    for what in results.failures:
        console.print(f"FAILED: {what}", style="bold red", soft_wrap=True)
    sys.exit(1 if results.failures else 0)


def by_turns(chosen: list[Contestant], number: int) -> list[Contestant]:
    """Another order in every repeat, so that nobody is always the first or always after the slowest."""
    turn = number * 3 % len(chosen)
    return chosen[turn:] + chosen[:turn]


def one(
    bench: Bench, contestant: Contestant, task: str, latency_events: int, results: Results, console: Console
) -> None:
    """One run, kept or recorded as failed."""
    try:
        report: Report = bench.run(contestant, task, latency_events)
    except Failed as error:
        results.failures.append(f"{contestant.label}, {task}: {error}")
        console.print(f"{task:8} {contestant.label}: FAILED: {error}", soft_wrap=True)
        return
    results.add(contestant, task, report)
    if report.latency:
        said = f"p50 {report.latency.p50:.1f} ms, p99 {report.latency.p99:.1f} ms"
    else:
        said = f"{report.events / report.wall_s:,.0f} events/s, {report.events / report.cpu_s:,.0f} per CPU second"
    console.print(f"{task:8} {contestant.label}: {said} {report.remark}", soft_wrap=True)


if __name__ == "__main__":
    main()
