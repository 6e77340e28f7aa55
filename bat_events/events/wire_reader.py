"""Readers made for one event type each: bytes -> event in one pass, without the detour over fastavro's dicts and pydantic.

A reader gives an event only where fastavro and pydantic would give the very same one. On any doubt (a block, a number or a byte
that this project's writers do not make, a value outside its bounds, bytes too few or too many) it gives None, and the two
say what is wrong or right. tests/unit/events/test_events_wire.py holds both ways against each other.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from struct import Struct
from struct import error as StructError
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
    least,
    plan_of,
)

Reader = Callable[[bytes], Event | None]

_MORE = 0x81  # bits of a number's first byte: negative, or longer than this byte


class Doubt(Exception):
    """Not what a writer of this project makes: somebody else shall judge."""


_DOUBTS = (Doubt, IndexError, KeyError, StructError, UnicodeDecodeError)


def no_reader(_: bytes) -> None:
    """The reader of a type without a plan."""


@cache
def reader_of(cls: type[Event]) -> Reader:
    """The reader of bodies in the class's own schema: gives the event, or None where fastavro and pydantic must be asked."""
    try:
        plan = plan_of(cls)
    except Unplanned:
        return no_reader
    read = _Source(plan).compiled()

    def reader(value: bytes) -> Event | None:
        try:
            return read(value)
        except _DOUBTS:
            return None

    return reader


