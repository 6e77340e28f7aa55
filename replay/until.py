"""A source of which only what lies before a moment or a cut is compared; what is newer is input at most, and exists."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from bat_events.events.envelope import format_time, parse_cut
from bat_events.log.interface import Partition, Record
from bat_events.replay.lines import Line, lines_of
from bat_events.replay.source import OtherRecord, ReplayError, Source

_ALL = 1 << 62


class _Ends(dict[Partition, int]):
    """Ends of what is compared; of a partition that is not among them all is."""

    def __missing__(self, where: Partition) -> int:
        return _ALL


class Until:
    """See the module. `text` is a time (2026-05-01T12:00, UTC unless it says otherwise) or a cut as `bat_cut` has it.

    A time: in every partition what stands before its first later record. A cut: partitions that it does not name are compared
    whole. Raises ReplayError where the text is neither.
    """

    def __init__(self, source: Source, text: str) -> None:
        self._source = source
        self.name = f"{source.name}, until {text}"
        ends = _cut_of(text) if text.lstrip().startswith("{") else _ends_at(source, _moment(text))
        for where, end in (source.judged or {}).items():
            ends[where] = min(end, ends[where])
        self.judged: Mapping[Partition, int] | None = ends

    def schemas(self) -> Sequence[bytes]:
        """See Source."""
        return self._source.schemas()

    def imports(self) -> Sequence[Record]:
        """See Source."""
        return self._source.imports()

    def records(self) -> Iterator[Record | OtherRecord]:
        """See Source."""
        return self._source.records()

    def lines(self) -> dict[Partition, Iterator[Line]]:
        """See replay.lines."""
        return lines_of(self._source)


def _moment(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ReplayError(
            f"--until {text!r}: neither a time such as 2026-05-01T12:00:00Z nor a cut such as "
            '{"training": {"0": 12}}'
        ) from None
    return format_time(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _cut_of(text: str) -> _Ends:
    try:
        cut = parse_cut(text)
    except (ValueError, json.JSONDecodeError) as error:
        raise ReplayError(f"--until: no cut: {error}") from None
    return _Ends({(topic, number): offset for topic, parts in cut.items() for number, offset in parts.items()})


def _ends_at(source: Source, moment: str) -> _Ends:
    ends = _Ends()
    for where, lines in lines_of(source).items():
        later = next((line for line in lines if line.moment > moment), None)
        if later is not None:
            ends[where] = later.offset
    return ends
