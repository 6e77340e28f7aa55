"""A result as a table for people, CSV or JSON. Table and JSON carry the as-of offsets; beside CSV print `as_of_line`."""

import csv
import io
import json
import re
import shutil
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bat_events.audit.result import Result

FORMATS = ("table", "csv", "json")
_ID_DIGITS = 8
_LONG_WORD = 40
_FOLD = 20
_GAP = 2
_HEX = re.compile(r"^(?:[0-9a-f]{32}|[0-9a-f]{64})$")
_TIME = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?$")
_EXPANDED_ROWS = 1


def as_of_line(result: Result) -> str:
    """How far the log had been read: `topic next-offset`, partitions in order, joined by `/`."""
    reached = ", ".join(
        f"{topic} {'/'.join(str(o) for _, o in sorted(ps.items()))}" for topic, ps in result.as_of.items()
    )
    place = "the running auditor" if result.source == "auditor" else "the audit file; no auditor runs"
    return f"as of {reached or 'the empty log'}; last batch {result.newest or 'never'} UTC; from {place}"


def render(result: Result, format: str = "table", *, width: int | None = None) -> str:
    """Text that ends in a newline. Raises ValueError on an unknown format."""
    if format == "json":
        return json.dumps(result.to_json(), indent=1, ensure_ascii=False) + "\n"
    if format == "csv":
        return _csv(result)
    if format == "table":
        return _table(result, width or shutil.get_terminal_size((120, 24)).columns)
    raise ValueError(f"format {format!r} is unknown: choose of {', '.join(FORMATS)}")


def _csv(result: Result) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(result.columns)
    for row in result.rows:
        writer.writerow([_full(value) for value in row])
    return buffer.getvalue()


def _full(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, kw_only=True)
class _Column:
    """A column laid out: its header broken at underscores, its cells, and how narrow it may become."""

    name: str
    header: str
    cells: list[str]
    numeric: bool

    @property
    def natural(self) -> int:
        return max(self._header_width, *(len(cell) for cell in self.cells), 1)

    @property
    def narrowest(self) -> int:
        foldable = any(" " in cell for cell in self.cells)
        return max(self._header_width, min(self.natural, _FOLD)) if foldable else self.natural

    @property
    def _header_width(self) -> int:
        return max(len(part) for part in self.header.split("\n"))


def _table(result: Result, width: int) -> str:
    columns = [_column(result, number) for number in range(len(result.columns))]
    shown = _fitting(columns, width)
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, highlight=False, markup=False, emoji=False, force_terminal=False)
    if len(shown) < len(columns) and len(result.rows) <= _EXPANDED_ROWS:
        _expanded(console, columns)
        shown = columns
    else:
        _grid(console, shown)
    if len(shown) < len(columns):
        hidden = ", ".join(column.name for column in columns[len(shown) :])
        console.print(f"hidden for want of width: {hidden} (wider terminal, or csv or json)")
    more = " (there are more: the limit cut them off)" if result.truncated else ""
    console.print(f"{len(result.rows)} row{'' if len(result.rows) == 1 else 's'}{more}; {as_of_line(result)}")
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _column(result: Result, number: int) -> _Column:
    name, kind = result.columns[number], result.types[number]
    return _Column(
        name=name,
        header=name.replace("_", "_\n"),
        cells=[_short(row[number]) for row in result.rows],
        numeric="[" not in kind and any(word in kind for word in ("INT", "DOUBLE", "DECIMAL", "FLOAT")),
    )


def _fitting(columns: list[_Column], width: int) -> list[_Column]:
    """The leading columns that the width has room for; one at least."""
    shown: list[_Column] = []
    used = 0
    for column in columns:
        used += column.narrowest + (_GAP if shown else 0)
        if shown and used > width:
            break
        shown.append(column)
    return shown


def _grid(console: Console, columns: list[_Column]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, _GAP - 1, 0, 0))
    for column in columns:
        rigid = column.narrowest == column.natural
        table.add_column(
            column.header,
            justify="right" if column.numeric else "left",
            no_wrap=rigid,
            min_width=column.narrowest,
            max_width=column.natural,
            overflow="fold",
            vertical="top",
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    console.print(table)


def _expanded(console: Console, columns: list[_Column]) -> None:
    margin = max(len(column.name) for column in columns)
    for number in range(len(columns[0].cells)):
        console.print(f"row {number + 1}")
        for column in columns:
            console.print(f"  {column.name:<{margin}}  {column.cells[number]}", soft_wrap=True)


def _short(value: Any) -> str:
    """A cell for people: ids and digests by their beginning, numbers with four significant decimals."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else f"{value:.4g}"
    if isinstance(value, str) and _HEX.match(value):
        return value[:_ID_DIGITS]
    if isinstance(value, str) and _TIME.match(value):
        return value[:19]
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    text = _full(value)
    return f"{text[:_ID_DIGITS]}…" if len(text) > _LONG_WORD and " " not in text else text
