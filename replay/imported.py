"""The offsets that imported records had in the log that they came from: the cuts of their decisions name those.

An import numbers records anew and says on the topic `import` where each one stood (events.seals.RecordsImported). So a
campaign replays from the namespace that it was imported into as it did before, and its export is the archive that it came from.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bat_events.codec import Fact
from bat_events.events.seals import RecordsImported
from bat_events.log.interface import Partition
from bat_events.replay.archive_format import Other


@dataclass
class _Part:
    """One partition of a campaign: runs of offsets, and other campaigns' records between them."""

    records: int = 0
    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    counts: "array[int]" = field(default_factory=lambda: array("q"))
    others: list[Other] = field(default_factory=list)


class Imported:
    """What the facts of the topic `import` say. Of two that tell of the same records the first counts."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._parts: dict[str, dict[Partition, _Part]] = {}
        for fact in facts:
            event = fact.event
            if not isinstance(event, RecordsImported):
                continue
            part = self._parts.setdefault(fact.envelope.campaign, {}).setdefault(
                (event.topic, event.partition), _Part()
            )
            if event.first != part.records:
                continue
            for run in event.runs:
                part.offsets.append(run.offset)
                part.counts.append(run.count)
                part.records += run.count
            part.others += [Other(offset=o.offset, id=o.id, time=o.time) for o in event.others]

    def holds(self, campaign: str) -> bool:
        """Whether the campaign was imported."""
        return campaign in self._parts

    def records(self, campaign: str, where: Partition) -> int:
        """How many of a partition's records an import wrote."""
        return self._part(campaign, where).records

    def offsets(self, campaign: str, where: Partition) -> Iterator[int]:
        """The offset that each of the campaign's records of a partition had, by ordinal."""
        part = self._part(campaign, where)
        for offset, count in zip(part.offsets, part.counts, strict=True):
            yield from range(offset, offset + count)

    def others(self, campaign: str, where: Partition) -> list[Other]:
        """Where other campaigns' records stood beside them."""
        return self._part(campaign, where).others

    def _part(self, campaign: str, where: Partition) -> _Part:
        return self._parts.get(campaign, {}).get(where, _Part())


def went_on(campaign: str, where: Partition) -> str:
    """What to say of a campaign that has records which no import wrote."""
    return (
        f"campaign {campaign} was imported and went on afterwards ({where[0]}[{where[1]}]): its cuts name offsets of two logs, "
        "so it can neither be replayed nor exported from here. Use the archive that it came from; fork it to go on"
    )
