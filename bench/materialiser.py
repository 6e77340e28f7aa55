"""How fast the auditor makes rows: decode and materialise, beside DuckDB inserting the same rows from ready Arrow tables.

    python bench/materialiser.py [--groups N] [--batch N] [--tokens N]

Events are one GroupRequested, four RolloutCompleted (with packed tokens) and four RewardScored per group. The figures in
docs/audit.md come from here.
"""

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
from rich.console import Console
from rich.table import Table

from bat_events.audit.file import AuditFile
from bat_events.audit.materialiser import QUICK_LEAST, Materialiser
from bat_events.audit.rows import event_rows
from bat_events.audit.shape import typed_tables
from bat_events.codec import Codec, Fact
from bat_events.deciders.interface import Draft
from bat_events.domain.vocabulary import Focus, Pool, Stage, Track
from bat_events.events.base import Event
from bat_events.events.envelope import Cost
from bat_events.events.ids import ROOT_CAUSE
from bat_events.events.rollouts import RewardScored, RolloutCompleted, RubricItem, StageValue
from bat_events.events.rounds import GroupRequested
from bat_events.log.interface import Partition, Record
from bat_events.log.topics import TOPICS
from bat_events.service.emit import outgoing

SIZE = 4
PARTITIONS = {spec.name: 4 if spec.parallel else 1 for spec in TOPICS}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _drafts(groups: int, tokens: int) -> Iterator[Draft]:
    for number in range(groups):
        group = _digest("group", number)[:32]
        step, slot = divmod(number, 8)
        place: dict[str, Any] = {"group": group, "round": 1, "step": step, "slot": slot}
        same: dict[str, Any] = {"pool": Pool.S_TARGET, "focus": Focus.S3}
        practised: dict[str, Any] = {
            "state": group,
            "body": _digest("body", number),
            "weights": _digest("weights", step),
        }
        asked = GroupRequested(
            **place, **same, **practised, attempt=0, track=Track.SEGMENTATION, seed=number, size=SIZE
        )
        request = _draft(asked, ROOT_CAUSE, number, group, None)
        yield request
        for index in range(SIZE):
            which: dict[str, Any] = {**place, "rollout": _digest("rollout", number, index)[:32], "index": index}
            rollout = RolloutCompleted(
                **which,
                **same,
                **practised,
                end="final",
                turns=3,
                valid_actions=3,
                prompt_tokens=tokens,
                response_tokens=tokens,
                prompt_ids=bytes(4 * tokens),
                response_ids=bytes(4 * tokens),
                response_mask=bytes(tokens),
                logprobs=bytes(4 * tokens),
                evidence=_digest("evidence", number, index),
                sandbox="bubblewrap",
                receipts=None,
                signer=None,
                seal=None,
            )
            done = _draft(rollout, request.id, index, group, Cost(wall_s=1.0, sandbox_s=0.5, tokens_out=tokens))
            yield done
            items = tuple(
                RubricItem(item=f"item-{i}", stage=Stage.S3, score=0.5, applicable=True, proof=None, note="")
                for i in range(5)
            )
            reward = RewardScored(
                **which,
                **same,
                reward=0.5,
                raw=0.5,
                cap=1.0,
                stages=(StageValue(stage=Stage.S3, score=0.5),),
                task_score=None,
                items=items,
                failures=(),
                evidence=rollout.evidence,
                judge="evidence",
                rubric_version=1,
                model=None,
                texts=(),
            )
            yield _draft(reward, done.id, 0, group, Cost(wall_s=0.25))


def _draft(event: Event, cause: str, ordinal: int, key: str, cost: Cost | None) -> Draft:
    return Draft(event=event, campaign="bench", cause=cause, ordinal=ordinal, key=key, round=1, cost=cost)


def _records(groups: int, tokens: int) -> list[Record]:
    ends: dict[Partition, int] = {}
    records = []
    for draft in _drafts(groups, tokens):
        out = outgoing(draft, source="bat/bench", logic="bench/1", time=NOW, partitions=PARTITIONS)
        where = (out.topic, out.partition)
        offset = ends.get(where, 0)
        ends[where] = offset + 1
        records.append(
            Record(
                topic=out.topic,
                partition=out.partition,
                offset=offset,
                key=out.key,
                value=out.value,
                headers=out.headers,
                timestamp_ms=1,
            )
        )
    return records


def _batches(records: list[Record], size: int) -> Iterator[list[Record]]:
    for begin in range(0, len(records), size):
        yield records[begin : begin + size]


def _arrow(pairs: list[tuple[Record, Fact]]) -> list[tuple[str, Any]]:
    tables = [("events", event_rows(pairs))]
    for table in typed_tables().values():
        facts = [fact for _, fact in pairs if type(fact.event) is table.event]
        if facts:
            tables.append((table.name, table.rows(facts)))
    return tables


def _insert(connection: duckdb.DuckDBPyConnection, batches: list[list[tuple[str, Any]]]) -> None:
    for tables in batches:
        connection.execute("BEGIN TRANSACTION")
        for name, rows in tables:
            connection.register("ready", rows)
            connection.execute(f"INSERT INTO {name} SELECT * FROM ready")
            connection.unregister("ready")
        connection.execute("COMMIT")


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _materialised(path: Path, codec: Codec, batches: list[list[Record]], quick_least: int) -> float:
    file = AuditFile(path, "bench")
    materialiser = Materialiser(codec=codec, now=lambda: NOW, quick_least=quick_least)
    seconds = _timed(lambda: [materialiser.take(file.writer, batch) for batch in batches])
    file.close()
    return seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--tokens", type=int, default=256)
    args = parser.parse_args()
    codec = Codec()
    records = _records(args.groups, args.tokens)
    batches = list(_batches(records, args.batch))
    facts: list[Fact] = []
    decode_s = _timed(lambda: facts.extend(codec.decode(record) for record in records))
    pairs = list(zip(records, facts, strict=True))
    ready: list[list[tuple[str, Any]]] = []
    split = [pairs[begin : begin + args.batch] for begin in range(0, len(pairs), args.batch)]
    arrow_s = _timed(lambda: ready.extend(_arrow(part) for part in split))
    with tempfile.TemporaryDirectory() as folder:
        alone = AuditFile(Path(folder) / "alone.duckdb", "bench")
        alone_s = _timed(lambda: _insert(alone.writer, ready))
        alone.close()
        one_by_one_s = _materialised(Path(folder) / "one.duckdb", codec, batches, quick_least=1 << 62)
        whole_s = _materialised(Path(folder) / "whole.duckdb", codec, batches, quick_least=QUICK_LEAST)
    events = len(records)
    table = Table("case", "events/s", "share of the last", title=f"{events} events, {args.batch} a transaction")
    cases = {
        "decode alone": decode_s,
        "decoded facts to Arrow": arrow_s,
        "decode and materialise, record by record": one_by_one_s,
        "read side by side and materialise (the auditor)": whole_s,
        "DuckDB alone, from ready Arrow tables": alone_s,
    }
    for name, seconds in cases.items():
        table.add_row(name, f"{events / seconds:,.0f}", f"{alone_s / seconds:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
