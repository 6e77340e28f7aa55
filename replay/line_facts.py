"""Facts with their line as envelope."""

from bat_events.codec import Codec, Fact
from bat_events.events.base import Event
from bat_events.replay.lines import Line


def fact_of(line: Line, event: Event, earlier: Event | None = None) -> Fact:
    """A fact with its line as envelope; made in one step, where a frozen dataclass takes six."""
    fact = Fact.__new__(Fact)
    values = {
        "event": event,
        "envelope": line,
        "topic": line.topic,
        "partition": line.partition,
        "offset": line.offset,
        "earlier": earlier,
    }
    object.__setattr__(fact, "__dict__", values)
    return fact


def decoded(codec: Codec, line: Line) -> Fact:
    """A line's fact, as the codec has it. Raises DecodeError naming its place."""
    written, event = codec.event_of(
        line.value,
        ce_type=line.type,
        schema_digest=line.schema_digest,
        body_digest=line.body_digest,
        where=line.where,
    )
    return fact_of(line, event, None if event is written else written)
