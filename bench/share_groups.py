"""Kafka's share groups (KIP-932) beside consumer groups under long-tailed work, and what they do not promise.

Run: python bench/share_groups.py [--workers 8] [--partitions 64] [--tasks 320] [--mean-ms 500] [--sigma 1.0] [--no-costs].
The same tasks with the same durations (log-normal, simulated: a worker sleeps), published at one moment to members that have
joined. Members are threads of one process. Four tasks share a key, as a group's rollouts do. The share group runs twice: with as
many partitions, where each has one member and nothing is shared, and with one, which all members share.
"""

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table
from scaling_parts.bound import long_tailed
from scaling_parts.costs import dropped, redelivered, renewal
from scaling_parts.sharing import Result, Shared, Task

from bat_events.domain.grouping import group_id
from bat_events.log.local_kafka import LocalKafka


def tasks_of(count: int, mean_s: float, sigma: float) -> list[Task]:
    """Tasks of groups of four, with long-tailed durations."""
    durations = long_tailed(count, mean_s, 7, sigma=sigma)
    return [Task(number=n, key=group_id("share", 1, n // 32, n // 4 % 8), work_s=durations[n]) for n in range(count)]


def show(console: Console, results: list[Result]) -> None:
    """Both beside each other."""
    columns = (
        "makespan s",
        "of ideal",
        "idle",
        "idle while work waits",
        "wait p50 s",
        "p95 s",
        "tail s",
        "out of order",
    )
    table = Table("shared by", *columns, "repeated")
    for result in results:
        table.add_row(
            result.name,
            f"{result.makespan_s:.1f}",
            f"{result.ideal_s / result.makespan_s:.2f}",
            f"{result.idle:.0%}",
            f"{result.blocked:.0%}",
            f"{result.wait_p50_s:.1f}",
            f"{result.wait_p95_s:.1f}",
            f"{result.tail_s:.1f}",
            str(result.disordered),
            str(result.repeated),
        )
    console.print(table)
    group, *shares = results
    for share in shares:
        console.print(f"{group.name} / {share.name}, makespan: {group.makespan_s / share.makespan_s:.2f}")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--tasks", type=int, default=320)
    parser.add_argument("--mean-ms", type=int, default=500)
    parser.add_argument("--sigma", type=float, default=1.0)
    parser.add_argument("--no-costs", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    console = Console(width=130)
    tasks = tasks_of(options.tasks, options.mean_ms / 1000, options.sigma)
    within_s = 60 + 3 * sum(task.work_s for task in tasks)
    with tempfile.TemporaryDirectory() as name:
        kafka = LocalKafka(Path(name) / "home", heap_mb=512)
        kafka.up()
        try:
            by_group = Shared(kafka.login(), "by-group", options.partitions)
            results = [by_group.consumer_group(tasks, options.workers, within_s=within_s)]
            for partitions in (options.partitions, 1):
                by_share = Shared(kafka.login(), f"by-share-{partitions}", partitions)
                results.append(by_share.sharing(tasks, options.workers, within_s=within_s))
            show(console, results)
            said = {}
            if not options.no_costs:
                said["lock"] = redelivered(Shared(kafka.login(), "costs-lock", 1))
                said["limit"] = dropped(Shared(kafka.login(), "costs-limit", 1))
                said["renewal"] = renewal()
                for what, words in said.items():
                    console.print(f"{what}: {words}")
        finally:
            kafka.down()
    if options.json:
        options.json.write_text(json.dumps({"results": [asdict(r) for r in results], "costs": said}, indent=1))


if __name__ == "__main__":
    main()
