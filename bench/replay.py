"""Replay with checks: events/s in one process and its memory, beside reading alone and the eventsourcing package.

Run: python bench/replay.py [--events N] [--response TOKENS] [--prompt TOKENS] [--others]. A campaign in the shape of full rounds
(50 steps of 8 groups of 4 rollouts, seven tracks, about 2,000 states a round) is generated once, as an archive under
BAT_HOME/bench, and replayed. Responses have up to --response tokens, log-uniformly from a sixty-fourth of that. Each row runs
in a process of its own. `--others` replays as many events with the eventsourcing package (pip install "eventsourcing==9.5.6"
into this environment first): one aggregate that keeps two numbers, from its in-memory store, which is what it does
fastest. Shares are of processor time, which other work on the machine hardly enters.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
EVENTSOURCING = "eventsourcing==9.5.6"
_MIB = 1 << 20


def lines(folder: Path) -> int:
    """Read every record and its envelope; no body is decoded, nothing is checked."""
    from bat_events.replay.archive_lines import archive_lines
    from bat_events.replay.archive_reader import ArchiveReader

    streams = archive_lines(ArchiveReader(folder, check=False))
    return sum(1 for stream in streams.values() for _ in stream)


def records(folder: Path) -> int:
    """Read every record as objects, as other readers of archives do."""
    from bat_events.replay.archive_reader import ArchiveReader

    reader = ArchiveReader(folder, check=False)
    return sum(1 for where in reader.partitions for _ in reader.records(*where))


def decode(folder: Path) -> int:
    """Read and decode every event: the typed facts that a replay could fold."""
    from bat_events.codec import Codec
    from bat_events.replay.archive_reader import ArchiveReader

    reader, codec, count = ArchiveReader(folder, check=False), Codec(), 0
    for text in reader.schemas():
        codec.learn(text)
    for where in reader.partitions:
        for archived in reader.records(*where):
            codec.decode(archived.record)
            count += 1
    return count


def replay(folder: Path) -> int:
    """Check the files' digests and replay: what `bat-events replay --archive` does."""
    from bat_events.replay import ArchiveSource
    from bat_events.replay.replayer import _streamed

    result = _streamed(ArchiveSource(folder), None, None)  # not the second reading, which a difference would cause
    if not result.reproduced:
        raise SystemExit("the generated campaign does not replay")
    return result.events


ROWS = {"lines": lines, "records": records, "decode": decode, "replay": replay}
_WHAT = {
    "lines": "reading alone: envelopes where they lie",
    "records": "reading alone: records as objects",
    "decode": "reading and decoding every event",
    "replay": "replay with checks, digests of the files too",
    "eventsourcing": f"{EVENTSOURCING} replaying as many events",
}


def _one(name: str, argument: str) -> None:
    """One row, in this process: prints its figures as JSON."""
    if name == "eventsourcing":
        figures = _eventsourcing(int(argument))
    else:
        import bat_events.codec
        import bat_events.replay.replayer

        bat_events.codec.Codec()
        wall, cpu = time.perf_counter(), time.process_time()
        count = ROWS[name](Path(argument))
        figures = {"events": count, "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    figures["rss"] = _peak_mib()
    print(json.dumps(figures))


def _peak_mib() -> float:
    """The most memory that this program had. `ru_maxrss` of a child begins at its parent's, which made the log."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _eventsourcing(events: int) -> dict[str, float]:
    from eventsourcing.application import Application  # type: ignore[import-not-found,unused-ignore]
    from eventsourcing.domain import Aggregate, event  # type: ignore[import-not-found,unused-ignore]

    class Campaign(Aggregate):  # type: ignore[misc,unused-ignore]
        """Keeps the last step, reward and group: far less than a decider folds."""

        def __init__(self) -> None:
            self.steps, self.reward, self.group = 0, 0.0, ""

        @event("Stepped")  # type: ignore[misc,untyped-decorator,unused-ignore]
        def step(self, number: int, reward: float, group: str) -> None:
            """One event with three fields."""
            self.steps, self.reward, self.group = number, reward, group

    application = Application()  # type: ignore[var-annotated,unused-ignore]
    campaign = Campaign()
    for number in range(events - 1):
        campaign.step(number, number / events, f"{number:032x}")
        if number % 10_000 == 0:
            application.save(campaign)
    application.save(campaign)
    wall, cpu = time.perf_counter(), time.process_time()
    found = application.repository.get(campaign.id)
    took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    assert found.steps == events - 2
    return {"events": events, **took}


def _run(name: str, argument: str) -> dict[str, float] | None:
    done = subprocess.run(
        [sys.executable, __file__, "--one", name, argument], capture_output=True, text=True, check=False
    )
    if done.returncode:
        Console(stderr=True).print(f"{name}: {done.stderr.strip().splitlines()[-1]}", style="yellow")
        return None
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--response", type=int, default=16_384, help="most tokens of a rollout's response")
    parser.add_argument("--prompt", type=int, default=4096, help="most tokens of its prompt")
    parser.add_argument("--others", action="store_true", help=f"beside it {EVENTSOURCING}, which has to be installed")
    parser.add_argument("--one", nargs=2, metavar=("ROW", "ARGUMENT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        _one(*options.one)
        return
    from replay_parts.campaign import generate

    out = Console(width=150)
    home = Path(os.environ.get("BAT_HOME", ".bat"))
    folder = generate(
        home / "bench", events=options.events, response=options.response, prompt=options.prompt, say=out.print
    )
    found = {name: _run(name, str(folder)) for name in ROWS}
    if options.others and found["replay"] is not None:
        found["eventsourcing"] = _run("eventsourcing", str(int(found["replay"]["events"])))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    out.print(f"{folder}: {size / _MIB:,.0f} MiB")
    table = Table(box=None)
    for head in ("", "events", "events/s", "of one processor", "seconds", "share of reading", "peak MiB"):
        table.add_column(head, justify="left" if not head else "right", no_wrap=True)
    limit = found["lines"]
    for name, figures in found.items():
        if figures is not None and limit is not None:
            share = (limit["cpu"] / limit["events"]) / (figures["cpu"] / figures["events"])
            table.add_row(
                _WHAT[name],
                f"{figures['events']:,.0f}",
                f"{figures['events'] / figures['wall']:,.0f}",
                f"{figures['events'] / figures['cpu']:,.0f}",
                f"{figures['wall']:.1f}",
                f"{share:.2f}",
                f"{figures['rss']:,.0f}",
            )
    out.print(table)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
