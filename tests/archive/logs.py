"""Logs in memory for tests of archives: an ExportLog over records, and a small sealed campaign."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bat_events.codec import Codec
from bat_events.domain.canonical import canonical_json
from bat_events.log.interface import Partition, Record
from bat_events.log.topics import BY_NAME
from bat_events.replay.archive_format import NOT_ARCHIVED, Manifest
from bat_events.replay.export import ExportOptions, export_campaign

PARTITIONS = 3


class MemoryLog:
    """An ExportLog over records; `fail_at` raises KeyboardInterrupt, as Ctrl-C would, after so many records."""

    def __init__(
        self,
        records: Sequence[Record],
        *,
        schemas: Sequence[bytes] = (),
        heldout: bool = False,
        parallel: int = PARTITIONS,
    ) -> None:
        self.fail_at: int | None = None
        self.read_records = 0
        self._schemas = schemas
        self._of: dict[Partition, list[Record]] = {}
        for name, spec in BY_NAME.items():
            if name not in NOT_ARCHIVED and (heldout or spec.plane != "heldout"):
                for number in range(parallel if spec.parallel else 1):
                    self._of[(name, number)] = []
        for record in records:
            if (record.topic, record.partition) in self._of:
                self._of[(record.topic, record.partition)].append(record)

    def ends(self) -> Mapping[Partition, tuple[int, int]]:
        """See ExportLog."""
        ends = {where: records[-1].offset + 1 if records else 0 for where, records in self._of.items()}
        return {where: (end, end) for where, end in ends.items()}

    def read(self, where: Partition, end: int) -> Iterator[Record]:
        """See ExportLog."""
        for record in self._of[where]:
            if record.offset < end:
                self.read_records += 1
                if self.fail_at is not None and self.read_records > self.fail_at:
                    raise KeyboardInterrupt
                yield record

    def schemas(self) -> Mapping[str, bytes]:
        """See ExportLog."""
        return {hashlib.sha256(canonical_json(json.loads(text))).hexdigest(): text for text in self._schemas}


def quiet(_: str) -> None:
    """Progress that nobody reads."""


def export(
    records: Sequence[Record], folder: Path, campaign: str, *, parallel: int = PARTITIONS, **options: object
) -> Manifest:
    """An archive of records."""
    schemas = [schema.text for schema in Codec().schemas()]
    log = MemoryLog(records, schemas=schemas, heldout=bool(options.get("heldout")), parallel=parallel)
    return export_campaign(log, folder, ExportOptions(campaign=campaign, namespace="memory", **options), quiet)  # type: ignore[arg-type]
