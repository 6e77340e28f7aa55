"""The base of every event type and the table of all types and their versions.

An event's body is what happened, as a pure function of its cause; circumstances (time, cost, trace, cut) stand in the
envelope. So a rollout done again after a crash has the same body, and body digests can be compared between runs.

A type has one newest version, which is written and which every reader sees. Earlier ones are `OldEvent`s, kept in
events/old: they are decoded as they were written and then upcast, in the codec and nowhere else.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from bat_events.events.types import Record


class Event(Record):
    """An event's body. Subclasses set `TOPIC` and, when a later schema version is added beside, `VERSION`."""

    TOPIC: ClassVar[str]
    HELDOUT_TOPIC: ClassVar[str | None] = None
    """Where the held-out plane's events of this type stand; None for types that have one topic."""
    VERSION: ClassVar[int] = 1

    @classmethod
    def topics(cls) -> tuple[str, ...]:
        """Every topic on which an event of this type may stand."""
        return (cls.TOPIC,) if cls.HELDOUT_TOPIC is None else (cls.TOPIC, cls.HELDOUT_TOPIC)

    @classmethod
    def type_name(cls) -> str:
        """The type without its version: ids are made from it, so they survive a new schema version."""
        return cls.__name__

    @classmethod
    def ce_type(cls) -> str:
        """The CloudEvents type, such as `bat.RoundPlanned.v1`."""
        return f"bat.{cls.type_name()}.v{cls.VERSION}"

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "TOPIC" in cls.__dict__:
            _register(cls)


class OldEvent(Event):
    """An earlier version of a type: it is read, never written anew.

    Subclasses set `SUCCESSOR`, the next version, and `VERSION`. A nested record that the next version changed is kept
    in the same module, under the name that it had.
    """

    SUCCESSOR: ClassVar[type[Event]]

    def upcast(self) -> Event:
        """The same event in the next version. What was not recorded is said to be so, never made up."""
        raise NotImplementedError(f"{type(self).__name__} has no upcast")

    @classmethod
    def type_name(cls) -> str:
        """That of its successor: versions of one type share name, topic and ids."""
        return cls.SUCCESSOR.type_name()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        cls.TOPIC = cls.SUCCESSOR.TOPIC
        super().__pydantic_init_subclass__(**kwargs)


def newest(event: Event) -> Event:
    """The event in the newest version of its type: itself, or what its upcasts lead to."""
    while isinstance(event, OldEvent):
        later = event.upcast()
        if type(later) is not event.SUCCESSOR:
            raise TypeError(
                f"{type(event).__name__}.upcast gives {type(later).__name__}: it must give {event.SUCCESSOR.__name__}"
            )
        event = later
    return event


_TYPES: dict[str, type[Event]] = {}


def _register(cls: type[Event]) -> None:
    if issubclass(cls, OldEvent) and cls.VERSION >= cls.SUCCESSOR.VERSION:
        raise TypeError(
            f"{cls.__name__} has VERSION {cls.VERSION}, its successor {cls.SUCCESSOR.VERSION}: give it less"
        )
    known = _TYPES.setdefault(cls.ce_type(), cls)
    if known is not cls:
        raise TypeError(
            f"{cls.ce_type()} is {known.__module__}.{known.__name__} already: give {cls.__name__} a VERSION"
        )


def event_versions() -> Iterator[type[Event]]:
    """Every version of every event type, in order of topic, name and version: what can be read."""
    import bat_events.events.catalog  # noqa: F401  (registers the types)

    yield from sorted(_TYPES.values(), key=lambda cls: (cls.TOPIC, cls.type_name(), cls.VERSION))


def event_types() -> Iterator[type[Event]]:
    """The newest version of every event type, in order of topic and name: what is written, and what readers see."""
    yield from (cls for cls in event_versions() if not issubclass(cls, OldEvent))


def event_type(ce_type: str) -> type[Event] | None:
    """The class of a CloudEvents type, in exactly that version, or None where it is unknown."""
    import bat_events.events.catalog  # noqa: F401

    return _TYPES.get(ce_type)
