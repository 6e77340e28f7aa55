"""`audit rebuild`: events/s and memory, beside reading the archive alone and DuckDB alone; and how long every named query takes.

Run: python bench/rebuild.py --cache FOLDER [--events N] [--runs N] [--only ROW …] [--skip-slow]. A campaign in the shape of full
rounds (bench/replay.py's) is generated once into the cache folder. Each row runs in a process of its own, so its peak memory is
its own. Shares are of the same run: trust those, not the rates. `one by one` is what the auditor did before.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]


def _one(name: str, archive: Path, folder: Path) -> None:
    """One row, in this process: prints its figures as JSON."""
    from rebuild_parts.rows import ROWS, Clock

    import bat_events.audit.columnar.understand  # noqa: F401  (imports are no part of what is measured)
    from bat_events.codec import Codec

    Codec()
    clock = Clock()
    count = ROWS[name][0](archive, folder, clock)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"events": count, "wall": clock.wall, "cpu": clock.cpu, "peak": peak}))


def _run(name: str, archive: Path, folder: Path) -> dict[str, float]:
    words = [sys.executable, __file__, "--one", name, str(archive), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _rates(found: dict[str, dict[str, float]]) -> Table:
    from rebuild_parts.rows import ROWS

    table = Table(box=None)
    for head in ("", "events/s", "per CPU second", "seconds", "of DuckDB alone", "of reading alone", "peak MiB"):
        table.add_column(head, justify="left" if not head else "right", no_wrap=True)
    for name, row in found.items():
        rate = row["events"] / row["wall"]
        shares = [
            f"{rate / (found[other]['events'] / found[other]['wall']):.2f}" if other in found else "-"
            for other in ("arrow", "columns")
        ]
        cpu = f"{row['events'] / row['cpu']:,.0f}"
        table.add_row(ROWS[name][1], f"{rate:,.0f}", cpu, f"{row['wall']:.1f}", *shares, f"{row['peak']:,.0f}")
    return table


def _queries(path: Path, runs: int) -> tuple[Table, int]:
    from rebuild_parts.queries import AIM_MS, timed

    table = Table(box=None)
    for head in ("query", "rows", "p50 ms", "p95 ms", ""):
        table.add_column(head, justify="left" if head in ("query", "") else "right", no_wrap=True)
    found = timed(path, runs)
    for one in found:
        rows = f"{one.rows:,}{'+' if one.cut_off else ''}"
        late = "" if one.p95_ms <= AIM_MS else f"over {AIM_MS:g} ms"
        table.add_row(one.name, rows, f"{one.p50_ms:.0f}", f"{one.p95_ms:.0f}", late)
    return table, sum(one.p95_ms <= AIM_MS for one in found)


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cache", type=Path, help="where the generated archive is kept")
    parser.add_argument("--events", type=int, default=40_000)
    parser.add_argument("--response", type=int, default=16_384, help="most tokens of a rollout's response")
    parser.add_argument("--prompt", type=int, default=4096, help="most tokens of its prompt")
    parser.add_argument("--runs", type=int, default=20, help="of every named query; 0: none")
    parser.add_argument("--only", nargs="+", help="these rows")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        _one(options.one[0], Path(options.one[1]), Path(options.one[2]))
        return
    if options.cache is None:
        parser.error("--cache FOLDER is needed")
    from rebuild_parts.rows import NAMESPACE, ROWS
    from replay_parts.campaign import generate

    out = Console(width=150)
    archive = generate(
        options.cache, events=options.events, response=options.response, prompt=options.prompt, say=out.print
    )
    with tempfile.TemporaryDirectory(dir=options.cache) as name:
        folder = Path(name)
        found = {row: _run(row, archive, folder) for row in ROWS if not options.only or row in options.only}
        out.print(f"{next(iter(found.values()))['events']:,.0f} events of {archive.name}")
        out.print(_rates(found))
        live = folder / "audit" / f"{NAMESPACE}.duckdb"
        if options.runs and live.exists():
            table, good = _queries(live, options.runs)
            out.print(table)
            out.print(
                f"{good} of {table.row_count} named queries within 100 ms at the 95th percentile of {options.runs} runs"
            )


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
