"""What the leakage checks do to be fast changes no verdict: each short cut is held against the plain way to say the same."""

import hmac
import random
import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bat_events.domain.leakage import Fingerprints, Scanner, make_fingerprints
from bat_events.domain.leakage import views as fast
from bat_events.domain.leakage.keyed import Hasher, subkey
from bat_events.domain.leakage.patterns import OPEN_END
from bat_events.domain.leakage.reading import Table, TextReader, _kinds, _labelled
from bat_events.domain.leakage.text import encoded
from tests.support.leakage_injections import LEXICAL
from tests.support.leakage_texts import clean_state, text

KEY = b"0123456789abcdef0123456789abcdef"
# The plain spellings: what is looked for, without a thought of how an engine looks for it.
SUSPECT = re.compile(r"[A-Za-z0-9+/_-]{20}|&#|&[a-z]+;|%[0-9A-Fa-f]{2}|\\[xuU][0-9A-Fa-f]{2}")
PAIRS = re.compile(r"(?:\b(?:0x)?[0-9A-Fa-f]{2,3}[\s:,;-]+){6}")
BASE64 = re.compile(r"[A-Za-z0-9+/_-]{20,}(?:[ \t]*\r?\n[ \t]*[A-Za-z0-9+/_-]+)*={0,2}")
CODES = re.compile(r"(?:\d{2,3}[\s,;]+){7,}\d{2,3}")

runs_of = st.lists(
    st.one_of(
        st.text("abzAZ09+/_-=", max_size=24),
        st.text("0123456789abcdefx", max_size=5),
        st.sampled_from(
            ["\n", "\r\n", " ", "  ", ", ", ":", ";", "-", "=", "0x", "10", "255", "µ", "٣", "&#", "%4f", "\\x41"]
        ),
    ),
    max_size=60,
).map("".join)


@settings(max_examples=400, deadline=None)
@given(runs_of)
def test_the_patterns_find_what_their_plain_spellings_find(line: str) -> None:
    assert bool(fast._SUSPECT.search(line)) == bool(SUSPECT.search(line))
    assert bool(fast._PAIRS.search(line)) == bool(PAIRS.search(line))
    for ours, plain in ((fast._BASE64, BASE64), (fast._CODES, CODES)):
        assert [match.span() for match in ours.finditer(line)] == [match.span() for match in plain.finditer(line)]


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200), st.binary(min_size=16, max_size=80))
def test_an_exact_fingerprint_is_hmac_sha256(said: str, key: bytes) -> None:
    plain = hmac.digest(subkey(key, "exact"), encoded(said), "sha256").hex()
    hasher = Hasher(key)
    assert hasher.exact(said) == hasher.exact(said) == plain


@given(st.lists(st.integers(0, 2**64 - 1), max_size=40), st.lists(st.integers(0, 2**64 - 1), max_size=40), st.randoms())
def test_the_table_answers_as_a_search_does(members: list[int], others: list[int], rng: random.Random) -> None:
    known = np.unique(np.array(members, dtype=np.uint64))
    values = np.array([*members, *others], dtype=np.uint64)
    valid = np.array([rng.random() < 0.7 for _ in values], dtype=bool)
    plain = np.flatnonzero(np.isin(values, known) & valid)
    assert Table(known).hits(values, valid).tolist() == plain.tolist()


lines_of = st.lists(
    st.sampled_from(
        [
            "",
            "plain words",
            "password:",
            "hunter2hunter2",
            "the gold label is",
            "malignant",
            "see /tmp",
            "x = [",
            "key =",
            "a",
        ]
    ),
    max_size=12,
)


@given(lines_of, lines_of)
def test_lines_are_read_as_one_after_another_whatever_was_read_before(before: list[str], lines: list[str]) -> None:
    reader = TextReader(None, [])
    reader.read(["\n".join(before)])
    (found,) = reader.read(["\n".join(lines)])
    plain: list[tuple[str, str]] = []
    left_open: str | None = None
    for line in (line for line in lines if line):
        if left_open is not None:
            plain += _labelled(_kinds(f"{left_open}\n{line}"), "")
        plain += _labelled(_kinds(line), "")
        left_open = line if OPEN_END.search(line[-32:]) else None
    assert found.found == plain


def test_what_was_read_before_changes_no_verdict() -> None:
    """A scanner that has read much against one that has read nothing, on injected and clean states in a mixed order."""
    rng = random.Random("memo")
    held = [text(rng, 120) for _ in range(10)]
    shared = [part for _ in range(10) for part in _texts(clean_state(rng))]
    known: Fingerprints = make_fingerprints(held, KEY, shared)
    states = [LEXICAL[kind](rng, rng.choice(held), clean_state(rng, words=40)) for kind in LEXICAL for _ in range(2)]
    states += [clean_state(rng, words=40) for _ in range(20)]
    rng.shuffle(states)
    warm = Scanner(known)
    for state in (*states, *states[::-1]):
        assert warm.check(state) == Scanner(known).check(state)


def _texts(state: dict[str, object]) -> list[str]:
    files = state["files"]
    assert isinstance(files, dict)
    return [str(state["system"]), str(state["prompt"]), *files, *files.values()]
