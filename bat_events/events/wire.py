"""What stands on the wire for one event type, and what its values must fulfil: the plan that readers and writers are made from.

The plan is taken from the very schema that pydantic validates a class with, beside the Avro schema of that class. Only what is
known here is planned: a class with anything else in it (a validator, a new kind of constraint) has no plan, and its events
go through fastavro and pydantic alone. So a rule that somebody adds to an event can never be passed by.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from bat_events.events.avro import schema_of
from bat_events.events.base import Event


class Unplanned(Exception):
    """Something in a class is not known here."""


@dataclass(frozen=True)
class Long:
    """An integer of 64 bits; `ge` is its least value."""

    ge: int | None


@dataclass(frozen=True)
class Double:
    """A finite number within the bounds that are given."""

    ge: float | None
    gt: float | None
    le: float | None
    lt: float | None


@dataclass(frozen=True)
class Boolean:
    """True or False."""


@dataclass(frozen=True)
class Raw:
    """Bytes of any length."""


@dataclass(frozen=True)
class Text:
    """A string of at most `most` characters."""

    most: int | None


@dataclass(frozen=True)
class Hex:
    """`size` bytes on the wire, lower-case hex digits in Python."""

    size: int


@dataclass(frozen=True)
class Choice:
    """One of a closed enum's members, which stand in the order of their symbols on the wire."""

    members: tuple[StrEnum, ...]


@dataclass(frozen=True)
class Maybe:
    """Null or a value."""

    inner: "Shape"


@dataclass(frozen=True)
class Many:
    """Any number of items: a tuple in Python."""

    item: "Shape"


@dataclass(frozen=True)
class Group:
    """A record: an instance of `cls` with these fields, in the order of the wire."""

    cls: type[BaseModel]
    fields: tuple[tuple[str, "Shape"], ...]


Shape = Long | Double | Boolean | Raw | Text | Hex | Choice | Maybe | Many | Group


def plan_of(cls: type[Event]) -> Group:
    """The plan of an event type. Raises Unplanned naming what is not known."""
    named: dict[str, Any] = {}
    shape = _shape(cls.__pydantic_core_schema__, _named(schema_of(cls), named), named, {})
    if not isinstance(shape, Group) or shape.cls is not cls:
        raise Unplanned(f"{cls.__name__} is no plain record")
    return shape


def least(shape: Shape) -> int:
    """The fewest bytes that a value has on the wire."""
    match shape:
        case Hex():
            return shape.size
        case Double():
            return 8
        case Group():
            return sum(least(field) for _, field in shape.fields)
    return 1


def _named(avro: Any, named: dict[str, Any]) -> Any:
    """The schema itself, its named types noted."""
    if isinstance(avro, list):
        for branch in avro:
            _named(branch, named)
    elif isinstance(avro, dict):
        if "name" in avro and "type" in avro and avro["type"] in ("record", "enum", "fixed"):
            named[f"{avro['namespace']}.{avro['name']}" if "namespace" in avro else avro["name"]] = avro
        for field in avro.get("fields", ()):
            _named(field["type"], named)
        if "items" in avro:
            _named(avro["items"], named)
    return avro


def _only(core: Mapping[str, Any], *known: str) -> None:
    """Raises Unplanned where a schema says more than is known here; its metadata is for JSON schemas and binds no value."""
    more = set(core) - set(known) - {"type", "metadata", "ref"}
    if more:
        raise Unplanned(f"{core['type']} with {', '.join(sorted(more))}")


def _shape(core: Any, avro: Any, named: Mapping[str, Any], known: dict[str, Any]) -> Shape:
    """The shape of a value from pydantic's schema and Avro's; `known` holds pydantic's definitions."""
    if isinstance(avro, str):
        avro = named.get(avro, avro)
    kind = core["type"]
    if kind == "definitions":
        _only(core, "schema", "definitions")
        known.update({one["ref"]: one for one in core["definitions"]})
        return _shape(core["schema"], avro, named, known)
    if kind == "definition-ref":
        _only(core, "schema_ref")
        return _shape(known[core["schema_ref"]], avro, named, known)
    if kind == "default":  # the wire always has a value
        _only(core, "schema", "default")
        return _shape(core["schema"], avro, named, known)
    if kind == "nullable" and isinstance(avro, list) and len(avro) == 2 and avro[0] == "null":
        _only(core, "schema")
        return Maybe(_shape(core["schema"], avro[1], named, known))
    if kind == "tuple" and isinstance(avro, dict) and avro.get("type") == "array":
        _only(core, "items_schema", "strict", "variadic_item_index")
        if core.get("variadic_item_index") != 0 or len(core["items_schema"]) != 1 or core.get("strict") is not False:
            raise Unplanned("a tuple that is no sequence")
        return Many(_shape(core["items_schema"][0], avro["items"], named, known))
    if kind == "model" and isinstance(avro, dict) and avro.get("type") == "record":
        return _group(core, avro, named, known)
    return _scalar(kind, core, avro)


def _scalar(kind: str, core: Any, avro: Any) -> Shape:
    of = avro["type"] if isinstance(avro, dict) else avro
    match kind, of:
        case "bool", "boolean":
            _only(core)
            return Boolean()
        case "bytes", "bytes":
            _only(core)
            return Raw()
        case "int", "long":
            _only(core, "ge")
            return Long(core.get("ge"))
        case "float", "double":
            _only(core, "ge", "gt", "le", "lt")
            return Double(core.get("ge"), core.get("gt"), core.get("le"), core.get("lt"))
        case "str", "string":
            _only(core, "max_length")
            return Text(core.get("max_length"))
        case "str", "fixed":
            _only(core, "pattern")
            if core.get("pattern") != f"^[0-9a-f]{{{2 * avro['size']}}}$":
                raise Unplanned(f"a string of pattern {core.get('pattern')!r} for {avro['size']} bytes")
            return Hex(avro["size"])
        case "enum", "enum":
            _only(core, "cls", "members", "sub_type", "strict")
            members = tuple(core["members"])
            if core.get("strict") is not False or [m.value for m in members] != avro["symbols"] or len(members) > 63:
                raise Unplanned(f"enum {core['cls'].__name__}")
            return Choice(members)
    raise Unplanned(f"{kind} as {of}")


_CONFIG = {"strict": True, "extra_fields_behavior": "forbid", "allow_inf_nan": False}
"""Of every record (events.types.Record): what shapes stand for is these settings' meaning of a type."""


def _group(core: Any, avro: Any, named: Mapping[str, Any], known: dict[str, Any]) -> Group:
    _only(core, "cls", "config", "custom_init", "root_model", "schema")
    cls, config, inner = core["cls"], {k: v for k, v in core["config"].items() if k != "title"}, core["schema"]
    if config != _CONFIG or core.get("custom_init") or core.get("root_model") or inner["type"] != "model-fields":
        raise Unplanned(f"record {cls.__name__} with settings of its own")
    _only(inner, "computed_fields", "fields", "model_name")
    names = [field["name"] for field in avro["fields"]]
    if inner.get("computed_fields") or list(cls.model_fields) != names or set(inner["fields"]) != set(names):
        raise Unplanned(f"record {cls.__name__} with other fields than its schema")
    fields = []
    for field in avro["fields"]:
        one = inner["fields"][field["name"]]
        if one["type"] != "model-field":
            raise Unplanned(f"{cls.__name__}.{field['name']}: {one['type']}")
        _only(one, "schema")
        fields.append((field["name"], _shape(one["schema"], field["type"], named, known)))
    return Group(cls, tuple(fields))
