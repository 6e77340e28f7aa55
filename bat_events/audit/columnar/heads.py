"""Envelopes as columns: what `events.envelope.from_headers` reads of one record, of many at once.

Each function returns values and which of them are not understood; those records go to the codec, which says what is wrong.
"""

import json
from typing import Any

import numpy as np
import pyarrow as pa

from bat_events.audit.columnar.scan import Longs, fixed, gathered, is_utf8, text_array, texts
from bat_events.events.envelope import Cost, parse_cut

_LARGEST = (1 << 63) - 1
_IS_HEX = np.zeros(256, bool)
_IS_HEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = True
_TIME = np.frombuffer(b"0000-00-00T00:00:00.000000Z", np.uint8)
_TIME_DIGITS = np.flatnonzero(ord("0") == _TIME)
_TIME_MARKS = np.flatnonzero(ord("0") != _TIME)
_MOST_DIGITS = 18

Place = tuple[Longs, Longs]


def not_constant(data: Any, place: Place, wanted: bytes) -> Any:
    """Which values are not these bytes."""
    start, size = place
    found = fixed(data, start, len(wanted)) != np.frombuffer(wanted, np.uint8)
    return (size != len(wanted)) | found.any(axis=1)


def hexes(data: Any, place: Place, digits: int, prefix: bytes = b"") -> tuple[Any, Any]:
    """(rows of lower-case hex digits, which values are no such), behind a prefix."""
    start, size = place
    found = fixed(data, start, len(prefix) + digits)
    wrong = (size != len(prefix) + digits) | ~_IS_HEX[found[:, len(prefix) :]].all(axis=1)
    if prefix:
        wrong |= (found[:, : len(prefix)] != np.frombuffer(prefix, np.uint8)).any(axis=1)
    return found[:, len(prefix) :], wrong


def numbers(data: Any, place: Place) -> tuple[Longs, Any]:
    """(whole numbers, which values are no digits, or too many to be sure); an absent header is 0 and not understood."""
    start, size = place
    wrong = (size < 1) | (size > _MOST_DIGITS)
    value = np.zeros(len(start), np.int64)
    rows = np.flatnonzero(~wrong)
    number = 0
    while rows.size:
        digit = data[start[rows] + number].astype(np.int64) - ord("0")
        odd = (digit < 0) | (digit > 9)
        wrong[rows[odd]] = True
        value[rows] = value[rows] * 10 + digit
        number += 1
        rows = rows[size[rows] > number]
    return value, wrong


def moments(data: Any, place: Place) -> tuple[Any, Any]:
    """(Arrow timestamps in UTC, which values are no such moment)."""
    start, size = place
    found = fixed(data, start, len(_TIME))
    digits = found[:, _TIME_DIGITS]
    wrong = (size != len(_TIME)) | (found[:, _TIME_MARKS] != _TIME[_TIME_MARKS]).any(axis=1)
    wrong |= ((digits < ord("0")) | (digits > ord("9"))).any(axis=1) | (digits[:, :4] == ord("0")).all(axis=1)
    found[wrong] = np.frombuffer(b"2000-01-01T00:00:00.000000Z", np.uint8)
    table = np.ascontiguousarray(found[:, :-1])
    array = text_array(table.reshape(-1), np.arange(len(table) + 1, dtype=np.int64) * table.shape[1])
    try:
        return array.cast(pa.timestamp("us")), wrong
    except pa.ArrowInvalid:  # a day or an hour that there is not: each is looked at alone
        return pa.nulls(len(table), pa.timestamp("us")), np.ones(len(table), bool)


def strings(data: Any, place: Place) -> tuple[Any, Any]:
    """(Arrow texts, which values are not UTF-8); absent ones are null."""
    start, size = place
    there = size >= 0
    found, offsets = gathered(data, start, np.maximum(size, 0))
    wrong = np.zeros(len(start), bool)
    high = np.flatnonzero(found > 0x7F)
    if high.size:
        for row in np.unique(np.searchsorted(offsets[1:], high, "right")):
            wrong[row] = not is_utf8(found[offsets[row] : offsets[row + 1]].tobytes())
    if wrong.any():
        found, offsets = gathered(data, start, np.where(wrong, 0, np.maximum(size, 0)))
    array = text_array(found, offsets)
    if there.all():
        return array, wrong
    return array.take(pa.array(np.arange(len(start)), mask=~there)), wrong


def coded(data: Any, place: Place) -> tuple[Longs, list[str], Any]:
    """(code of each value, the value of each code, which are not UTF-8): for texts that come again and again."""
    array, wrong = strings(data, place)
    encoded = array.fill_null("").dictionary_encode()
    return encoded.indices.to_numpy(), encoded.dictionary.to_pylist(), wrong


def cuts(data: Any, place: Place) -> tuple[Any, Any]:
    """(cuts as `events.cut` keeps them, which are no cut)."""
    return _parsed(data, place, lambda text: json.dumps(parse_cut(text), sort_keys=True), pa.string())


_COST_TYPES = {
    name: pa.list_(pa.float64()) if name == "call_s" else pa.float64() if name.endswith("_s") else pa.int64()
    for name in Cost.model_fields
}
_COST = pa.struct(list(_COST_TYPES.items()))


def costs(data: Any, place: Place) -> tuple[dict[str, Any], Any]:
    """(each field's Arrow array, which are no cost)."""
    found, wrong = _parsed(data, place, _cost, _COST)
    return dict(zip(_COST_TYPES, found.flatten(), strict=True)), wrong


def _cost(text: str) -> dict[str, Any]:
    cost = Cost.model_validate_json(text)
    values: dict[str, Any] = dict(cost.__dict__)
    if any(isinstance(value, int | float) and value > _LARGEST for value in values.values()):
        raise ValueError("a number of its headers has more than 63 bits")
    return values


def _parsed(data: Any, place: Place, parse: Any, kind: Any) -> tuple[Any, Any]:
    """Each distinct text parsed once."""
    start, size = place
    there = np.flatnonzero(size >= 0)
    wrong = np.zeros(len(start), bool)
    if not there.size:
        return pa.nulls(len(start), kind), wrong
    array, broken = strings(data, (start[there], size[there]))
    encoded = array.dictionary_encode()
    values, odd = [], []
    for text in encoded.dictionary.to_pylist():
        try:
            values.append(parse(text))
            odd.append(False)
        except ValueError:  # pydantic's and JSON's too
            values.append(None)
            odd.append(True)
    codes = encoded.indices.to_numpy()
    wrong[there] = broken | np.array(odd, bool)[codes]
    place_of = np.full(len(start), -1, np.int64)
    place_of[there] = codes
    return pa.array(values, kind).take(pa.array(place_of, mask=place_of < 0)), wrong


__all__ = ["coded", "costs", "cuts", "hexes", "moments", "not_constant", "numbers", "strings", "texts"]
