"""The Stage Bank at 20,299 states: synthesis, leakage gate and admission; how much differs, what is refused, what it costs.

make bench NAME=bank ARGS="--states 1000"
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bank_parts.figure import draw
from bank_parts.make import BenchContext, Made, begin, make_all
from bank_parts.measure import Differing, Ledger, shares, short_of

from bat_events.domain.bank import SourceCell, StateRequest, request_at
from bat_events.domain.vocabulary import Track
from bat_events.events.plan import CampaignPlan, EvaluationPlan
from bat_events.settings import load_settings

CANDIDATES = 20_299  # the paper's Stage Bank (facts: paper page)
AIM = 0.95  # distinct prompts
_CHUNK = 21
_CONSOLE = Console(soft_wrap=True, highlight=False, markup=False)


def main() -> int:
    """Make, measure, print and write; 1 where the aim is missed or a sampled condition is not there."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--states", type=int, default=CANDIDATES, help="candidates, the grid gone through cell by cell"
    )
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options.add_argument("--seed", type=int, default=1, help="of the campaign, so of every state")
    options.add_argument(
        "--sample-every", type=int, default=20, help="check the conditions of every so manieth of a cell"
    )
    options.add_argument("--png", type=Path, help="also draw how distinct states grow with states")
    given = options.parse_args()
    settings = load_settings()
    plan = CampaignPlan(tracks=tuple(Track), seed=given.seed, evaluation=EvaluationPlan(repeats=10))
    began = time.monotonic()
    _CONSOLE.print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; fingerprinting 70 held-out tasks")
    context = BenchContext.begun(settings, plan)
    run = Run(context, plan, given)
    first = [request_at(number, plan.tracks) for number in range(given.states)]
    run.make(first, measured=True)
    run.ledger.decide()
    candidates = run.figures()
    wanted = shares(given.states, plan.tracks)
    asked: Counter[SourceCell] = Counter(request.cell for request in first)
    while more := short_of(wanted, run.ledger.admitted, asked):
        _CONSOLE.print(f"{len(more)} states were lost and are made up for")
        run.make(more, measured=False)
        run.ledger.decide()
    run.close()
    result = {**candidates, **run.whole(), "wall_s": round(time.monotonic() - began, 1), "load": os.getloadavg()[0]}
    show(result)
    folder = settings.home.absolute() / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"bank-{given.states}.json"
    path.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
    _CONSOLE.print(f"written: {path}")
    if given.png:
        draw(result["growth"], given.png)
    return 0 if result["aim_reached"] and not result["condition_faults"] and result["cells"]["spread"] <= 1 else 1


