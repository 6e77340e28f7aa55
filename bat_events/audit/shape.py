"""Event types -> typed tables: column names, DuckDB types, Arrow types, and how a value is read from an event.

Everything follows from the event's Avro schema, the public contract. A record becomes a STRUCT, an array a LIST, an
enum or a fixed its text. Packed bytes are not copied: their column `NAME_bytes` holds how many there are.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from bat_events.codec import Fact
from bat_events.events.avro import schema_of
from bat_events.events.base import Event, event_types

_PRIMITIVES: dict[str, tuple[str, Any]] = {
    "string": ("VARCHAR", pa.string()),
    "long": ("BIGINT", pa.int64()),
    "double": ("DOUBLE", pa.float64()),
    "boolean": ("BOOLEAN", pa.bool_()),
}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One value: its DuckDB type, its Arrow type, and its conversion (None: it goes as it is)."""

    sql: str
    arrow: Any
    convert: Callable[[Any], Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a typed table."""

    name: str
    shape: Shape
    read: Callable[[Fact], Any]
    doc: str = ""


@dataclass(frozen=True, kw_only=True)
class TypedTable:
    """The table of one event type: id, campaign and time of the envelope, then the body's fields."""

    name: str
    event: type[Event]
    columns: tuple[Column, ...]
    doc: str

    def ddl(self) -> str:
        """CREATE TABLE with comments."""
        columns = ", ".join(f"{quote(column.name)} {column.shape.sql}" for column in self.columns)
        lines = [f"CREATE TABLE {self.name} ({columns});", f"COMMENT ON TABLE {self.name} IS {text(self.doc)};"]
        lines += [
            f"COMMENT ON COLUMN {self.name}.{quote(column.name)} IS {text(column.doc)};"
            for column in self.columns
            if column.doc
        ]
        return "\n".join(lines)

    def rows(self, facts: list[Fact]) -> Any:
        """An Arrow table of facts of this type."""
        arrays = []
        for column in self.columns:
            values = [column.read(fact) for fact in facts]
            convert = column.shape.convert
            if convert is not None:
                values = [convert(value) for value in values]
            arrays.append(pa.array(values, type=column.shape.arrow))
        return pa.Table.from_arrays(arrays, names=[column.name for column in self.columns])


def quote(name: str) -> str:
    """A quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A quoted SQL string."""
    return "'" + value.replace("'", "''") + "'"


def table_name(type_name: str) -> str:
    """RolloutCompleted -> rollout_completed."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type_name).lower()


@cache
def typed_tables() -> dict[type[Event], TypedTable]:
    """The table of every event type, held-out ones too: they stay empty in the training plane's file."""
    return {cls: _table(cls) for cls in event_types()}


def _table(cls: type[Event]) -> TypedTable:
    varchar = Shape(sql="VARCHAR", arrow=pa.string())
    stamp = Shape(sql="TIMESTAMP", arrow=pa.timestamp("us"))
    columns = [
        Column(name="id", shape=varchar, read=lambda fact: fact.envelope.id),
        Column(name="campaign", shape=varchar, read=lambda fact: fact.envelope.campaign),
        Column(name="time", shape=stamp, read=lambda fact: fact.envelope.time, doc="UTC"),
    ]
    schema = schema_of(cls)
    named: dict[str, Shape] = {}
    for field in schema["fields"]:
        columns.append(_column(field, named))
    names = [column.name for column in columns]
    if len(set(names)) != len(names):
        raise TypeError(f"{cls.__name__}: a field has the name of an envelope column: {names}")
    return TypedTable(name=table_name(cls.__name__), event=cls, columns=tuple(columns), doc=schema["doc"])


def _column(field: dict[str, Any], named: dict[str, Shape]) -> Column:
    name = field["name"]
    if field["type"] == "bytes":
        shape = Shape(sql="BIGINT", arrow=pa.int64(), convert=len)
        return Column(name=f"{name}_bytes", shape=shape, read=_reader(name), doc=f"length of {name}")
    return Column(name=name, shape=_shape(field["type"], named), read=_reader(name), doc=field.get("doc", ""))


def _reader(name: str) -> Callable[[Fact], Any]:
    return lambda fact: fact.event.__dict__[name]


def _shape(avro: Any, named: dict[str, Shape]) -> Shape:
    if isinstance(avro, str):
        if avro in _PRIMITIVES:
            sql, arrow = _PRIMITIVES[avro]
            return Shape(sql=sql, arrow=arrow)
        if avro == "bytes":  # nested packed bytes: as a count, like the top level
            return Shape(sql="BIGINT", arrow=pa.int64(), convert=len)
        return named[avro]
    if isinstance(avro, list):  # ["null", type]
        inner = _shape(avro[1], named)
        convert = inner.convert
        if convert is None:
            return inner
        return Shape(sql=inner.sql, arrow=inner.arrow, convert=lambda value: None if value is None else convert(value))
    kind = avro["type"]
    if kind == "array":
        return _list(_shape(avro["items"], named))
    if kind == "record":
        shape = _struct(avro, named)
    else:  # enum and fixed: text in Python
        shape = Shape(sql="VARCHAR", arrow=pa.string(), convert=str if kind == "enum" else None)
    named[f"{avro['namespace']}.{avro['name']}"] = shape
    return shape


def _list(item: Shape) -> Shape:
    convert = item.convert
    each: Callable[[Any], Any] = list if convert is None else lambda value: [convert(part) for part in value]
    return Shape(sql=f"{item.sql}[]", arrow=pa.list_(item.arrow), convert=each)


def _struct(avro: dict[str, Any], named: dict[str, Shape]) -> Shape:
    fields = [(field["name"], _shape(field["type"], named)) for field in avro["fields"]]
    sql = ", ".join(f"{quote(name)} {shape.sql}" for name, shape in fields)
    arrow = pa.struct([(name, shape.arrow) for name, shape in fields])
    readers = [(name, shape.convert) for name, shape in fields]

    def convert(value: Any) -> dict[str, Any]:
        values = value.__dict__
        return {name: values[name] if read is None else read(values[name]) for name, read in readers}

    return Shape(sql=f"STRUCT({sql})", arrow=arrow, convert=convert)
