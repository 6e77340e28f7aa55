"""Eight rollout or judge processes against one, and how fast work moves: real processes, real Kafka, a simulated engine.

Run: python bench/scaling.py [--workers 8] [--partitions 64] [--work-ms 400] [--per-worker 160] [--service rollout|judge]
[--moves-only] [--no-moves]. The engine is simulated: it sleeps, so that two cores are enough for eight workers. Measured from the
moment at which the groups can be read to the last answer; the processes have started and have their partitions by then.
Ends with 1 and a sentence where work moved too late, or too much of it was done again. The groups are those of a campaign's
steps, placed as the log places them; beside the speed-up stands what their spread allows.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from scaling_parts.bound import evenly, expected, speed_up
from scaling_parts.fleet import Feeder, Fleet, Piece, pieces, until

from bat_events.log.local_kafka import LocalKafka

AIM = 7.0
MOVES_S = 2.0
SESSION_S = 6.0  # group.consumer.session.timeout.ms of the local broker
IN_FLIGHT = 3 + 1  # a worker has one group in hand: three when the fourth joins, one when that is killed


@dataclass(frozen=True, kw_only=True)
class Run:
    """So many workers on so many groups."""

    name: str
    workers: int
    groups: int
    seconds: float
    allowed: float
    """The speed-up that the spread over the workers' partitions allows."""

    @property
    def rate(self) -> float:
        """Groups per second."""
        return self.groups / self.seconds


def measure(fleet: Fleet, name: str, work: list[Piece], workers: int) -> Run:
    """Start so many, wait until they share the partitions, give them the work, and stop them."""
    outputs = fleet.outputs()
    fleet.start(workers)
    fleet.await_shares(workers)
    owners = fleet.owners()
    began = fleet.publish(work)
    last = outputs.wait([piece.group for piece in work], within_s=400)
    outputs.close()
    fleet.stop()
    seconds = Counter[int]()
    for piece in work:
        seconds[piece.partition(fleet.partitions)] += piece.work_ms
    return Run(
        name=name,
        workers=workers,
        groups=len(work),
        seconds=last - began,
        allowed=speed_up(dict(seconds), owners),
    )