class Run:
    """The processes, and what they have made so far."""

    def __init__(self, context: BenchContext, plan: CampaignPlan, given: argparse.Namespace) -> None:
        self.ledger, self.differing = Ledger.begun(context), Differing()
        self._given, self._context = given, context
        self._pool = multiprocessing.get_context("fork").Pool(
            given.processes, initializer=begin, initargs=(context, plan, given.sample_every)
        )
        self._made, self._checked = 0, 0
        self._faults: list[str] = []
        self._synthesis_s = self._gate_s = 0.0
        self._bytes = 0

    def make(self, requests: Sequence[StateRequest], *, measured: bool) -> None:
        """Make, gate and fold these; `measured`: they are among the candidates whose diversity is counted."""
        began = time.monotonic()
        for done, made in enumerate(self._all(requests), start=1):
            self.ledger.fold([made])
            if measured:
                self.differing.add(made)
            self._count(made)
            if measured and done in _points(len(requests)):
                self.differing.point()
                rate = done / (time.monotonic() - began)
                left = (len(requests) - done) / rate
                _CONSOLE.print(f"{done:,} of {len(requests):,} states, {rate:.0f}/s, {left:.0f} s left")

    def figures(self) -> dict[str, Any]:
        """What is said of the candidates as they came."""
        made, table = self._made, self.differing.table()
        prompts = next(row for row in table if row["part"] == "own prompt")
        lost = {"refused": self.ledger.refused, "rejected": self.ledger.rejected, "failed": self.ledger.failed}
        return {
            "states": made,
            "seed": self._given.seed,
            "processes": self._given.processes,
            "differing": table,
            "aim_reached": prompts["distinct_share"] >= AIM,
            "near_duplicate_rate": self.ledger.refused.total() / made,
            **{name: dict(counts) for name, counts in lost.items()},
            "rejection_evidence": list(self.ledger.evidence),
            "synthesis_ms": 1000 * self._synthesis_s / made,
            "gate_ms": 1000 * self._gate_s / made,
            "mean_body_bytes": self._bytes / made,
            "total_body_bytes": self._bytes,
            "conditions_checked": self._checked,
            "condition_faults": self._faults,
            "growth": self.differing.growth,
        }

    def whole(self) -> dict[str, Any]:
        """What is said of the bank once every cell has its share."""
        counts = self.ledger.admitted.values()
        return {
            "cells": {
                "cells": len(counts),
                "admitted": sum(counts),
                "fewest": min(counts),
                "most": max(counts),
                "spread": max(counts) - min(counts),
                "made": self._made,
            },
            "bank_pass_ms": 1000 * self.ledger.pass_s,
        }

    def close(self) -> None:
        """End the processes."""
        self._pool.close()
        self._pool.join()

    def _all(self, requests: Sequence[StateRequest]) -> Iterator[Made]:
        chunks = [requests[at : at + _CHUNK] for at in range(0, len(requests), _CHUNK)]
        for made in self._pool.imap(make_all, chunks):
            yield from made

    def _count(self, made: Made) -> None:
        self._made += 1
        self._synthesis_s += made.synthesis_s
        self._gate_s += made.gate_s
        self._bytes += made.body_bytes
        self._checked += made.checked
        if made.fault is not None:
            self._faults.append(f"{made.request.key}: {made.fault}")


def _points(total: int) -> set[int]:
    return {round(total * part / 20) for part in range(1, 21)}


def show(result: dict[str, Any]) -> None:
    """The figures as tables."""
    table = Table(title=f"{result['states']:,} candidates: what differs")
    for name in ("part", "with", "distinct", "share", "have an equal one", "largest class"):
        table.add_column(name, justify="left" if name == "part" else "right")
    for row in result["differing"]:
        share = "-" if row["distinct_share"] is None else f"{row['distinct_share']:.4f}"
        numbers = [f"{row[key]:,}" for key in ("repeated", "largest_class")]
        table.add_row(row["part"], f"{row['with']:,}", f"{row['distinct']:,}", share, *numbers)
    Console(width=130).print(table)
    cells, said = result["cells"], _CONSOLE.print
    said(f"distinct own prompts: the aim of {AIM:.0%} is {'reached' if result['aim_reached'] else 'MISSED'}")
    said(f"near-copies refused: {result['near_duplicate_rate']:.4%} {result['refused'] or ''}")
    said(f"rejected by the gate: {result['rejected'] or 0}; not made: {result['failed'] or 0}")
    for evidence in result["rejection_evidence"][:10]:
        said(f"  {evidence[:300]}")
    said(
        f"cells: {cells['cells']}, admitted {cells['admitted']:,} of {cells['made']:,} made, {cells['fewest']} to "
        f"{cells['most']} in a cell (differ by {cells['spread']})"
    )
    said(f"conditions checked: {result['conditions_checked']:,}, not there: {len(result['condition_faults'])}")
    for fault in result["condition_faults"][:10]:
        said(f"  {fault}")
    said(
        f"CPU: synthesis {result['synthesis_ms']:.1f} ms, gate {result['gate_ms']:.1f} ms a state; one pass of the bank "
        f"{result['bank_pass_ms']:.0f} ms; bodies {result['mean_body_bytes'] / 1000:.1f} kB each, "
        f"{result['total_body_bytes'] / 1e9:.2f} GB; {result['wall_s']:.0f} s in all at load {result['load']:.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
