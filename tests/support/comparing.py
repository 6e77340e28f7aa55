"""Values as all that they are made of: what equality alone does not tell apart."""

from typing import Any

from pydantic import BaseModel


def all_of(value: Any) -> Any:
    """A value with all that it is made of, and what pydantic keeps beside the fields."""
    if isinstance(value, BaseModel):
        fields = [(name, all_of(field)) for name, field in vars(value).items()]
        kept = value.__pydantic_fields_set__, value.__pydantic_extra__, value.__pydantic_private__
        return type(value), fields, kept
    if isinstance(value, tuple):
        return [all_of(part) for part in value]
    return type(value), repr(value)
