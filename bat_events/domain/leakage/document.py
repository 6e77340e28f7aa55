"""A document taken apart: its fields with their names, its texts, and the texts that its fields make together."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from bat_events.domain.leakage.views import DIGEST

Place = tuple[str | int, ...]
"""From the root: field names and list indices."""

SHORT = 400  # characters of a field that is joined whole; of a longer one only its ends are
EDGE = 200
_NUMBER = re.compile(r"(\d+)")


class Field(NamedTuple):
    """One value. `names` are the field names from the root; `named` is false for an item of a list."""

    place: Place
    names: tuple[str, ...]
    named: bool
    value: object


def walk(value: object) -> list[Field]:
    """Every value, in the document's own order. Raises ValueError on what JSON does not have: it could not be read."""
    found: list[Field] = []
    _walk(value, (), (), False, found)
    return found


def _walk(value: object, place: Place, names: tuple[str, ...], named: bool, found: list[Field]) -> None:
    found.append(Field(place, names, named, value))
    if isinstance(value, str):
        return
    if isinstance(value, Mapping):
        for number, (key, part) in enumerate(value.items()):
            if not isinstance(key, str):
                where = render(place, None, frozenset())
                raise ValueError(f"field {number} at {where} is not named by a string: such a document is not JSON")
            _walk(part, (*place, key), (*names, key), True, found)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _walk(item, (*place, index), names, False, found)
    elif not (value is None or isinstance(value, bool | int | float)):
        where = render(place, None, frozenset())
        raise ValueError(f"{type(value).__name__} at {where} cannot be read by the checks: give text, numbers or lists")


def render(place: Place, document: object, hidden: frozenset[str]) -> str:
    """A place as evidence shows it; a name in `hidden` is shown as its number among its sorted siblings."""
    path, here = "$", document
    for part in place:
        if isinstance(part, int):
            path += f"[{part}]"
            here = here[part] if isinstance(here, list | tuple) else None
        else:
            siblings = sorted(here) if isinstance(here, Mapping) else [part]
            path += f".<field {siblings.index(part)}>" if part in hidden else f".{part}"
            here = here[part] if isinstance(here, Mapping) else None
    return path


def together(fields: Sequence[Field]) -> Iterator[str]:
    """The texts that neighbouring fields make: in the document's order, and in that of the numbers in their names."""
    texts = [
        field
        for field in fields
        if isinstance(field.value, str) and not (field.value.startswith("sha256 ") and DIGEST.match(field.value))
    ]
    yield from joins([str(field.value) for field in texts])
    ordered = sorted(texts, key=lambda field: natural(field.place))
    if ordered != texts:
        yield from joins([str(field.value) for field in ordered])
    names = [field.names[-1] for field in fields if field.named]
    if any(" " in name for name in names):  # text in names: also read with what they name
        yield from joins([part for field in texts for part in (*field.names[-1:], str(field.value))])
    # Numbers are left out: they would make each list of file names a new text.
    yield from joins([_NUMBER.sub("0", name) for name in names])


def joins(texts: Sequence[str]) -> Iterator[str]:
    """Runs of neighbouring texts as one, without and with a space between; of a long text only its nearer end."""
    run: list[str] = []
    for text in texts:
        if len(text) <= SHORT:
            run.append(text)
            continue
        # Cut between words: half a path would look like an absolute one.
        yield from _joined([*run, text[:EDGE].rpartition(" ")[0]])
        run = [text[-EDGE:].partition(" ")[2]]
    yield from _joined(run)


def natural(place: Place) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts "part 10" after "part 2"."""
    return tuple([piece for part in place for piece in _pieces(str(part))])


@lru_cache(maxsize=10_000)
def _pieces(part: str) -> tuple[tuple[int, int, str], ...]:
    return tuple((1, int(piece), "") if piece.isdecimal() else (0, 0, piece) for piece in _NUMBER.split(part) if piece)


def _joined(run: Sequence[str]) -> Iterator[str]:
    if len(run) < 2:
        return
    yield "".join(run)
    if any(a[-1:].isalnum() and b[:1].isalnum() for a, b in itertools.pairwise(run)):
        yield " ".join(run)
