"""The base of every event type and the table of all types.

An event's body is what happened, as a pure function of its cause; circumstances (time, cost, trace, cut) stand in the
envelope. So a rollout done again after a crash has the same body, and body digests can be compared between runs.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from bat_events.events.types import Record


class Event(Record):
    """An event's body. Subclasses set `TOPIC` and, when a later schema version is added beside, `VERSION`."""

    TOPIC: ClassVar[str]
    VERSION: ClassVar[int] = 1

    @classmethod
    def type_name(cls) -> str:
        """The type without its version: ids are made from it, so they survive a new schema version."""
        return cls.__name__

    @classmethod
    def ce_type(cls) -> str:
        """The CloudEvents type, such as `bat.RoundPlanned.v1`."""
        return f"bat.{cls.__name__}.v{cls.VERSION}"

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "TOPIC" in cls.__dict__:
            _TYPES[cls.ce_type()] = cls


_TYPES: dict[str, type[Event]] = {}


def event_types() -> Iterator[type[Event]]:
    """Every event type, in order of topic and name."""
    import bat_events.events.catalog  # noqa: F401  (registers the types)

    yield from sorted(_TYPES.values(), key=lambda cls: (cls.TOPIC, cls.__name__))


def event_type(ce_type: str) -> type[Event] | None:
    """The class of a CloudEvents type, or None where it is unknown."""
    import bat_events.events.catalog  # noqa: F401

    return _TYPES.get(ce_type)
