"""How long every named query takes on a rebuilt file, asked as the auditor asks: checked, limited, in a transaction."""

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

AIM_MS = 100.0


@dataclass(frozen=True)
class Timed:
    """One query: rows of its answer (at most the limit), milliseconds at the median and at the 95th percentile."""

    name: str
    rows: int
    cut_off: bool
    p50_ms: float
    p95_ms: float


def timed(path: Path, runs: int) -> list[Timed]:
    """Every named query `runs` times, its parameters left out, the slowest first."""
    from bat_events.audit.file import open_read_only
    from bat_events.audit.query import QueryLimits, answer
    from bat_events.audit.run import list_queries

    found = []
    connection = open_read_only(path)
    for query in list_queries():
        took = []
        for _ in range(runs):
            began = time.perf_counter()
            result = answer(connection.cursor(), query.sql, dict.fromkeys(query.params), QueryLimits(), "file")
            took.append(1000 * (time.perf_counter() - began))
        p95 = statistics.quantiles(took, n=20, method="inclusive")[-1] if runs > 1 else took[0]
        found.append(Timed(query.name, len(result.rows), result.truncated, statistics.median(took), p95))
    connection.close()
    return sorted(found, key=lambda one: -one.p95_ms)
