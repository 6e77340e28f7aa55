"""Envelopes that are read where they lie in an archive are what decoding makes of them, and what it refuses is left to it."""

import random

from bat_events.domain.sealing import content_bytes
from bat_events.errors import BadEnvelope
from bat_events.log.interface import Record
from bat_events.replay.archive_envelopes import Forms
from bat_events.replay.lines import Line, line_of

Headers = tuple[tuple[str, bytes], ...]


def read(forms: Forms, record: Record) -> Line | None:
    """The line of a record as it lies in a block; None where it is left to decoding."""
    row = content_bytes(record.key, record.value, record.headers, 0)
    at = len(row) - len(content_bytes(b"", b"", record.headers, 0)) + 3  # without a time, a key and a value of one byte
    line = forms.line(row + b"\x00more", at, record.offset, record.key, record.value)
    assert line is None or forms.end == len(row)
    return line


def fields(line: Line) -> list[object]:
    return [getattr(line, name) for name in Line.__slots__]


def changed(rng: random.Random, headers: Headers) -> Headers:
    """One header with another value, often of the same length, or another order."""
    number = rng.randrange(len(headers))
    name, value = headers[number]
    at = rng.randrange(len(value))
    byte = bytes([rng.choice((value[at] ^ 0x20, rng.randrange(256), *b'09afAFgZ.{}":'))])
    ways = (
        ((name, value[:at] + byte + value[at + 1 :]),),
        ((name, value[:at] + value[at + 1 :]),),
        ((name, value[:at] + byte + value[at:]),),
        (),
        ((name, value), (name, value)),
        ((name.upper(), value),),
        ((name, value + "é".encode()),),
        (("x-tool", b"1"), (name, value)),
    )
    weights = (20, 3, 3, 1, 1, 1, 1, 1)
    return (*headers[:number], *rng.choices(ways, weights)[0], *headers[number + 1 :])


def test_any_envelope_is_read_as_decoding_would(records: list[Record]) -> None:
    rng = random.Random(4)
    where = sorted({(r.topic, r.partition) for r in records})
    taken = left = 0
    for topic, partition in where:
        forms = Forms(topic, partition)
        for record in [r for r in records if (r.topic, r.partition) == (topic, partition)]:
            line = read(forms, record)
            assert line is not None
            assert fields(line) == fields(line_of(record))
            for _ in range(12):
                other = Record(
                    topic=topic,
                    partition=partition,
                    offset=record.offset,
                    key=record.key,
                    value=record.value,
                    headers=changed(rng, record.headers),
                    timestamp_ms=0,
                )
                line = read(forms, other)
                if line is None:
                    left += 1
                    continue
                taken += 1
                try:
                    assert fields(line) == fields(line_of(other))
                except BadEnvelope as error:
                    assert "header bat_cut has" in str(error)  # noqa: PT017  (a cut is parsed where it is used)
    assert min(taken, left) > 1000


def test_what_has_no_hex_digits_or_no_moment_is_left_to_decoding(records: list[Record]) -> None:
    record = records[-1]
    wrong = {
        "ce_id": b"G" * 32,
        "bat_cause": b"A" * 32,
        "bat_digest": b"0" * 63 + b" ",
        "ce_time": b"2026-02-30T00:00:00.000000Z",
        "bat_ordinal": b"-1",
    }
    for name, value in wrong.items():
        forms = Forms(record.topic, record.partition)
        assert read(forms, record) is not None
        headers = tuple([(n, value if n == name else v) for n, v in record.headers])
        other = Record(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            key=record.key,
            value=record.value,
            headers=headers,
            timestamp_ms=0,
        )
        assert read(forms, other) is None
        try:
            line_of(other)
        except BadEnvelope:
            continue
        raise AssertionError(f"{name}: {value!r} is taken")
