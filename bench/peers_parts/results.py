"""What was measured, and the tables of it."""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rich.table import Table

from .contestants import BAT, CONTESTANTS, RAW, RAW_SINGLE, Contestant
from .driving import EXACTLY_ONCE
from .latency import Latency
from .measuring import Report

PATH = ("produce", "consume")


@dataclass
class Results:
    """Reports by contestant and task, and what went wrong."""

    reports: dict[tuple[Contestant, str], list[Report]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, contestant: Contestant, task: str, report: Report) -> None:
        """Keep one run."""
        self.reports.setdefault((contestant, task), []).append(report)

    def rate(self, contestant: Contestant, task: str, *, cpu: bool = False) -> float | None:
        """Events per wall (or CPU) second: the median of the runs; of `path`, both tasks one after the other."""
        if task == "path":
            parts = [self.rate(contestant, part, cpu=cpu) for part in PATH]
            return None if None in parts else 1 / sum(1 / part for part in parts if part)
        found = self.reports.get((contestant, task))
        if not found:
            return None
        return statistics.median(r.events / (r.cpu_s if cpu else r.wall_s) for r in found)

    def latency(self, contestant: Contestant) -> Latency | None:
        """Of the one run."""
        found = self.reports.get((contestant, "latency"))
        return found[0].latency if found else None

    def limit(self) -> Contestant:
        """The raw client in transactions."""
        return next(c for c in CONTESTANTS if c.name == RAW and c.guarantee == EXACTLY_ONCE)

    def ours(self) -> Contestant:
        """This project's row."""
        return next(c for c in CONTESTANTS if c.name == BAT)

    def seen(self) -> list[Contestant]:
        """Who was measured, in the table's order."""
        return [c for c in CONTESTANTS if any(key[0] is c for key in self.reports)]

    def best_peer(self, task: str, *, cpu: bool = False) -> tuple[str, float] | None:
        """The fastest of the peers under any guarantee."""
        rates = [
            (rate, c.label)
            for c in self.seen()
            if c.environment is not None and (rate := self.rate(c, task, cpu=cpu)) is not None
        ]
        return None if not rates else (max(rates)[1], max(rates)[0])

    def tables(self, title: str) -> Iterator[Table]:
        """Throughput, reactions, latency, and the ratios that were aimed at."""
        yield self._rates(title)
        yield self._reactions()
        yield self._ratios()
        yield self._who()

    def _rates(self, title: str) -> Table:
        table = Table(title=f"{title}: events per wall second (per CPU second)")
        for name in ("", "guarantee", "produce", "consume + decode", "both", "both, share of raw"):
            table.add_column(name, justify="left" if name in ("", "guarantee") else "right")
        limit = self.rate(self.limit(), "path")
        for c in self.seen():
            cells = [self._cell(c, task) for task in ("produce", "consume", "path")]
            whole = self.rate(c, "path")
            share = f"{whole / limit:.2f}" if whole and limit else ""
            if any(cells):
                table.add_row(c.name, c.guarantee, *cells, share)
        return table

    def _cell(self, contestant: Contestant, task: str) -> str:
        wall, cpu = self.rate(contestant, task), self.rate(contestant, task, cpu=True)
        return "" if wall is None or cpu is None else f"{wall:,.0f} ({cpu:,.0f})"

    def _reactions(self) -> Table:
        table = Table(title="A reaction for every rollout: consume, decode, encode, produce")
        for name in (
            "",
            "guarantee",
            "reactions/s (per CPU second)",
            "share of raw",
            "p50 ms",
            "p99 ms",
            "of raw p50",
            "of raw p99",
        ):
            table.add_column(name, justify="left" if name in ("", "guarantee") else "right")
        limit, quickest = self.rate(self.limit(), "react"), self.latency(self.limit())
        for c in self.seen():
            rate, late = self.rate(c, "react"), self.latency(c)
            if rate is None and late is None:
                continue
            cells = [self._cell(c, "react"), f"{rate / limit:.2f}" if rate and limit else ""]
            cells += [f"{late.p50:.1f}", f"{late.p99:.1f}"] if late else ["", ""]
            if late and quickest:
                cells += [f"{late.p50 / quickest.p50:.1f}", f"{late.p99 / quickest.p99:.1f}"]
            table.add_row(c.name, c.guarantee, *cells)
        return table

    def _ratios(self) -> Table:
        table = Table(title="What was aimed at")
        for name in ("figure", "reached", "aim"):
            table.add_column(name)
        for cpu in (False, True):
            unit = "CPU second" if cpu else "wall second"
            ours = self.rate(self.ours(), "path", cpu=cpu)
            best, limit = self.best_peer("path", cpu=cpu), self.rate(self.limit(), "path", cpu=cpu)
            if ours and best:
                table.add_row(
                    f"produce + consume + decode beside the best peer ({best[0]}), per {unit}",
                    f"{ours / best[1]:.2f}",
                    ">= 1.5",
                )
            if ours and limit:
                table.add_row(
                    f"produce + consume + decode beside the raw client, per {unit}", f"{ours / limit:.2f}", ">= 0.5"
                )
        self._worker_ratio(table)
        self._latency_ratios(table)
        return table

    def _worker_ratio(self, table: Table) -> None:
        rates = {c.name: self.rate(c, "react") for c in self.seen()}
        worker, limit = rates.get(f"{BAT} worker"), rates.get(RAW_SINGLE)
        if worker and limit:
            table.add_row(
                "a worker's reactions/s beside the raw client's, a transaction for each", f"{worker / limit:.2f}", ""
            )
        loops = [self.rate(c, "path", cpu=cpu) for cpu in (False, True) for c in self.seen() if c.name == RAW]
        if None not in loops and len(loops) == 4:
            wall, cpu = (loops[1] or 0) / (loops[0] or 1), (loops[3] or 0) / (loops[2] or 1)
            table.add_row(
                "raw client: at-least-once beside transactions, per wall and per CPU second",
                f"{wall:.2f}, {cpu:.2f}",
                "<= 1.1",
            )

    def _latency_ratios(self, table: Table) -> None:
        limit = self.latency(self.limit())
        quantiles: dict[str, Callable[[Latency], float]] = {"p50": lambda late: late.p50, "p99": lambda late: late.p99}
        for c in self.seen():
            late = self.latency(c)
            if not c.name.startswith(BAT) or late is None or limit is None:
                continue
            for name, of in quantiles.items():
                table.add_row(
                    f"event to reaction, {c.name}, {name} beside the raw transactional loop",
                    f"{of(late) / of(limit):.2f}",
                    "<= 2",
                )

    def _who(self) -> Table:
        table = Table(title="Who, in which version, with which settings")
        for name in ("", "guarantee", "versions", "settings", "remarks"):
            table.add_column(name, overflow="fold")
        for c in self.seen():
            mine = [r for (who, _), found in self.reports.items() if who is c for r in found]
            versions = ", ".join(f"{name} {number}" for name, number in mine[0].versions.items())
            remarks = "; ".join(dict.fromkeys(filter(None, (c.remark, *(r.remark for r in mine)))))
            table.add_row(c.name, c.guarantee, versions, "; ".join(dict.fromkeys(r.settings for r in mine)), remarks)
        return table
