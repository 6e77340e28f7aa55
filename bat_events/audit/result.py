"""An answer: columns, rows as plain values, and how far the log had been read when it was given."""

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from bat_events.events.envelope import Cut


@dataclass(frozen=True, kw_only=True)
class Result:
    """The same from a running auditor and from the file. `as_of` holds the next offset per topic and partition."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    as_of: Cut
    newest: str | None
    """When the newest materialised batch was written, UTC."""
    truncated: bool
    """Whether there were more rows than the limit."""
    source: str
    """`auditor` or `file`."""

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Result":
        """The inverse of `to_json`, after JSON turned tuples to lists and partitions to text."""
        return cls(
            columns=tuple(data["columns"]),
            types=tuple(data["types"]),
            rows=tuple(tuple(row) for row in data["rows"]),
            as_of={topic: {int(p): o for p, o in ps.items()} for topic, ps in data["as_of"].items()},
            newest=data["newest"],
            truncated=data["truncated"],
            source=data["source"],
        )

    def dicts(self) -> list[dict[str, Any]]:
        """The rows by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


_PLAIN = frozenset({"VARCHAR", "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT"})
"""DuckDB types whose values JSON carries as they are."""


def plain_rows(types: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
    """Rows of these DuckDB types as JSON can carry them; most columns need nothing, and a large answer has many values."""
    known: dict[str, Callable[[Any], Any]] = {"DOUBLE": _plain_real, "TIMESTAMP": _plain_time}
    odd = [
        (number, known.get(type_, plain))
        for number, type_ in enumerate(types)
        if type_.removesuffix("[]") not in _PLAIN
    ]
    if not odd:
        return tuple(tuple(row) for row in rows)
    made = []
    for row in rows:
        values = list(row)
        for number, convert in odd:
            values[number] = convert(values[number])
        made.append(tuple(values))
    return tuple(made)


def _plain_real(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def _plain_time(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat(sep=" ")


def plain(value: Any) -> Any:
    """A DuckDB value as JSON can carry it: times as ISO text, bytes as base64, no NaN."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime | date):
        return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    return str(value)