def speed(kafka: LocalKafka, folder: Path, options: argparse.Namespace, console: Console) -> list[Run]:
    """One worker on a share of the work, then all on all of it."""
    each = max(options.per_worker * options.workers // options.partitions, 1) * options.partitions
    single = max(options.per_worker // 2, 20)
    plans = [
        ("one", pieces([options.work_ms] * single), 1),
        ("all", pieces([options.work_ms] * each, first=10_000), options.workers),
    ]
    runs = []
    for name, work, workers in plans:
        namespace = f"b-{name}-{uuid.uuid4().hex[:6]}"
        with Fleet(kafka, folder / namespace, namespace, options.partitions, options.service) as fleet:
            runs.append(measure(fleet, name, work, workers))
        console.print(f"{name}: {runs[-1].groups} groups, {workers} workers: {runs[-1].seconds:.1f} s")
    return runs


def moves(kafka: LocalKafka, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """A worker joins three that are at work, then one of the four is killed. Seconds until its work is somebody else's."""
    namespace = f"b-moves-{uuid.uuid4().hex[:6]}"
    with Fleet(kafka, folder / namespace, namespace, options.partitions, options.service) as fleet:
        fleet.start(3)
        fleet.await_shares(3)
        feeder = Feeder(fleet, options.work_ms, 4 * options.partitions)
        try:
            until(lambda: len(_begun(fleet)) > options.partitions, "the round is under way", 60)
            (new,) = fleet.start()
            until(lambda: bool(_begun(fleet, pid=new.pid)), "the new one has work", 60)
            polls = next(n["at"] for n in fleet.notes() if n["pid"] == new.pid and n["what"] == "polls")
            joined = _begun(fleet, pid=new.pid)[0]["at"] - polls
            fleet.await_shares(4)
            last = _begun(fleet, pid=new.pid)[-1]["partition"]
            owners = fleet.owners()
            theirs = {partition for partition, owner in owners.items() if owner == owners[last]}
            until(lambda: fleet.last(new.pid) == "begun", "it is at work", 60)
            killed = time.time()
            new.send_signal(signal.SIGKILL)
            new.wait()
            until(lambda: bool(_begun(fleet, after=killed, within=theirs)), "the dead one's work goes on", 60)
            died = _begun(fleet, after=killed, within=theirs)[0]["at"] - killed
        finally:
            feeder.stop()
        feeder.outputs.wait(feeder.asked, within_s=200)
        begun = Counter(note["work"] for note in _begun(fleet))
        twice = sum(count > 1 for count in feeder.outputs.ids.values())
        feeder.outputs.close()
        fleet.stop()
    return {
        "joined_s": joined,
        "died_s": died,
        "done_again": float(sum(begun.values()) - len(begun)),
        "committed_twice": float(twice),
    }


def too_slow(moved: dict[str, float]) -> list[str]:
    """Which limits were not kept, in words."""
    joined, died, again, twice = (moved[name] for name in ("joined_s", "died_s", "done_again", "committed_twice"))
    found = []
    if joined > MOVES_S:
        found.append(f"a joining worker had work after {joined:.2f} s: {MOVES_S:g} s are allowed")
    if died > SESSION_S + MOVES_S:
        found.append(f"a killed worker's work went on after {died:.2f} s: {SESSION_S + MOVES_S:g} s are allowed")
    if again > IN_FLIGHT:
        found.append(f"{again:.0f} groups were begun again: {IN_FLIGHT} were in flight")
    if twice:
        found.append(f"{twice:.0f} events were committed twice")
    return found


def _begun(
    fleet: Fleet, *, pid: int | None = None, after: float = 0.0, within: set[int] | None = None
) -> list[dict[str, Any]]:
    found = [
        note
        for note in fleet.notes()
        if note["what"] == "begun"
        and note["at"] > after
        and (pid is None or note["pid"] == pid)
        and (within is None or note["partition"] in within)
    ]
    return sorted(found, key=lambda note: note["at"])


def theory(console: Console, options: argparse.Namespace) -> None:
    """What the spread allows, by turns and hashed (means over 100 campaigns), where all groups take the same time."""
    title = "allowed speed-up: by turns, and in brackets hashed"
    table = Table("groups", *(f"{p} partitions" for p in (8, 12, 16, 64, 256)), title=title)
    for groups in (8, 32, 64, 256, 512, 1024, 2048, 4096):
        cells = [expected(groups, p, options.workers, tries=100) for p in (8, 12, 16, 64, 256)]
        table.add_row(f"{groups:,}", *(f"{turns:.1f} ({by_hash:.1f})" for turns, by_hash in cells))
    console.print(table)
    owners = evenly(options.partitions, options.workers)
    console.print(
        f"{options.partitions} partitions over {options.workers}: {sorted(Counter(owners.values()).values())}"
    )


def report(console: Console, runs: list[Run]) -> None:
    """The table, and whether the aim was reached."""
    base = runs[0]
    table = Table("run", "workers", "groups", "s", "groups/s", "speed-up", "allowed", "of allowed")
    for run in runs:
        ratio = run.rate / base.rate
        table.add_row(
            run.name,
            str(run.workers),
            str(run.groups),
            f"{run.seconds:.1f}",
            f"{run.rate:.2f}",
            f"{ratio:.2f}",
            f"{run.allowed:.2f}",
            f"{ratio / run.allowed:.2f}",
        )
    console.print(table)
    for run in runs[1:]:
        ratio = run.rate / base.rate
        console.print(
            f"{run.name}: {ratio:.2f} times one worker; aim {AIM:g}: {'reached' if ratio >= AIM else 'missed'}"
        )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--work-ms", type=int, default=400)
    parser.add_argument("--per-worker", type=int, default=160)
    parser.add_argument("--service", choices=("rollout", "judge"), default="rollout")
    parser.add_argument("--moves-only", action="store_true")
    parser.add_argument("--no-moves", action="store_true")
    parser.add_argument("--theory-only", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    console = Console(width=130)
    theory(console, options)
    if options.theory_only:
        return
    found: dict[str, object] = {}
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        kafka = LocalKafka(Path(name) / "home", heap_mb=512)
        kafka.up()
        try:
            if not options.moves_only:
                runs = speed(kafka, Path(name), options, console)
                report(console, runs)
                found["runs"] = [asdict(run) for run in runs]
            if not options.no_moves:
                moved = moves(kafka, Path(name), options)
                found["moves"] = moved
                faults = too_slow(moved)
                console.print(
                    f"a joining worker had work {moved['joined_s']:.2f} s after it began to poll (aim {MOVES_S:g}); a killed "
                    f"one's work went on after {moved['died_s']:.2f} s (aim {SESSION_S + MOVES_S:g}); {moved['done_again']:.0f} "
                    f"groups were begun again, {moved['committed_twice']:.0f} events committed twice"
                )
        finally:
            kafka.down()
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    if faults:
        sys.exit("; ".join(faults))


if __name__ == "__main__":
    main()
