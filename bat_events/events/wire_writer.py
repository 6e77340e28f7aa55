"""Writers made for one event type each: event -> Avro bytes, the very ones that fastavro writes.

A writer trusts what pydantic guarantees of an instance. What was made past pydantic and does not fit raises something, and then
fastavro is asked, in its strict mode, and says what is wrong. tests/unit/events/test_events_wire.py compares the bytes.
"""

from collections.abc import Callable
from functools import cache
from itertools import count
from struct import Struct
from typing import Any

from bat_events.events.base import Event
from bat_events.events.wire import (
    Boolean,
    Choice,
    Double,
    Group,
    Hex,
    Long,
    Many,
    Maybe,
    Raw,
    Shape,
    Text,
    Unplanned,
    plan_of,
)

Writer = Callable[[Event], bytes]


@cache
def writer_of(cls: type[Event]) -> Writer | None:
    """The writer of a type's bodies; None for a type without a plan. It raises where an instance is not as pydantic makes it."""
    try:
        plan = plan_of(cls)
    except Unplanned:
        return None
    return _Expression(plan).compiled()


def long_bytes(number: int) -> bytes:
    """An integer as Avro writes it. Raises OverflowError beyond 64 bits."""
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError(f"{number} has more than 64 bits")
    rest = (number << 1) ^ (number >> 63)
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


_SMALL = tuple(long_bytes(number) for number in range(4096))


class _Expression:
    """One writer as one expression: the pieces of a record in order, joined."""

    def __init__(self, plan: Group) -> None:
        self._names = (f"x{number}" for number in count())
        self._given: dict[str, Any] = {
            "join": b"".join,
            "small": _SMALL,
            "long": long_bytes,
            "double": Struct("<d").pack,
            "truth": {False: b"\0", True: b"\1"},
        }
        self._text = f"def write(event):\n    return {self._joined(plan, 'event')}"

    def compiled(self) -> Writer:
        """The function."""
        exec(self._text, self._given)
        write: Writer = self._given["write"]
        return write

    def _give(self, value: Any) -> str:
        name = f"g{len(self._given)}"
        self._given[name] = value
        return name

    def _joined(self, shape: Shape, value: str) -> str:
        pieces = self._pieces(shape, value)
        return pieces[0] if len(pieces) == 1 else f"join(({', '.join(pieces)}))"

    def _pieces(self, shape: Shape, value: str) -> list[str]:
        """Expressions that give the bytes of a value, itself an expression that is worked out once."""
        match shape:
            case Group():
                return self._group(shape, value)
            case Long():
                return [self._long(value)]
            case Double():
                return [f"double({value})"]
            case Boolean():
                return [f"truth[{value}]"]
            case Hex():
                return [f"{self._give(_hexed(shape.size))}({value})"]
            case Choice():
                numbers = {member: long_bytes(number) for number, member in enumerate(shape.members)}
                return [f"{self._give(numbers)}[{value}]"]
            case Raw() | Text():
                name = next(self._names)
                encoded = value if isinstance(shape, Raw) else f"{value}.encode()"
                return [self._long(f"len({name} := {encoded})"), name]
            case Maybe():
                name = next(self._names)
                inner = self._joined(shape.inner, name)
                return [f'(b"\\0" if ({name} := {value}) is None else b"\\2" + {inner})']
            case Many():
                items, item = next(self._names), next(self._names)
                each = self._joined(shape.item, item)
                length = self._long(f"len({items})")
                written = f'{length} + join([{each} for {item} in {items}]) + b"\\0"'
                return [f'({written} if ({items} := {value}) else b"\\0")']

    def _group(self, shape: Group, value: str) -> list[str]:
        values = next(self._names)
        found: list[str] = []
        for number, (name, field) in enumerate(shape.fields):
            of = f"({values} := {value}.__dict__)" if number == 0 else values
            found += self._pieces(field, f'{of}["{name}"]')
        return found

    def _long(self, value: str) -> str:
        name = next(self._names)
        return f"(small[{name}] if 0 <= ({name} := {value}) < {len(_SMALL)} else long({name}))"


def _hexed(size: int) -> Callable[[str], bytes]:
    """From hex digits, exactly `size` bytes."""

    def read(digits: str) -> bytes:
        found = bytes.fromhex(digits)
        if len(found) != size:
            raise ValueError(f"{digits!r} is not {size} bytes in hex")
        return found

    return read
