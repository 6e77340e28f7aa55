"""Records that are almost events: what a seed draws, the same every time.

Half the inputs keep their digests true, so that they get past the first checks and reach Avro and the models.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bat_events.codec import Codec
from bat_events.events.base import event_types, event_versions
from bat_events.log.interface import Record
from bat_events.log.topics import TOPICS
from tests.support.samples import as_record, sample, written

_WORDS = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"-1",
    b"9" * 40,
    b"NaN",
    b"[" * 200,
    b'{"a":' * 200,
    "٣".encode(),
    b"\n",
    b"x" * 3000,
)


class Fuzzer:
    """See the module. `inputs(n)` gives n records, `raised` counts nothing: whoever decodes them counts."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._sound = [as_record(written(sample(cls, salt)), offset=salt) for cls in event_types() for salt in range(3)]
        self._digests = [schema.digest for schema in Codec().schemas()]
        self._types = [cls.ce_type() for cls in event_versions()]

    def inputs(self, count: int) -> Iterator[Record]:
        """Mutated records: bytes flipped, cut, spliced, grown or random; headers changed, doubled, dropped or swapped."""
        for _ in range(count):
            record = self._rng.choice(self._sound)
            for _ in range(self._rng.choice((1, 1, 1, 2, 4))):
                record = self._rng.choice(_MUTATIONS)(self, record)
            yield self._true(record) if self._rng.random() < 0.5 else record

    def _true(self, record: Record) -> Record:
        digest = hashlib.sha256(record.value).hexdigest().encode()
        return replace(record, headers=tuple((n, digest if n == "bat_digest" else v) for n, v in record.headers))

    def _flip(self, record: Record) -> Record:
        value = bytearray(record.value)
        for _ in range(self._rng.randint(1, 8)):
            if value:
                value[self._rng.randrange(len(value))] = self._rng.randrange(256)
        return replace(record, value=bytes(value))

    def _cut(self, record: Record) -> Record:
        return replace(record, value=record.value[: self._rng.randint(0, len(record.value))])

    def _grow(self, record: Record) -> Record:
        return replace(record, value=record.value + self._rng.randbytes(self._rng.randint(1, 64)))

    def _splice(self, record: Record) -> Record:
        other, at = self._rng.choice(self._sound).value, self._rng.randint(0, len(record.value))
        return replace(record, value=record.value[:at] + other[self._rng.randint(0, len(other)) :])

    def _random(self, record: Record) -> Record:
        return replace(record, value=self._rng.randbytes(self._rng.randint(0, 300)))

    def _header(self, record: Record) -> Record:
        headers = list(record.headers)
        number = self._rng.randrange(len(headers)) if headers else 0
        what = self._rng.randrange(5)
        if not headers:
            return record
        name, value = headers[number]
        if what == 0:
            del headers[number]
        elif what == 1:
            headers.append((name, self._rng.choice(_WORDS)))
        elif what == 2:
            headers[number] = (name, self._rng.choice(_WORDS))
        elif what == 3 and value:
            changed = bytearray(value)
            changed[self._rng.randrange(len(changed))] = self._rng.randrange(256)
            headers[number] = (name, bytes(changed))
        else:
            headers[number] = (name, self._rng.choice(self._rng.choice(self._sound).headers)[1])
        return replace(record, headers=tuple(headers))

    def _relabel(self, record: Record) -> Record:
        """Another event's type, schema or topic over these bytes."""
        schema = f"sha256:{self._rng.choice(self._digests)}".encode()
        swap = {"ce_type": self._rng.choice(self._types).encode(), "ce_dataschema": schema}
        kept = {name: value for name, value in swap.items() if self._rng.random() < 0.7}
        topic = self._rng.choice(TOPICS).name if self._rng.random() < 0.2 else record.topic
        return replace(record, topic=topic, headers=tuple((n, kept.get(n, v)) for n, v in record.headers))


_MUTATIONS: Sequence = (  # type: ignore[type-arg]
    Fuzzer._flip,
    Fuzzer._flip,
    Fuzzer._cut,
    Fuzzer._grow,
    Fuzzer._splice,
    Fuzzer._random,
    Fuzzer._header,
    Fuzzer._header,
    Fuzzer._relabel,
)
