"""Export, import and `log verify`: rates beside reading alone, and peak memory, on a generated archive of any size.

Run: python bench/archive.py [--events N …] [--kafka N]. Each step runs in a process of its own, so its peak memory is its
own. With --kafka N an archive of N events is imported into a local broker and exported again. Ratios are what to trust.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from archive_parts.generated import CAMPAIGN, PARTITIONS, ROUNDS, GeneratedLog
from rich.console import Console
from rich.table import Table

from bat_events.replay import ArchiveReader
from bat_events.replay.archive_raw import raw_rows
from bat_events.replay.export import ExportOptions, export_campaign
from bat_events.replay.verify_archive import verify_archive


def _quiet(_: str) -> None:
    return None


# -- the steps, each in a process of its own


def generate(folder: Path, events: int) -> None:  # noqa: ARG001
    """Generate and seal without writing: what `export` has to be held against."""
    log = GeneratedLog(events)
    for where in sorted(log.ends()):
        for _ in log.read(where, 0):
            pass


def export(folder: Path, events: int) -> None:
    """Export a generated log, which includes generating it."""
    export_campaign(GeneratedLog(events), folder, ExportOptions(campaign=CAMPAIGN, namespace="bench"), _quiet)


def read(folder: Path, events: int) -> None:
    """Read every record and nothing else."""
    archive = ArchiveReader(folder, check=False)
    count = sum(1 for where in archive.partitions for _ in archive.records(*where))
    assert count >= events


def avro(folder: Path, events: int) -> None:  # noqa: ARG001
    """Every row of every file by fastavro's reader, without order, checks or records made of them."""
    import fastavro

    for path in sorted(folder.rglob("*.avro")):
        with path.open("rb") as file:
            for _ in fastavro.reader(file):
                pass


def unpack(folder: Path, events: int) -> None:  # noqa: ARG001
    """Unpack and split the rows, without decoding them."""
    archive = ArchiveReader(folder, check=False)
    for where in archive.partitions:
        entry = archive.entry(*where)
        for part in entry.files:
            for _ in raw_rows(entry.folder(folder) / part.name, part.records):
                pass


def verify(folder: Path, events: int) -> None:
    """`log verify --archive`."""
    found = verify_archive(folder, None, _quiet)
    assert found.ok, found.findings
    assert found.planes[0].sealed >= events - events % (PARTITIONS * ROUNDS)


def kafka_import(folder: Path, events: int) -> None:
    """`log import` into the broker that BENCH_ADDRESS names."""
    from bat_events.producers.imports import Target, import_archive

    result = import_archive(folder, Target(address=_address(), namespace="bench"), _quiet)
    assert result.written >= events


def kafka_again(folder: Path, events: int) -> None:  # noqa: ARG001
    """The second import: compares everything, writes nothing."""
    from bat_events.producers.imports import Target, import_archive

    assert import_archive(folder, Target(address=_address(), namespace="bench"), _quiet).written == 0


def kafka_export(folder: Path, events: int) -> None:
    """`log export` from the broker."""
    from bat_events.replay.kafka_log import KafkaExportLog

    log = KafkaExportLog(_address(), "bench", CAMPAIGN)
    manifest = export_campaign(
        log, folder.with_name("again"), ExportOptions(campaign=CAMPAIGN, namespace="bench"), _quiet
    )
    log.close()
    assert manifest.records >= events


def _address() -> str:
    return os.environ["BENCH_ADDRESS"]


STEPS: dict[str, Callable[[Path, int], None]] = {
    step.__name__: step
    for step in (generate, export, read, avro, unpack, verify, kafka_import, kafka_again, kafka_export)
}


@dataclass(frozen=True)
class Measure:
    """One step at one size."""

    step: str
    events: int
    seconds: float
    cpu_s: float
    peak_mib: float

    @property
    def rate(self) -> float:
        """Events per second on the clock."""
        return self.events / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Events per second of processor time: what other work on the machine moves less."""
        return self.events / self.cpu_s


def measured(step: str, folder: Path, events: int, env: dict[str, str] | None = None) -> Measure:
    """Run a step in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--step", step, "--folder", str(folder), "--events", str(events)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(env or {})},
    )
    if done.returncode:
        raise SystemExit(f"{step} failed:\n{done.stderr}")
    told = json.loads(done.stdout)
    return Measure(step=step, events=events, **told)


def run_step(step: str, folder: Path, events: int) -> None:
    """The child's side: prints seconds and peak memory."""
    start, cpu = time.perf_counter(), time.process_time()
    STEPS[step](folder, events)
    seconds, cpu_s = time.perf_counter() - start, time.process_time() - cpu
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "cpu_s": cpu_s, "peak_mib": peak_mib}))


def with_kafka(events: int, folder: Path) -> list[Measure]:
    """Import into a fresh local broker, import again, export."""
    from bat_events.log.admin import apply_topics
    from bat_events.log.local_kafka import LocalKafka

    measured("export", folder, events)
    local = LocalKafka(folder.with_name("broker"), secured=False)
    local.up()
    try:
        address = local.login()
        apply_topics(address, "bench", partitions=PARTITIONS)
        env = {"BENCH_ADDRESS": str(address)}
        return [measured(step, folder, events, env) for step in ("kafka_import", "kafka_again", "kafka_export")]
    finally:
        local.down()


def show(rows: Sequence[Measure], title: str) -> None:
    """The table; shares are of reading alone at the same size, in processor time."""
    table = Table(title=title)
    for name in ("step", "events", "events/s", "per CPU second", "of reading alone", "peak MiB"):
        table.add_column(name, justify="left" if name == "step" else "right")
    reading = {row.events: row.cpu_rate for row in rows if row.step == "read"}
    for row in rows:
        share = f"{row.cpu_rate / reading[row.events]:.2f}" if row.events in reading else ""
        table.add_row(
            row.step, f"{row.events:,}", f"{row.rate:,.0f}", f"{row.cpu_rate:,.0f}", share, f"{row.peak_mib:,.0f}"
        )
    Console().print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--kafka", type=int, default=0, help="events to import into a local broker and export again")
    parser.add_argument("--step", choices=list(STEPS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        run_step(options.step, options.folder, options.events[0])
        return
    rows: list[Measure] = []
    size = 0.0
    for events in options.events:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log"
            rows += [
                measured(step, path, events) for step in ("generate", "export", "read", "avro", "unpack", "verify")
            ]
            size = sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) / events
    show(rows, f"archive: {size:,.0f} bytes an event on disk; a step is a process, its peak memory its own")
    if options.kafka:
        with tempfile.TemporaryDirectory() as folder:
            show(with_kafka(options.kafka, Path(folder) / "log"), "Kafka, one local broker")


if __name__ == "__main__":
    main()
