"""A record with its envelope read and its body not: what a streaming replay passes on.

A `Line` has the names of an Envelope, so a Fact can carry it as one; times stay text, whose order is that of the moments.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from bat_events.errors import BadEnvelope, TooLarge
from bat_events.events.envelope import Cut, format_time, from_headers, parse_cut, parse_time
from bat_events.log.interface import MAXIMUM_BYTES, Partition, Record
from bat_events.replay.source import OtherRecord, ReplayError, Source

Position = Mapping[Partition, int]

OTHER = ""
"""The campaign of a record of which an archive of another campaign keeps only the place."""


class Line:
    """One record. `moment` is its time as text, `cut_text` its cut as it stands in the header."""

    __slots__ = (
        "body_digest",
        "campaign",
        "cause",
        "cut_text",
        "id",
        "key",
        "logic",
        "moment",
        "offset",
        "ordinal",
        "partition",
        "round",
        "schema_digest",
        "source",
        "subject",
        "topic",
        "type",
        "value",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: bytes,
        value: bytes,
        id: str,
        source: str,
        type: str,
        moment: str,
        subject: str,
        schema_digest: str,
        body_digest: str,
        campaign: str,
        cause: str,
        ordinal: int,
        logic: str,
        round: int | None,
        cut_text: str | None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self.id = id
        self.source = source
        self.type = type
        self.moment = moment
        self.subject = subject
        self.schema_digest = schema_digest
        self.body_digest = body_digest
        self.campaign = campaign
        self.cause = cause
        self.ordinal = ordinal
        self.logic = logic
        self.round = round
        self.cut_text = cut_text

    cost = None
    traceparent = None

    @property
    def time(self) -> datetime:
        """The moment."""
        return parse_time(self.moment)

    @property
    def cut(self) -> Cut | None:
        """The cut, parsed."""
        return None if self.cut_text is None else parse_cut(self.cut_text)

    @property
    def where(self) -> dict[str, Any]:
        """Topic, partition and offset, as errors name them."""
        return {"topic": self.topic, "partition": self.partition, "offset": self.offset}


def line_of(record: Record | OtherRecord) -> Line:
    """The line of a record. Raises TooLarge or BadEnvelope naming topic, partition and offset."""
    if isinstance(record, OtherRecord):
        return other_line(record.topic, record.partition, record.offset, record.id, format_time(record.time))
    if record.size > MAXIMUM_BYTES:
        what = f"{record.size:,} bytes; a record has {MAXIMUM_BYTES:,} at most"
        raise TooLarge(what, topic=record.topic, partition=record.partition, offset=record.offset)
    try:
        envelope = from_headers(record.headers)
    except ValueError as error:
        raise BadEnvelope(str(error), topic=record.topic, partition=record.partition, offset=record.offset) from None
    cut = dict(record.headers).get("bat_cut")
    return Line(
        record.topic,
        record.partition,
        record.offset,
        record.key,
        record.value,
        envelope.id,
        envelope.source,
        envelope.type,
        format_time(envelope.time),
        envelope.subject,
        envelope.schema_digest,
        envelope.body_digest,
        envelope.campaign,
        envelope.cause,
        envelope.ordinal,
        envelope.logic,
        envelope.round,
        None if cut is None else cut.decode(),
    )


def other_line(topic: str, partition: int, offset: int, id_: str, moment: str) -> Line:
    """The place of another campaign's record."""
    return Line(topic, partition, offset, b"", b"", id_, "", "", moment, "", "", "", OTHER, "", 0, "", None, None)


def lines_of(source: Source) -> dict[Partition, Iterator[Line]]:
    """The source's partitions, each a stream of lines in order.

    A source that can read one partition alone has `lines`; of any other one all records are held. Raises the log's errors.
    """
    streams = getattr(source, "lines", None)
    if streams is not None:
        found: dict[Partition, Iterator[Line]] = streams()
        return found
    records: dict[Partition, list[Record | OtherRecord]] = {}
    for record in source.records():
        records.setdefault((record.topic, record.partition), []).append(record)
    return {where: in_order(where, map(line_of, records[where])) for where in sorted(records)}


def in_order(where: Partition, lines: Iterator[Line]) -> Iterator[Line]:
    """The lines, if their offsets rise. Raises ReplayError."""
    last = -1
    for line in lines:
        if line.offset <= last:
            raise ReplayError(f"{where[0]}[{where[1]}]: offset {line.offset} follows {last}: not a log's order")
        last = line.offset
        yield line


class Positions:
    """Cuts as positions; the same text is parsed once while it is in use. Partitions of which nothing was folded are left out."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Partition, int]] = {}

    def of(self, text: str) -> dict[Partition, int]:
        """Partition -> next offset."""
        found = self._known.get(text)
        if found is None:
            if len(self._known) > 256:
                self._known.clear()
            cut = parse_cut(text)
            found = {(t, n): offset for t, parts in cut.items() for n, offset in parts.items() if offset > 0}
            self._known[text] = found
        return found


def order_of(position: Position) -> tuple[int, list[tuple[Partition, int]]]:
    """What cuts of one decider are sorted by: they only grow."""
    return sum(position.values()), sorted(position.items())
