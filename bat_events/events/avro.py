"""Typed events -> Avro schemas, and converters between their values.

The pydantic models are the source; `schemas/*.avsc` are made from them (`make schemas`), committed, and checked by a test.
A committed schema is never edited: a changed event gets a new VERSION and a new file, and its earlier version stays in
events/old. A record's name in the schema is the same in every version.
"""

import types
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from bat_events.events.base import Event
from bat_events.events.types import AvroDefault, FixedHex

NAMESPACE = "bat.events"
_PRIMITIVES: dict[Any, str] = {str: "string", int: "long", float: "double", bool: "boolean", bytes: "bytes"}


def schema_of(cls: type[Event]) -> dict[str, Any]:
    """The Avro schema of an event type, as JSON-ready data. Raises TypeError naming a field that Avro cannot carry."""
    schema = _record(cls, set())
    schema["version"] = cls.VERSION
    return schema


def _doc(text: str | None) -> str:
    return " ".join((text or "").split())


def _record(cls: type[BaseModel], named: set[str]) -> dict[str, Any]:
    named.add(cls.__name__)
    fields = []
    for name, info in cls.model_fields.items():
        try:
            field: dict[str, Any] = {"name": name, "type": _type(_annotation(info), named)}
        except TypeError as error:
            raise TypeError(f"{cls.__name__}.{name}: {error}") from None
        for item in info.metadata:
            if isinstance(item, AvroDefault):
                field["default"] = item.value
        if info.description:
            field["doc"] = _doc(info.description)
        fields.append(field)
    name = cls.type_name() if issubclass(cls, Event) else cls.__name__
    return {"type": "record", "name": name, "namespace": NAMESPACE, "doc": _doc(cls.__doc__), "fields": fields}


def _annotation(info: FieldInfo) -> Any:
    """The field's annotation with its metadata: pydantic splits them."""
    annotation: Any = info.annotation
    for item in info.metadata:
        if isinstance(item, FixedHex):
            annotation = Annotated[annotation, item]
    return annotation


def _strip(annotation: Any) -> tuple[Any, FixedHex | None]:
    fixed: FixedHex | None = None
    while True:
        if get_origin(annotation) is Annotated:
            inner, *metadata = get_args(annotation)
            fixed = next((item for item in metadata if isinstance(item, FixedHex)), fixed)
            annotation = inner
        else:
            return annotation, fixed


def _type(annotation: Any, named: set[str]) -> Any:
    annotation, fixed = _strip(annotation)
    if fixed is not None:
        if fixed.name in named:
            return f"{NAMESPACE}.{fixed.name}"
        named.add(fixed.name)
        return {"type": "fixed", "name": fixed.name, "namespace": NAMESPACE, "size": fixed.size}
    if annotation in _PRIMITIVES:
        return _PRIMITIVES[annotation]
    if _optional(annotation) is not None:
        return ["null", _type(_optional(annotation), named)]
    if get_origin(annotation) is tuple:
        return {"type": "array", "items": _type(get_args(annotation)[0], named)}
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        if annotation.__name__ in named:
            return f"{NAMESPACE}.{annotation.__name__}"
        named.add(annotation.__name__)
        symbols = [member.value for member in annotation]
        return {"type": "enum", "name": annotation.__name__, "namespace": NAMESPACE, "symbols": symbols}
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation.__name__ in named:
            return f"{NAMESPACE}.{annotation.__name__}"
        return _record(annotation, named)
    raise TypeError(f"no Avro type for {annotation!r}")


def _optional(annotation: Any) -> Any | None:
    if get_origin(annotation) in (Union, types.UnionType):
        args = [arg for arg in get_args(annotation) if arg is not type(None)]
        if len(args) == 1 and len(args) < len(get_args(annotation)):
            return args[0]
    return None


@cache
def to_avro(cls: type[BaseModel]) -> Callable[[BaseModel], dict[str, Any]]:
    """A function from an instance of `cls` to the data that fastavro writes."""
    converters = [(name, _writer(_annotation(info))) for name, info in cls.model_fields.items()]

    def convert(instance: BaseModel) -> dict[str, Any]:
        values = instance.__dict__
        return {name: values[name] if writer is None else writer(values[name]) for name, writer in converters}

    return convert


@cache
def from_avro(cls: type[BaseModel]) -> Callable[[dict[str, Any]], None]:
    """A function that makes what fastavro read of `cls` into what pydantic validates, in place: hex of fixed bytes."""
    converters = [
        (name, reader) for name, info in cls.model_fields.items() if (reader := _reader(_annotation(info))) is not None
    ]

    def convert(data: dict[str, Any]) -> None:
        for name, reader in converters:
            data[name] = reader(data[name])

    return convert


def _reader(annotation: Any) -> Callable[[Any], Any] | None:
    """The conversion of one field; None where the value goes as it is."""
    annotation, fixed = _strip(annotation)
    if fixed is not None:
        return bytes.hex
    inner = _optional(annotation)
    if inner is not None:
        reader = _reader(inner)
        return None if reader is None else lambda value: None if value is None else reader(value)
    if get_origin(annotation) is tuple:
        item = _reader(get_args(annotation)[0])
        return None if item is None else lambda value: [item(part) for part in value]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not any(_reader(_annotation(info)) for info in annotation.model_fields.values()):
            return None
        convert = from_avro(annotation)

        def nested(value: dict[str, Any]) -> dict[str, Any]:
            convert(value)
            return value

        return nested
    return None


def _writer(annotation: Any) -> Callable[[Any], Any] | None:
    """The conversion of one field; None where the value goes as it is."""
    annotation, fixed = _strip(annotation)
    if fixed is not None:
        return bytes.fromhex
    inner = _optional(annotation)
    if inner is not None:
        writer = _writer(inner)
        return None if writer is None else lambda value: None if value is None else writer(value)
    if get_origin(annotation) is tuple:
        item = _writer(get_args(annotation)[0])
        return None if item is None else lambda value: [item(part) for part in value]
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return lambda value: value.value
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return to_avro(annotation)
    return None
