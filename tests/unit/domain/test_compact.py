"""A table of digests is a dict of them, in less memory."""

import random
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from bat_events.domain.compact import Table

KEYS = st.binary(min_size=3, max_size=3)


@settings(max_examples=50)
@given(st.lists(st.tuples(KEYS, st.binary(min_size=2, max_size=2)), max_size=300), KEYS)
def test_a_table_answers_as_a_dict_of_first_values(rows: list[tuple[bytes, bytes]], other: bytes) -> None:
    table, known = Table(3, 2), dict[bytes, bytes]()
    for key, value in rows:
        assert table.put(key, value) is (key not in known)
        known.setdefault(key, value)
    assert len(table) == len(known)
    assert all(table.get(key) == value for key, value in known.items())
    assert table.get(other) == known.get(other)


def test_keys_that_end_alike_are_told_apart() -> None:
    table = Table(16)
    keys = [number.to_bytes(8) + bytes(8) for number in range(500)]
    assert all(table.put(key) for key in keys)
    assert not any(table.put(key) for key in keys)
    assert table.get(bytes(7) + b"\xff" + bytes(8)) == b""
    assert table.get(bytes(16)[:-1] + b"\x01") is None


def test_an_id_costs_its_bytes_and_few_more() -> None:
    table, ids = Table(16), random.Random(1)
    for _ in range(20_000):
        table.put(ids.randbytes(16))
    assert sys.getsizeof(table._rows) + sys.getsizeof(table._slots) < 32 * 20_000
