"""The blocks of a partition's files in an archive, unpacked and in the log's order, for who reads many rows at once.

A partition's records lie in a file per round; several files' records may alternate. Blocks are taken by the ordinal of their
first row, and each group of blocks comes with the ordinal from which on more rows may follow in later blocks.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

from backports import zstd

from bat_events.replay.archive_format import RECORD_SCHEMA, ArchiveError, PartitionEntry, RoundEntry, container_header
from bat_events.replay.archive_raw import blocks

_HEADER = container_header(RECORD_SCHEMA)


@dataclass(frozen=True, slots=True)
class Block:
    """One block of one file; `first` is the ordinal of its first row."""

    part: RoundEntry
    rows: int
    data: bytes
    first: int


def partition_blocks(
    folder: Path, entry: PartitionEntry, most_bytes: int, most_rows: int
) -> Iterator[tuple[list[Block], int | None]]:
    """Groups of blocks of about this size, each with the ordinal from which on later groups may hold rows (None: it is the last).

    Raises ArchiveError.
    """
    files = [(entry.folder(folder) / part.name, part) for part in entry.files if part.records]
    heads: list[
        tuple[int, int, Block | None]
    ] = []  # first ordinal, file, its next block; None: the file is not open yet
    for number, (path, part) in enumerate(files):
        opened = _file_blocks(path, part)
        heads.append((next(opened).first, number, None))
        opened.close()
    heads.sort(key=lambda head: head[:2])
    sources: dict[int, Iterator[Block]] = {}
    group: list[Block] = []
    size = rows = 0
    while heads:
        _, number, block = heads.pop(0)
        if block is None:
            sources[number] = _file_blocks(*files[number])
            block = next(sources[number])
        group.append(block)
        size, rows = size + len(block.data), rows + block.rows
        following = next(sources[number], None)
        if following is None:
            del sources[number]
        else:
            heads.append((following.first, number, following))
            heads.sort(key=lambda head: head[:2])
        if heads and (size >= most_bytes or rows >= most_rows):
            yield group, heads[0][0]
            group, size, rows = [], 0, 0
    if group:
        yield group, None


def _file_blocks(path: Path, part: RoundEntry) -> Generator[Block, None, None]:
    count = 0
    try:
        with path.open("rb") as file:
            if file.read(len(_HEADER)) != _HEADER:
                raise ArchiveError(f"{path} does not begin as an archive's file")
            for rows, data in blocks(file):
                count += rows
                yield Block(part, rows, data, _first(data))
    except FileNotFoundError:
        raise ArchiveError(f"{path} is missing: the archive is incomplete, copy it again") from None
    except (ValueError, IndexError, EOFError, MemoryError, zstd.ZstdError) as error:
        raise ArchiveError(f"{path}: not what an archive holds: {error}") from None
    if count != part.records:
        raise ArchiveError(f"{path}: {count} records, the manifest says {part.records}")


def _first(data: bytes) -> int:
    """The ordinal of a block's first row. Raises IndexError or ValueError."""
    value = shift = at = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        at, shift = at + 1, shift + 7
        if shift > 63:
            raise ValueError("a number has more than 64 bits")
    if value & 1:
        raise ValueError("an ordinal below zero")
    return value >> 1