def long_at(value: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a place, and the place behind it. Raises Doubt where it is longer than 64 bits."""
    if (first := value[at]) & 0x80 and (second := value[at + 1]) < 0x80:  # two bytes are what most numbers have
        found = first & 0x7F | second << 7
        return (found >> 1) ^ -(found & 1), at + 2
    found = shift = 0
    while (byte := value[at]) & 0x80:
        found |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    if shift > 63 or (shift == 63 and byte > 1):
        raise Doubt
    found |= byte << shift
    return (found >> 1) ^ -(found & 1), at + 1


def size_at(value: bytes, at: int) -> tuple[int, int]:
    """As `long_at`, of a length. Raises Doubt where it is below zero."""
    first, second = value[at], value[at + 1]
    if first & 0x81 == 0x80:
        if second < 0x80:
            return first >> 1 & 0x3F | second << 6, at + 2
        if (third := value[at + 2]) < 0x80:
            return first >> 1 & 0x3F | (second & 0x7F) << 6 | third << 13, at + 3
    size, at = long_at(value, at)
    if size < 0:
        raise Doubt
    return size, at


_BEGIN, _MOST_BEGINNINGS, _MOST_ALIKE, _LONGEST = 24, 64, 8, 2048
_Known = dict[bytes, list[tuple[bytes, tuple[Any, ...]]]]
"""Sequences that were read lately and their bytes, by the first of these."""


def _keep(known: _Known, begin: bytes, raw: bytes, found: tuple[Any, ...]) -> None:
    if len(raw) > _LONGEST:
        return
    alike = known.get(begin)
    if alike is None:
        if len(known) >= _MOST_BEGINNINGS:
            known.clear()
        alike = known[begin] = []
    elif len(alike) >= _MOST_ALIKE:
        del alike[0]
    alike.append((raw, found))


def _comes_again(shape: Shape) -> bool:
    """Whether equal values are to be expected: checks and rubric items repeat themselves, digests and packed bytes never."""
    match shape:
        case Group():
            return all(_comes_again(field) for _, field in shape.fields)
        case Maybe():
            return _comes_again(shape.inner)
        case Many():
            return _comes_again(shape.item)
    return not isinstance(shape, Hex | Raw)


class _Source:
    """The source text of one reader. Everything nested is written out in one function, for calls cost more than reading."""

    def __init__(self, plan: Group) -> None:
        self._lines: list[str] = []
        self._names = (f"x{number}" for number in count())
        self._given: dict[str, Any] = {
            "Doubt": Doubt,
            "long_at": long_at,
            "size_at": size_at,
            "double": Struct("<d").unpack_from,
            "new": object.__new__,
            "put": object.__setattr__,  # the classes are frozen, and theirs refuses
            "truth": {0: False, 1: True},
            "keep": _keep,
        }
        self._put(0, "def read(v):", "    n = len(v)", "    i = 0")
        self._read(plan, "found", 1)
        self._put(1, "if i != n:", "    raise Doubt", "return found")

    def compiled(self) -> Callable[[bytes], Event]:
        """The function."""
        exec("\n".join(self._lines), self._given)
        read: Callable[[bytes], Event] = self._given["read"]
        return read

    def _put(self, depth: int, *lines: str) -> None:
        self._lines += [f"{'    ' * depth}{line}" for line in lines]

    def _give(self, value: Any) -> str:
        """A name for a value that the function uses."""
        name = f"g{len(self._given)}"
        self._given[name] = value
        return name

    def _read(self, shape: Shape, into: str, depth: int) -> None:
        match shape:
            case Group():
                self._group(shape, into, depth)
            case Many():
                self._many(shape, into, depth)
            case Maybe():
                self._put(depth, "b = v[i]", "i += 1", "if b == 2:")
                self._read(shape.inner, into, depth + 1)
                self._put(depth, "elif b == 0:", f"    {into} = None", "else:", "    raise Doubt")
            case Long() | Double():
                self._number(shape, into, depth)
            case Hex():
                self._put(depth, f"{into} = v[i:i + {shape.size}].hex()", f"i += {shape.size}")
            case Boolean():
                self._put(depth, f"{into} = truth[v[i]]", "i += 1")
            case Choice():
                members = self._give({2 * number: member for number, member in enumerate(shape.members)})
                self._put(depth, f"{into} = {members}[v[i]]", "i += 1")
            case Raw() | Text():
                self._put(depth, *_size("b"), "j = i + b")
                self._put(depth, f"{into} = " + ("v[i:j]" if isinstance(shape, Raw) else "v[i:j].decode()"), "i = j")
                if isinstance(shape, Text) and shape.most is not None:
                    self._put(depth, f"if len({into}) > {shape.most}:", "    raise Doubt")

    def _number(self, shape: Long | Double, into: str, depth: int) -> None:
        if isinstance(shape, Double):
            self._put(
                depth, f"{into}, = double(v, i)", "i += 8", f"if not ({_within(shape, into)}):", "    raise Doubt"
            )
            return
        self._put(depth, f"{into} = v[i]", f"if {into} & {_MORE}:", f"    {into}, i = long_at(v, i)")
        refuse = () if shape.ge is None else (f"if {into} < {shape.ge}:", "    raise Doubt")
        small = refuse if shape.ge is not None and shape.ge > 0 else ()  # a small one is 0 or more anyway
        self._put(depth + 1, *refuse)
        self._put(depth, "else:", f"    {into} >>= 1", "    i += 1")
        self._put(depth + 1, *small)

    def _many(self, shape: Many, into: str, depth: int) -> None:
        if isinstance(shape.item, Group) and _comes_again(shape.item):
            self._known(shape, into, depth)
        else:
            self._items(shape, into, depth)

    def _known(self, shape: Many, into: str, depth: int) -> None:
        """A sequence that was read before has the same bytes, and they say where it ends."""
        known, begin, raw = next(self._names), next(self._names), next(self._names)
        read = self._give({})
        self._put(depth, f"{begin} = v[i:i + {_BEGIN}]", f"{known} = {read}.get({begin}, ())")
        self._put(depth, f"for {raw}, {into} in {known}:", f"    if v.startswith({raw}, i):")
        self._put(depth + 2, f"i += len({raw})", "break")
        self._put(depth, "else:", f"    {raw} = i")
        self._items(shape, into, depth + 1)
        self._put(depth + 1, f"keep({read}, {begin}, v[{raw}:i], {into})")

    def _items(self, shape: Many, into: str, depth: int) -> None:
        item, items = next(self._names), next(self._names)
        how_many = next(self._names)
        self._put(depth, *_size(how_many), f"if {how_many}:")
        self._put(depth + 1, f"if {how_many} * {least(shape.item)} > n - i:", "    raise Doubt", f"{items} = []")
        self._put(depth + 1, f"for _ in range({how_many}):")
        self._read(shape.item, item, depth + 2)
        self._put(depth + 2, f"{items}.append({item})")
        self._put(depth + 1, "if v[i]:", "    raise Doubt", "i += 1", f"{into} = tuple({items})")
        self._put(depth, "else:", f"    {into} = ()")

    def _group(self, shape: Group, into: str, depth: int) -> None:
        values = []
        for name, field in shape.fields:
            local = next(self._names)
            self._read(field, local, depth)
            values.append(f'"{name}": {local}')
        cls, fields = self._give(shape.cls), self._give({name for name, _ in shape.fields})
        self._put(
            depth,
            f"{into} = new({cls})",
            f'put({into}, "__dict__", {{{", ".join(values)}}})',
            f'put({into}, "__pydantic_fields_set__", {fields})',  # one for all: nothing can be set later
            f'put({into}, "__pydantic_extra__", None)',
            f'put({into}, "__pydantic_private__", None)',
        )


def _size(into: str) -> Iterator[str]:
    """Lines that read a length."""
    yield from (f"{into} = v[i]", f"if {into} & {_MORE}:", f"    {into}, i = size_at(v, i)")
    yield from ("else:", f"    {into} >>= 1", "    i += 1")


def _within(shape: Double, name: str) -> str:
    """The condition of a number's bounds; no comparison holds of what is not a number."""
    lower = [f"{shape.ge!r} <= {name}"] * (shape.ge is not None) + [f"{shape.gt!r} < {name}"] * (shape.gt is not None)
    upper = [f"{name} <= {shape.le!r}"] * (shape.le is not None) + [f"{name} < {shape.lt!r}"] * (shape.lt is not None)
    return " and ".join([*(lower or [f"-9e999 < {name}"]), *(upper or [f"{name} < 9e999"])])
