"""Facts of a log that streams by, decoded some at a time and before their turn.

What is done with one body after another finds code and bytes in the processor's caches; by the time that a fact's turn comes they
would have left them. Whatever cannot be read at once (an earlier version, another schema, a body that is no event) is left to the
codec, in its turn, which says what is wrong with it.
"""

import hashlib
from collections.abc import Iterator
from itertools import repeat

from bat_events.codec import Codec, Fact, schema_for
from bat_events.events.base import OldEvent, event_type
from bat_events.events.ids import event_id_prefix
from bat_events.events.wire_reader import Reader, reader_of
from bat_events.replay.line_facts import decoded, fact_of
from bat_events.replay.lines import Line

Read = tuple[Line, Fact | None, bool]
"""A line, its fact if that could be read at once, and whether its id is then the one that its cause, type and ordinal give."""

_MOST_BYTES = 1 << 17
"""Of the bodies that are decoded one after another: as many as stay in a processor's caches."""

_LEAST = 1 << 10  # bytes that a record takes beside its body


class Ahead:
    """Reads one campaign's facts; see the module."""

    def __init__(self, codec: Codec, campaign: str) -> None:
        self._codec, self._campaign = codec, campaign
        self._prefix = event_id_prefix(campaign) or b""
        self._readers: dict[tuple[str, str], tuple[str, str, Reader] | None] = {}

    def read(self, lines: Iterator[Line], *, facts: bool) -> Iterator[Read]:
        """The lines in order; with `facts` what was decoded of a line is its fact, and the line has no body any more.

        Decisions are not decoded at all: their bodies are compared.
        """
        if not facts:
            yield from zip(lines, repeat(None), repeat(False))
            return
        ahead: list[Read] = []
        size = 0
        for line in lines:
            size += len(line.value) + _LEAST
            fact, made = None, False
            known = self._reader(line) if line.campaign == self._campaign else None
            if known is not None and known[0] == line.topic:
                event = known[2](line.value)
                if event is not None and line.body_digest == hashlib.sha256(line.value).hexdigest():
                    line.value = b""  # nobody asks for it again
                    fact, made = fact_of(line, event), self.is_made(line, known[1])
            ahead.append((line, fact, made))
            if size > _MOST_BYTES:
                yield from ahead
                ahead, size = [], 0
        yield from ahead

    def fact(self, line: Line) -> Fact:
        """See decoded."""
        return decoded(self._codec, line)

    def is_made(self, line: Line, type_name: str) -> bool:
        """Whether its id is the one that its cause, type and ordinal give."""
        rest = f"{line.cause}\n{type_name}\n{line.ordinal}".encode()
        return line.id == hashlib.sha256(self._prefix + rest).hexdigest()[:32]

    def _reader(self, line: Line) -> tuple[str, str, Reader] | None:
        """Topic, type and reader of events in the newest version and its own schema; of others the codec knows more."""
        key = (line.type, line.schema_digest)
        if key not in self._readers:
            kind = event_type(line.type)
            own = kind is not None and not issubclass(kind, OldEvent) and schema_for(kind).digest == line.schema_digest
            self._readers[key] = (kind.TOPIC, kind.type_name(), reader_of(kind)) if kind is not None and own else None
        return self._readers[key]
