"""Export, import and `log verify`: rates beside reading alone, and peak memory, on a generated archive of any size.

Run: python bench/archive.py [--events N …] [--kafka N]. Each step runs in a process of its own, so its peak memory is its
own. With --kafka N an archive of N events is imported into a local broker and exported again. Ratios are what to trust.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bat_events.consumers.seal_state import make_seal
from bat_events.deciders.interface import Draft
from bat_events.domain.merkle import MerkleTree
from bat_events.domain.sealing import FIRST_PREVIOUS, Leaves, Range, content_bytes
from bat_events.domain.vocabulary import Focus, Pool
from bat_events.events.campaign import CampaignPaused
from bat_events.events.rollouts import RolloutCompleted
from bat_events.log.interface import Outgoing, Partition, Record
from bat_events.log.topics import BY_NAME
from bat_events.replay import ArchiveReader
from bat_events.replay.archive_raw import raw_rows
from bat_events.replay.export import ExportOptions, archived_topics, export_campaign
from bat_events.replay.verify_archive import verify_archive
from bat_events.service.emit import outgoing

CAMPAIGN, PARTITIONS, ROUNDS, TOKENS = "bench", 4, 10, 48
START_MS = 1_700_000_000_000
TEMPLATES = 512


def templates() -> list[Outgoing]:
    """Rollouts as the service loop writes them: about 1.2 kB each with key and headers."""
    found = []
    for number in range(TEMPLATES):
        event = RolloutCompleted(
            group=f"{number // 4:032x}",
            rollout=f"{number:032x}",
            index=number % 4,
            round=1,
            step=0,
            slot=number % 8,
            pool=Pool.S_TARGET,
            focus=Focus.S3,
            state=f"{number:032x}",
            body="ab" * 32,
            weights="cd" * 32,
            end="final",
            turns=1,
            valid_actions=1,
            prompt_tokens=TOKENS,
            response_tokens=TOKENS,
            prompt_ids=_noise(3 * number, 4 * TOKENS),
            response_ids=_noise(3 * number + 1, 4 * TOKENS),
            response_mask=bytes([1] * TOKENS),
            logprobs=_noise(3 * number + 2, 4 * TOKENS),
            evidence=f"{number:064x}",
            sandbox="bubblewrap",
        )
        found.append(_written(event, f"{number // 4:032x}", number, round_=1))
    return found


def _noise(seed: int, size: int) -> bytes:
    import random

    return random.Random(seed).randbytes(size)  # token ids and log-probabilities do not compress well


def _written(event: RolloutCompleted | CampaignPaused, key: str, number: int, round_: int | None) -> Outgoing:
    draft = Draft(event=event, campaign=CAMPAIGN, cause=f"{number:032x}", ordinal=0, key=key, round=round_)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return outgoing(draft, source="bat/rollout", logic="rollout/1", time=now, partitions=_counts())


def _counts() -> dict[str, int]:
    return {name: PARTITIONS if spec.parallel else 1 for name, spec in BY_NAME.items()}


class GeneratedLog:
    """An ExportLog of `events` rollouts over ten rounds, sealed; nothing of it is kept in memory."""

    def __init__(self, events: int) -> None:
        self._each = events // (PARTITIONS * ROUNDS)
        self._templates = templates()
        self._ranges: dict[int, list[Range]] = {number: [] for number in range(ROUNDS)}

    def ends(self) -> Mapping[Partition, tuple[int, int]]:
        """See ExportLog."""
        many = 1 << 40
        return {
            (name, number): (many, many)
            for name in archived_topics(heldout=False)
            for number in range(PARTITIONS if BY_NAME[name].parallel else 1)
        }

    def read(self, where: Partition, end: int) -> Iterator[Record]:  # noqa: ARG002
        """See ExportLog."""
        if where[0] == "rollout":
            yield from self._rollouts(where[1])
        if where == ("campaign", 0):
            out = _written(CampaignPaused(reason="the archive's one event of a campaign"), CAMPAIGN, 0, None)
            yield _record(out, 0, 0, START_MS)
        if where == ("seal", 0):
            yield from self._seals()

    def schemas(self) -> Mapping[str, bytes]:
        """See ExportLog."""
        from bat_events.codec import Codec

        return {schema.digest: schema.text for schema in Codec().schemas()}

    def _rollouts(self, partition: int) -> Iterator[Record]:
        leaves, ordinal = Leaves("rollout", partition), 0
        for round_ in range(ROUNDS):
            tree, digits = MerkleTree(), str(round_ + 1).encode()
            for _ in range(self._each):
                out = self._templates[ordinal % TEMPLATES]
                id_ = b"%032x" % (partition << 40 | ordinal)
                headers = tuple(
                    (name, id_ if name == "ce_id" else digits if name == "bat_round" else value)
                    for name, value in out.headers
                )
                record = replace(_record(out, partition, ordinal, START_MS + ordinal), headers=headers)
                content = content_bytes(record.key, record.value, record.headers, record.timestamp_ms)
                tree.add(leaves.leaf(ordinal, content))
                yield record
                ordinal += 1
            first, root = ordinal - self._each, tree.root().hex()
            self._ranges[round_].append(
                Range(topic="rollout", partition=partition, first=first, count=self._each, root=root)
            )

    def _seals(self) -> Iterator[Record]:
        previous = FIRST_PREVIOUS.hex()
        for number, ranges in self._ranges.items():
            seal = make_seal(
                campaign=CAMPAIGN, number=number, round=number + 1, previous=previous, salt=b"", ranges=ranges
            )
            previous = seal.head
            draft = Draft(
                event=seal, campaign=CAMPAIGN, cause=f"{number:032x}", ordinal=0, key=CAMPAIGN, round=number + 1
            )
            now = datetime(2026, 1, 1, tzinfo=UTC)
            out = outgoing(draft, source="bat/notary", logic="notary/1", time=now, partitions=_counts())
            yield _record(out, 0, number, START_MS)


def _record(out: Outgoing, partition: int, offset: int, timestamp_ms: int) -> Record:
    return Record(
        topic=out.topic,
        partition=partition,
        offset=offset,
        key=out.key,
        value=out.value,
        headers=out.headers,
        timestamp_ms=timestamp_ms,
    )


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
    import os

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
    peak_mib: float

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.events / self.seconds


def measured(step: str, folder: Path, events: int, env: dict[str, str] | None = None) -> Measure:
    """Run a step in a process of its own."""
    import os

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
    return Measure(step=step, events=events, seconds=told["seconds"], peak_mib=told["peak_mib"])


def run_step(step: str, folder: Path, events: int) -> None:
    """The child's side: prints seconds and peak memory."""
    start = time.perf_counter()
    STEPS[step](folder, events)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


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
    """The table; shares are of reading alone at the same size."""
    table = Table(title=title)
    for name in ("step", "events", "events/s", "of reading alone", "peak MiB"):
        table.add_column(name, justify="left" if name == "step" else "right")
    reading = {row.events: row.rate for row in rows if row.step == "read"}
    for row in rows:
        share = f"{row.rate / reading[row.events]:.2f}" if row.events in reading else ""
        table.add_row(row.step, f"{row.events:,}", f"{row.rate:,.0f}", share, f"{row.peak_mib:,.0f}")
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
