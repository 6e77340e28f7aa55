"""Event types -> nodes. A type with anything that the nodes do not check as its model does has no plan: it goes to the codec."""

import types
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, Strict
from pydantic.fields import FieldInfo

from bat_events.audit.columnar.nodes import (
    Check,
    Double,
    Fields,
    Flag,
    Hex,
    Items,
    Length,
    Long,
    Maybe,
    Node,
    Symbol,
    Text,
)
from bat_events.events.base import Event, OldEvent
from bat_events.events.types import AvroDefault, FixedHex, Record

_LIMITS: dict[type[Any], tuple[str, Any]] = {
    annotated_types.Ge: ("ge", lambda values, limit: values < limit),
    annotated_types.Gt: ("gt", lambda values, limit: values <= limit),
    annotated_types.Le: ("le", lambda values, limit: values > limit),
    annotated_types.Lt: ("lt", lambda values, limit: values >= limit),
}


class _Unknown(Exception):
    """Something in a model that no node checks."""


@cache
def plan_of(cls: type[Event]) -> Fields | None:
    """How bodies of a type, in the version of the class, are read side by side; None where they cannot be."""
    if issubclass(cls, OldEvent):  # its upcast is Python
        return None
    try:
        return _fields(cls)
    except _Unknown:
        return None


def _fields(cls: type[BaseModel]) -> Fields:
    decorators = cls.__pydantic_decorators__
    if (
        decorators.model_validators
        or decorators.field_validators
        or decorators.validators
        or decorators.root_validators
    ):
        raise _Unknown(cls)
    wanted = {key: cls.model_config.get(key) for key in Record.model_config}
    if wanted != dict(Record.model_config):
        raise _Unknown(cls)
    nodes = tuple(_node(info.annotation, info.metadata) for info in cls.model_fields.values())
    return Fields(tuple(cls.model_fields), nodes)


def _node(annotation: Any, metadata: list[Any]) -> Node:
    metadata = list(metadata)
    while get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        metadata += more
    metadata = [part for item in metadata for part in (item.metadata if isinstance(item, FieldInfo) else [item])]
    metadata = [item for item in metadata if not isinstance(item, Strict | AvroDefault)]
    hexes = [item for item in metadata if isinstance(item, FixedHex)]
    if hexes:  # the pattern beside it says what hex of so many bytes is
        return Hex(hexes[0].size)
    refused = _refused(metadata)
    if annotation is int:
        return Long(refused)
    if annotation is float:
        return Double(refused)
    if refused is not None:
        raise _Unknown(annotation)
    return _plain(annotation)


def _plain(annotation: Any) -> Node:
    if annotation is str:
        return Text()
    if annotation is bool:
        return Flag()
    if annotation is bytes:
        return Length()
    if get_origin(annotation) in (Union, types.UnionType):
        inner = [arg for arg in get_args(annotation) if arg is not type(None)]
        if len(inner) == 1:
            return Maybe(_node(inner[0], []))
    if get_origin(annotation) is tuple and get_args(annotation)[1:] == (...,):
        return Items(_node(get_args(annotation)[0], []))
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return Symbol(tuple(member.value for member in annotation))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _fields(annotation)
    raise _Unknown(annotation)


def _refused(metadata: list[Any]) -> Check | None:
    checks = []
    for item in metadata:
        if type(item) not in _LIMITS:
            raise _Unknown(item)
        name, test = _LIMITS[type(item)]
        checks.append((test, getattr(item, name)))
    if not checks:
        return None

    def refused(values: Any) -> Any:
        wrong = checks[0][0](values, checks[0][1])
        for test, limit in checks[1:]:
            wrong |= test(values, limit)
        return wrong

    return refused
