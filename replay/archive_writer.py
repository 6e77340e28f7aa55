"""Writing archive files, partition by partition, in flat memory. Files only: nothing here knows of a broker.

Blocks are appended as they fill up, so no file stays open, however many rounds there are.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from bat_events.domain.sealing import Leaves, content_bytes, long_bytes
from bat_events.log.belonging import belongs, round_of
from bat_events.log.interface import Record
from bat_events.replay.archive_format import (
    BLOCK_BYTES,
    LEAVES,
    OTHER_SCHEMA,
    OTHERS,
    RECORD_SCHEMA,
    FileEntry,
    Other,
    PartitionEntry,
    RoundEntry,
    container_block,
    container_header,
    file_entry,
)

_SCHEMA_HEADER, _SCHEMA_PREFIX = "ce_dataschema", b"sha256:"


class _Rows:
    """The rows of one Avro file on their way into it."""

    def __init__(self, path: Path, schema: Any) -> None:
        self.path, self.records = path, 0
        self._waiting: list[bytes] = []
        self._bytes = 0
        path.write_bytes(container_header(schema))

    def add(self, row: bytes) -> None:
        self._waiting.append(row)
        self._bytes += len(row)
        self.records += 1
        if self._bytes >= BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            with self.path.open("ab") as file:
                file.write(container_block(len(self._waiting), b"".join(self._waiting)))
            self._waiting, self._bytes = [], 0

    def close(self) -> FileEntry:
        self.flush()
        synced(self.path)
        return file_entry(self.path, self.records)


class PartitionWriter:
    """The files of one partition. What lies in its folder from an earlier try is removed.

    `only_round`: records of other rounds get their place and leaf, and are left out. `salt` is for held-out topics.
    """

    def __init__(
        self, root: Path, topic: str, partition: int, campaign: str, *, only_round: int | None = None, salt: bytes = b""
    ) -> None:
        self._folder = root / topic / str(partition)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._topic, self._partition = topic, partition
        self._campaign, self._only = campaign.encode(), only_round
        self._hashes = Leaves(topic, partition, salt)
        self._leaves = bytearray()
        self._leaf_file = self._folder / LEAVES
        self._leaf_file.touch()
        self._rounds: dict[int | None, _Rows] = {}
        self._others: _Rows | None = None
        self._end = 0
        self.records = 0
        self.schemas: set[str] = set()
        """Digests of the writers' schemas that the records name."""

    def add(self, record: Record | Other) -> bool:
        """Take the next record of the partition; returns whether it is the campaign's."""
        self._end = record.offset + 1
        if isinstance(record, Other):
            self._add_other(record)
            return False
        headers = record.headers
        if not belongs(headers, self._campaign):
            found = dict(reversed(headers))  # the first of a name counts
            texts = [found.get(name, b"").decode("utf-8", "replace") for name in ("ce_id", "ce_time")]
            self._add_other(Other(offset=record.offset, id=texts[0], time=texts[1]))
            return False
        number = round_of(headers)
        content = content_bytes(record.key, record.value, headers, record.timestamp_ms)
        self._leaves += self._hashes.leaf(self.records, content)
        if len(self._leaves) >= BLOCK_BYTES:
            self._flush_leaves()
        if self._only is None or number is None or number == self._only:
            rows = self._rounds.get(number)
            if rows is None:
                name = RoundEntry(round=number, records=0, bytes=0, sha256="0" * 64).name
                rows = self._rounds[number] = _Rows(self._folder / name, RECORD_SCHEMA)
            rows.add(long_bytes(self.records) + long_bytes(record.offset) + content)
            for name, value in headers:
                if name == _SCHEMA_HEADER and value.startswith(_SCHEMA_PREFIX):
                    self.schemas.add(value.removeprefix(_SCHEMA_PREFIX).decode("ascii", "replace"))
        self.records += 1
        return True

    def finish(self, *, judged: int) -> PartitionEntry:
        """Close the files; they are on disk when this returns. Records before offset `judged` are compared by replay."""
        self._flush_leaves()
        synced(self._leaf_file)
        files = [
            RoundEntry(round=number, **self._rounds[number].close().model_dump())
            for number in sorted(self._rounds, key=lambda n: -1 if n is None else n)
        ]
        return PartitionEntry(
            topic=self._topic,
            partition=self._partition,
            records=self.records,
            offset_judged=min(judged, self._end),
            offset_end=self._end,
            files=files,
            others=None if self._others is None else self._others.close(),
            leaves=file_entry(self._leaf_file, self.records),
        )

    def _flush_leaves(self) -> None:
        with self._leaf_file.open("ab") as file:
            file.write(self._leaves)
        self._leaves.clear()

    def _add_other(self, other: Other) -> None:
        texts = [other.id.encode(), other.time.encode()]
        if self._others is None:
            self._others = _Rows(self._folder / OTHERS, OTHER_SCHEMA)
        self._others.add(b"".join((long_bytes(other.offset), *(long_bytes(len(t)) + t for t in texts))))


def synced(path: Path) -> None:
    """Wait until a file's bytes are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, content: bytes) -> None:
    """A file that is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_bytes(content)
    synced(temporary)
    temporary.rename(path)
    synced(path.parent)
