"""Where an audit file and those beside it lie, and how one takes another's place.

Files of a namespace: NAME.duckdb the live one, NAME.rebuild.duckdb an auditor's own new one, NAME.new.duckdb that of a
running `audit rebuild`, NAME.next.duckdb the same once an auditor took it; NAME.lock is held by whoever may write or replace
the live one.
"""

import os
from pathlib import Path

from bat_events.audit.errors import AuditError


def audit_path(home: Path, namespace: str) -> Path:
    """Where the audit file of a namespace lies; `home` is BAT_HOME, or `heldout_home` of it for that plane's file."""
    return home.absolute() / "audit" / f"{namespace}.duckdb"


def heldout_home(home: Path) -> Path:
    """The held-out plane's part of BAT_HOME: its artefacts, logs, audit file and socket."""
    return home.absolute() / "heldout"


def lock_path(path: Path) -> Path:
    """What whoever may write or replace an audit file holds."""
    return path.with_suffix(".lock")


def new_path(path: Path) -> Path:
    """Where `audit rebuild` fills the file that shall take the place of `path`."""
    return path.with_suffix(".new.duckdb")


def next_path(path: Path) -> Path:
    """The same file once an auditor has taken it."""
    return path.with_suffix(".next.duckdb")


def put_in_place(source: Path, path: Path) -> None:
    """One rename: before it the old file is there, after it the new one. `source` must be closed and have no write-ahead log.

    The old file's log goes first: beside the new one it would be another file's.
    """
    if wal(source).exists():
        raise AuditError(f"{source} was not closed: {wal(source).name} lies beside it")
    with source.open("rb") as file:
        os.fsync(file.fileno())
    wal(path).unlink(missing_ok=True)
    os.replace(source, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def wal(path: Path) -> Path:
    """DuckDB's write-ahead log of a file."""
    return path.with_name(path.name + ".wal")


def remove(path: Path) -> None:
    """A file and its write-ahead log, where they are there."""
    path.unlink(missing_ok=True)
    wal(path).unlink(missing_ok=True)
