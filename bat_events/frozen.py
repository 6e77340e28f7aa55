"""Frozen instances made at once, for the few places that make them by the hundred thousand.

A frozen dataclass sets its fields one by one, each through `object.__setattr__`, and a pydantic model checks what was checked
before. Only for values that are already known to be what the class asks for.
"""

from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

_new, _put = object.__new__, object.__setattr__  # the classes are frozen: theirs refuses


def filled(cls: type[T], values: dict[str, Any]) -> T:
    """An instance of a frozen dataclass without slots that has these fields: all of them."""
    found = _new(cls)
    _put(found, "__dict__", values)
    return found


def filled_event(cls: type[M], values: dict[str, Any]) -> M:
    """As `filled_model`, for an event: on the wire every field of it is given."""
    return filled_model(cls, values, _names(cls))


@cache
def _names(cls: type[BaseModel]) -> set[str]:
    return set(cls.model_fields)


def filled_model(cls: type[M], values: dict[str, Any], given: set[str]) -> M:
    """An instance of a frozen pydantic model with these fields, all of them and in their order; `given` is not copied."""
    found = _new(cls)
    _put(found, "__dict__", values)
    _put(found, "__pydantic_fields_set__", given)
    _put(found, "__pydantic_extra__", None)
    _put(found, "__pydantic_private__", None)
    return found
