"""Canonical JSON has one form per value, and everything hashed from it is stable."""

import hashlib
import json
from collections import Counter
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_events.domain.canonical import canonical_json, digest, identifier, seed63, shuffled
from bat_events.domain.vocabulary import Stage

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def test_the_form_is_sorted_tight_utf8() -> None:
    assert (
        canonical_json({"b": [1, 2.5, None], "a": "é", Stage.S1: True})
        == '{"S1":true,"a":"é","b":[1,2.5,null]}'.encode()
    )


def test_tuples_and_read_only_mappings_have_a_form() -> None:
    assert canonical_json(MappingProxyType({"a": (1, (2,))})) == b'{"a":[1,[2]]}'


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (float("nan"), "nan"),
        ({"a": [float("inf")]}, r"\$\.a\[0\]"),
        ({1: "a"}, "not a string"),
        ({"a": b"bytes"}, "bytes"),
        ({"a": {1, 2}}, "set"),
        ("\ud800", "surrogate"),
    ],
)
def test_what_json_does_not_have_is_refused_and_named(value: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        canonical_json(value)  # type: ignore[arg-type]


@given(values)
def test_the_form_reads_back_as_the_value(value: object) -> None:
    assert json.loads(canonical_json(value)) == value  # type: ignore[arg-type]


@given(st.dictionaries(texts, values, max_size=5))
def test_the_form_ignores_the_order_of_keys(value: dict[str, object]) -> None:
    turned = dict(reversed(list(value.items())))
    assert canonical_json(turned) == canonical_json(value)  # type: ignore[arg-type]


def test_a_digest_is_the_sha256_of_the_form() -> None:
    assert digest({"a": 1}) == hashlib.sha256(b'{"a":1}').hexdigest()


def test_ids_and_seeds_never_change() -> None:
    # Recorded values: a change here changes every id of every campaign and needs a new version tag.
    assert identifier("state", "c", 1) == hashlib.sha256(b'["bat-events/1","state",["c",1]]').hexdigest()[:32]
    assert (
        seed63("state", "c", 1)
        == int(hashlib.sha256(b'["bat-events/1","seed","state",["c",1]]').hexdigest()[:16], 16) >> 1
    )


@given(st.lists(st.integers(0, 10**6), max_size=30), st.integers())
def test_seeds_fit_a_signed_field_and_ids_are_32_hex(parts: list[int], more: int) -> None:
    assert 0 <= seed63("x", *parts, more) < 2**63
    assert len(identifier("x", *parts)) == 32
    assert int(identifier("x", *parts), 16) >= 0


def test_parts_cannot_run_into_each_other() -> None:
    assert identifier("a", "bc") != identifier("ab", "c")
    assert identifier("a", "1") != identifier("a", 1)
    assert identifier("a", ["b"], "c") != identifier("a", ["b", "c"])


@given(st.lists(st.integers(), max_size=40), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_shuffle_keeps_the_items_and_repeats_itself(items: list[int], seed: str) -> None:
    once = shuffled(items, seed)
    assert sorted(once) == sorted(items)
    assert shuffled(items, seed) == once


def test_a_shuffle_puts_every_item_everywhere() -> None:
    firsts = Counter(shuffled(range(4), "seed", number)[0] for number in range(2000))
    assert all(400 < count < 600 for count in firsts.values())
