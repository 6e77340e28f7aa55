"""The rows of an archive's file as raw bytes: split, not decoded. What a leaf hashes is a slice of what lies in the file.

This knows the encoding of RECORD_SCHEMA and nothing else, and refuses whatever this project's writer would not write: another
schema, headers in several blocks, bytes that trail.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from backports import zstd

from bat_events.replay.archive_format import MARKER, RECORD_SCHEMA, ArchiveError, container_header

Raw = tuple[int, bytes, int]
"""(ordinal, content, where in the content the headers begin)."""

_HEADER = container_header(RECORD_SCHEMA)
_MOST_BYTES = 128 << 20
"""Of one block. Its writer ends a block with the record that brings it over BLOCK_BYTES, and records have at most 8 MiB."""


def raw_rows(path: Path, records: int) -> Iterator[Raw]:
    """Every row. Raises ArchiveError where the file is not one that this project wrote."""
    count = 0
    try:
        with path.open("rb") as file:
            if file.read(len(_HEADER)) != _HEADER:
                raise ArchiveError(f"{path} does not begin as an archive's file")
            last = -1
            for rows, data in blocks(file):
                for row in split(rows, data):
                    if row[0] <= last:
                        raise ArchiveError(f"{path}: record {row[0]} follows {last}: records are out of order")
                    last = row[0]
                    yield row
                count += rows
    except FileNotFoundError:
        raise ArchiveError(f"{path} is missing: the archive is incomplete, copy it again") from None
    except (ValueError, IndexError, EOFError, MemoryError, zstd.ZstdError) as error:
        raise ArchiveError(f"{path}: not what an archive holds: {error}") from None
    if count != records:
        raise ArchiveError(f"{path}: {count} records, the manifest says {records}")


def blocks(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """(rows, unpacked bytes) of every block after the container's header. Raises ValueError, EOFError or ZstdError."""
    while first := file.read(1):
        rows = _long(file, first)
        size = _long(file, file.read(1))
        packed = file.read(size)
        if rows <= 0 or size <= 0 or len(packed) != size or file.read(16) != MARKER:
            raise ValueError("a block is cut off or changed")
        unpacking = zstd.ZstdDecompressor()
        data = unpacking.decompress(packed, max_length=_MOST_BYTES)
        if not unpacking.eof or unpacking.unused_data:
            raise ValueError("a block is too large, or bytes trail it")
        yield rows, data


def _long(file: IO[bytes], first: bytes) -> int:
    shift, value, byte = 0, 0, first
    while True:
        if not byte or shift > 63:
            raise EOFError("a number is cut off")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
        byte = file.read(1)


def split(rows: int, data: bytes) -> Iterator[Raw]:
    """The rows of one block. Raises ValueError or IndexError where the bytes are no such rows."""
    at, end = 0, len(data)
    for _ in range(rows):
        ordinal, at = _size(data, at)
        ordinal >>= 1
        while data[at] > 0x7F:  # offset
            at += 1
        start = at = at + 1
        while data[at] > 0x7F:  # timestamp
            at += 1
        at += 1
        for _ in (0, 1):  # key, value
            size = data[at]
            at += 1
            if size > 0x7F or size & 1:
                size, at = _size(data, at - 1)
            at += size >> 1
        beginning = at
        headers = data[at]
        at += 1
        if headers > 0x7F or headers & 1:
            headers, at = _size(data, at - 1)
        for _ in range(headers):  # Avro doubles what is not negative, and each header has two parts: name, value
            size = data[at]
            at += 1
            if size > 0x7F or size & 1:
                size, at = _size(data, at - 1)
            at += size >> 1
        if headers:
            if data[at]:
                raise ValueError("headers in more than one block")
            at += 1
        if at > end:
            raise ValueError("a row is cut off")
        yield ordinal, data[start:at], beginning - start
    if at != end:
        raise ValueError("bytes trail the rows of a block")


def _size(data: bytes, at: int) -> tuple[int, int]:
    """Twice a whole number that is not negative, as it stands in Avro, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value & 1:
                raise ValueError("a size below zero")
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than 64 bits")
