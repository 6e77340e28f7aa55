"""The quick way of reading and writing headers takes, refuses and writes what the thorough one does."""

import dataclasses
import random
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from bat_events.codec import Codec
from bat_events.errors import BadEnvelope
from bat_events.events.envelope import Cost, Envelope, from_headers, to_headers
from bat_events.events.headers import MOST_BYTES, quick_envelope, quick_headers
from bat_events.events.rollouts import RewardScored
from tests.support.comparing import all_of
from tests.support.samples import NOW, as_record, sample, written

FIELDS: dict[str, Any] = {
    "id": "0a" * 16,
    "source": "bat/rollout",
    "type": "bat.RolloutCompleted.v2",
    "time": NOW,
    "subject": "a key",
    "schema_digest": "ab" * 32,
    "body_digest": "cd" * 32,
    "campaign": "c1",
    "cause": "0b" * 16,
    "ordinal": 3,
    "logic": "rollout/1",
    "round": 2,
    "traceparent": "00-" + "0c" * 16 + "-" + "0d" * 8 + "-01",
    "cut": {"round": {0: 12}, "bank.ready": {3: 1, 1: 7}},
    "cost": Cost(wall_s=1.5, tokens_in=3, call_s=(0.25, 1e-9)),
}
WORDS = (
    b"",
    b"\0",
    b"\xff",
    b"-1",
    b"0",
    b"007",
    b"9" * 18,
    b"9" * 19,
    b"9" * 40,
    b"True",
    b"1.0",
    b"null",
    b"{}",
    b"[",
)
WORDS += (
    "٣".encode(),
    b"\n",
    b"x" * 20_000,
    b"A" * 32,
    b"0" * 32,
    b"0" * 64,
    b"sha256:" + b"f" * 64,
    b"sha256:" + b"F" * 64,
)
WORDS += (b"2026-02-30T00:00:00.000000Z", b"2026-02-03T24:00:00.000000Z", b"2026-01-02T03:04:05.678901Z\n")
WORDS += (
    b'{"round":{"0":1}}',
    b'{"round":{"0":true}}',
    b'{"round":{"x":1}}',
    b'{"wall_s":1}',
    b'{"wall_s":-1}',
    b'{"a":1}',
)
VALUES: dict[str, tuple[Any, ...]] = {
    "source": ("", "ä", None, 1, "x" * 2000),
    "subject": ("", "ä", None, 1, "x" * 20_000),
    "campaign": ("", None, 3),
    "cause": ("", "0" * 31, "A" * 32, "ä" * 32, "0" * 32, "0" * 32 + "\n"),
    "ordinal": (0, 1, True, -1, 1.0, "1", None, 2**63, 10**18),
    "round": (0, 1, True, None, -1, 1.0, "1", 2**63),
    "time": (NOW.replace(microsecond=0), NOW.astimezone(timezone(timedelta(hours=2))), datetime(826, 1, 2, tzinfo=UTC)),
    "cut": (
        None,
        {},
        {"round": {}},
        {"ä": {0: 1}},
        {"round": {"0": 1}},
        {"round": {0: True}},
        {"round": {True: 1}},
        {1: {0: 1}},
    ),
    "cost": (None, Cost(), Cost(sandbox_s=0.5)),
    "logic": ("", None),
}


def both(headers: Any) -> tuple[Envelope | None, Envelope | str]:
    """What the quick way says, and the thorough one: an error as its text."""
    try:
        return quick_envelope(headers), from_headers(headers)
    except ValueError as error:
        return quick_envelope(headers), str(error)


def agreed(headers: Any) -> bool:
    """Whether the quick way did not doubt; fails where it says anything else than the thorough one."""
    quick, thorough = both(headers)
    if quick is None:
        return False
    assert not isinstance(thorough, str), thorough
    assert all_of(quick) == all_of(thorough)
    return True


def test_headers_of_every_writer_are_taken_without_doubt() -> None:
    for left_out in ([], ["round"], ["traceparent"], ["cut"], ["cost"], ["round", "cut", "cost", "traceparent"]):
        fields = {**FIELDS, **dict.fromkeys(left_out)}
        assert agreed(tuple(to_headers(Envelope(**fields)))), left_out


def test_changed_headers_are_taken_or_refused_as_by_the_thorough_way() -> None:
    rng = random.Random(3)
    sound = to_headers(Envelope(**FIELDS))
    taken = refused = 0
    for _ in range(6_000):
        headers: list[tuple[str, Any]] = list(sound)
        for _ in range(rng.choice((1, 1, 2))):
            at = rng.randrange(len(headers))
            name, value = headers[at]
            changed = bytearray(value or b" ")
            changed[rng.randrange(len(changed))] = rng.randrange(256)
            headers[at] = (name, rng.choice((rng.choice(WORDS), rng.choice(sound)[1], bytes(changed), None, value)))
            if rng.random() < 0.1:
                headers.insert(at, rng.choice((headers[at], ("baggage", b"x"))))
            elif rng.random() < 0.1 and len(headers) > 2:
                del headers[at]
        taken += agreed(headers)
        refused += isinstance(both(headers)[1], str)
    assert taken > 300
    assert refused > 3_000


def test_what_is_written_is_what_the_thorough_way_writes() -> None:
    rng = random.Random(4)
    quick = refused = 0
    for _ in range(4_000):
        fields = dict(FIELDS)
        for name in rng.sample(sorted(VALUES), rng.choice((1, 2, 3))):
            fields[name] = rng.choice(VALUES[name])
        found = quick_headers(**fields)
        try:
            expected = tuple(to_headers(Envelope(**fields)))
        except ValidationError:
            assert found is None, fields
            refused += 1
            continue
        quick += found is not None
        assert found in (None, expected), fields
    assert quick > 500
    assert refused > 500


def test_one_kind_of_truth_is_no_round_even_where_its_number_was_written_before() -> None:
    assert quick_headers(**{**FIELDS, "round": 1}) is not None
    assert quick_headers(**{**FIELDS, "round": True}) is None


def test_headers_taken_in_one_pass_are_of_a_known_size() -> None:
    for name in dict(to_headers(Envelope(**FIELDS))):
        grown = tuple((n, b"1" * MOST_BYTES if n == name else raw) for n, raw in to_headers(Envelope(**FIELDS)))
        assert quick_envelope(grown) is None
    long = {**FIELDS, "subject": "x" * 16_000, "traceparent": "x" * 16_000, "source": "x" * 300}
    headers = to_headers(Envelope(**long))
    assert quick_envelope(headers) is not None
    assert sum(len(name) + len(raw) for name, raw in headers) < MOST_BYTES


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000])
def test_a_cut_nested_beyond_reason_is_an_error_of_its_header(text: bytes) -> None:
    headers = tuple((name, text if name == "bat_cut" else raw) for name, raw in to_headers(Envelope(**FIELDS)))
    with pytest.raises(BadEnvelope, match="bat_cut"):
        Codec().decode(dataclasses.replace(as_record(written(sample(RewardScored))), headers=headers))
