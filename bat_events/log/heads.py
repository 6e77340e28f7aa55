"""Heads of seals, kept outside the broker: who holds this file can tell whether the log was rewritten since.

One JSON line per seal, appended and synced when the seal is on the log; the file is readable by its owner only. Copy it to
where those who could change the log cannot reach it: docs/archive.md says what it proves.
"""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bat_events.errors import LogError

_Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Head(BaseModel):
    """One seal. `record` is the hash of the seal's own record; `noted`: when it was made, or later from the log."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")
    campaign: str
    plane: Literal["training", "heldout"]
    number: Annotated[int, Field(ge=0)]
    round: Annotated[int, Field(ge=0)] | None
    head: _Hash
    event: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    record: _Hash
    noted: Literal["sealing", "later"]
    at: str


def heads_path(home: Path, namespace: str, *, heldout: bool) -> Path:
    """Where a notary keeps its heads."""
    return (home / "heldout" if heldout else home) / "seals" / f"{namespace}.jsonl"


def read_heads(path: Path) -> list[Head]:
    """Every head of a file. A last line that a crash cut off counts as not written. Raises LogError."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise LogError(f"{path} is not there: it holds the heads that seals are held against") from None
    heads = []
    for number, line in enumerate(text[: text.rfind(b"\n") + 1].splitlines(), 1):
        try:
            heads.append(Head.model_validate_json(line))
        except ValidationError as error:
            raise LogError(f"{path}, line {number}: no head of a seal: {error.errors()[0]['msg']}") from None
    return heads


def append_heads(path: Path, heads: Sequence[Head]) -> None:
    """Add heads; they are on the disk when this returns. What a crash cut off is taken away first."""
    if not heads:
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        whole = file.read().rfind(b"\n") + 1
        file.truncate(whole)
        file.seek(whole)
        file.write(b"".join(head.model_dump_json().encode() + b"\n" for head in heads))
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def leaves_path(heads: Path, campaign: str, topic: str, partition: int) -> Path:
    """Where a notary keeps the leaf hashes of a partition, beside its heads file: they say which event was changed."""
    return heads.with_name(f"{heads.stem}.leaves") / quote(campaign, safe="") / f"{topic}-{partition}"


def keep_leaves(path: Path, first: int, leaves: bytes) -> None:
    """Put leaf hashes, 32 bytes each, at their place. A help to a check: they are trusted by their root only."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.seek(32 * first)
        file.write(leaves)


def now_text(now: datetime) -> str:
    """A time as a head has it."""
    return now.isoformat(timespec="seconds")
