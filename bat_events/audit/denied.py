"""What the broker denied to whom, from the local broker's authorizer log: this is not on the log of events.

Concludes: which user tried what its rights do not allow, and how often the broker said no. A client that may not even see a
topic is stopped when it asks for the topic's partitions, so a forbidden read shows as DESCRIBE; clients ask again by
themselves, so a count is no number of attempts. Does not conclude: that nothing else was tried. Refused logins are not in
this file, the broker keeps four files of 8 MiB, and who may write this machine's files may change them.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bat_events.errors import ConfigurationError
from bat_events.log.local_kafka import LocalKafka
from bat_events.log.local_kafka_config import LOGS_KEPT

NAME = "denied_accesses"
TITLE = "what the broker denied to whom (from the local broker's authorizer log)"

_LINE = re.compile(
    r"^(?P<time>\S+Z) Principal = User:(?P<user>.+?) is Denied operation = (?P<operation>\w+) from host = \S+ "
    r"on resource = (?P<kind>\w+):(?P<pattern>\w+):(?P<resource>.+?) for request = (?P<request>\w+) "
)


@dataclass(frozen=True, kw_only=True)
class DeniedAccess:
    """One kind of denial: the same user, operation and resource. Times are UTC, ISO 8601."""

    principal: str
    operation: str
    kind: str
    resource: str
    first: str
    last: str
    count: int
    requests: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DeniedAccesses:
    """What is known of denials; `why` says why nothing can be, where `observable` is false."""

    observable: bool
    why: str | None = None
    rows: tuple[DeniedAccess, ...] = ()
    unread: int = 0
    """Lines that are no denials in the form that is known: a changed broker, or a changed file."""
    begins: str | None = None
    """The time of the oldest line, where older files may have been dropped: before it nothing is known."""

    def render(self, form: str = "table", *, width: int = 160) -> str:
        """Text that ends in a newline. Raises ConfigurationError on an unknown format."""
        if form == "json":
            return json.dumps(asdict(self), indent=1) + "\n"
        if form == "csv":
            return self._csv()
        if form == "table":
            return self._table(width)
        raise ConfigurationError(f"--format {form!r}: choose one of table, csv, json")

    def summary(self) -> str:
        """One line that says how far this goes."""
        if not self.observable:
            return f"not observable: {self.why}"
        unread = f"; {self.unread} lines could not be read" if self.unread else ""
        return f"{len(self.rows)} kinds of denials, {sum(row.count for row in self.rows)} in all{unread}"

    def _csv(self) -> str:
        if not self.observable:
            return f"not observable,{json.dumps(self.why)}\n"
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(DeniedAccess.__dataclass_fields__)
        for row in self.rows:
            writer.writerow([*(list(asdict(row).values())[:-1]), " ".join(row.requests)])
        return buffer.getvalue()

    def _table(self, width: int) -> str:
        buffer = io.StringIO()
        console = Console(file=buffer, width=width, highlight=False, markup=False, force_terminal=False)
        if self.rows:
            table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
            for name in DeniedAccess.__dataclass_fields__:
                table.add_column(name, justify="right" if name == "count" else "left", overflow="fold")
            for row in self.rows:
                table.add_row(*(", ".join(v) if isinstance(v, tuple) else str(v) for v in asdict(row).values()))
            console.print(table)
        console.print(self.summary())
        return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def look(broker: LocalKafka, bootstrap: str | None) -> DeniedAccesses:
    """The denials of this home's broker; `bootstrap` is the cluster that the settings name, if any."""
    status = broker.status()
    if bootstrap is not None and bootstrap != status.bootstrap:
        return DeniedAccesses(
            observable=False,
            why=f"the cluster at {bootstrap} keeps its authorizer's log on its own machines; ask who runs it",
        )
    if status.running and not status.secured:
        return DeniedAccesses(observable=False, why="the local broker runs without access rules, so it denies nothing")
    if not broker.authorizer_log.exists():
        return DeniedAccesses(observable=False, why="no local broker with access rules was started in this home yet")
    return read(broker.authorizer_log)


def read(log: Path) -> DeniedAccesses:
    """The denials in an authorizer log and its older files."""
    paths = sorted(path for path in log.parent.glob(f"{log.name}*") if path.is_file())
    found, unread = parse(line for path in paths for line in _lines(path))
    begins = min((row.first for row in found), default=None) if len(paths) > LOGS_KEPT else None
    return DeniedAccesses(observable=True, rows=found, unread=unread, begins=begins)


def parse(lines: Iterable[str]) -> tuple[tuple[DeniedAccess, ...], int]:
    """(Denials by user, resource and operation; how many lines are not in the known form)."""
    rows: dict[tuple[str, str, str, str], DeniedAccess] = {}
    unread = 0
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            unread += bool(line.strip())
            continue
        key = (match["user"], match["kind"], match["resource"], match["operation"])
        time, old = match["time"], rows.get(key)
        rows[key] = DeniedAccess(
            principal=match["user"],
            operation=match["operation"],
            kind=match["kind"],
            resource=match["resource"],
            first=min(time, old.first) if old else time,
            last=max(time, old.last) if old else time,
            count=(old.count if old else 0) + 1,
            requests=tuple(sorted({*(old.requests if old else ()), match["request"]})),
        )
    return tuple(rows[key] for key in sorted(rows)), unread


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="backslashreplace") as file:
        yield from file
