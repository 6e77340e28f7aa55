"""The audit's DuckDB file: opened by one auditor for writing, rebuilt from the log when it cannot be trusted.

A file that is damaged or was made by other table definitions stays where it is while a new one is filled beside it;
`finish_rebuild` puts the new one in its place with one rename. DuckDB's own access to anything outside the file is
switched off for good, for the auditor's connection too.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb

from bat_events.audit.errors import AuditBusy, AuditError
from bat_events.audit.materialiser import offsets
from bat_events.audit.schema import create, renew_views, tables_digest, views_digest
from bat_events.log.interface import Partition

_RESTRICTED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "lock_configuration": "true",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "memory_limit": "1GB",
    "threads": "2",
}
_NOT_DAMAGE = ("Could not set lock", "Permission denied", "No space left", "Too many open files", "Is a directory")
_LOCK_S = 10.0


def audit_path(home: Path, namespace: str) -> Path:
    """Where the audit file of a namespace lies; `home` is BAT_HOME, or `heldout_home` of it for that plane's file."""
    return home.absolute() / "audit" / f"{namespace}.duckdb"


def heldout_home(home: Path) -> Path:
    """The held-out plane's part of BAT_HOME: its artefacts, logs, audit file and socket."""
    return home.absolute() / "heldout"


class Unusable(Exception):
    """The file cannot be gone on with; the message says why."""


class AuditFile:
    """See the module. `rebuilding` says why the file is being made anew, or is None."""

    def __init__(self, path: Path, namespace: str, *, lock_s: float = _LOCK_S) -> None:
        self.path = path
        self.rebuilding: str | None = None
        self.damage: str | None = None
        self._namespace = namespace
        self._gate = threading.Condition()
        self._readers = 0
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        deadline = time.monotonic() + lock_s
        try:
            self._connection = self._open(path, deadline)
        except Unusable as reason:
            self.rebuilding = str(reason)
            try:
                self._connection = self._open(self._beside, deadline)
            except Unusable:
                _remove(self._beside)
                self._connection = self._open(self._beside, deadline)

    @property
    def _beside(self) -> Path:
        return self.path.with_suffix(".rebuild.duckdb")

    @property
    def writer(self) -> duckdb.DuckDBPyConnection:
        """The connection of the thread that materialises."""
        return self._connection

    def offsets(self) -> dict[Partition, int]:
        """Where to read on."""
        return dict(offsets(self._connection))

    @contextlib.contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of its own for one reader, usable from another thread."""
        with self._gate:
            self._readers += 1
            cursor = self._connection.cursor()
        try:
            yield cursor
        finally:
            cursor.close()
            with self._gate:
                self._readers -= 1
                self._gate.notify_all()

    def finish_rebuild(self) -> None:
        """Put the rebuilt file in the old one's place; readers wait for a moment."""
        if self.rebuilding is None:
            return
        with self._gate:
            self._gate.wait_for(lambda: self._readers == 0)
            self._connection.execute("CHECKPOINT")  # so that one file is all there is: its write-ahead log ends
            self._connection.close()
            _wal(self.path).unlink(missing_ok=True)
            os.replace(self._beside, self.path)
            self._connection = self._open(self.path, time.monotonic() + _LOCK_S)
            self.rebuilding = None

    def reopen(self) -> None:
        """Open the file anew, after an error from which DuckDB does not go on; readers wait for a moment."""
        with self._gate:
            self._gate.wait_for(lambda: self._readers == 0)
            with contextlib.suppress(duckdb.Error):
                self._connection.close()
            current = self._beside if self.rebuilding is not None else self.path
            self._connection = self._open(current, time.monotonic() + _LOCK_S)

    def set_aside(self, reason: str) -> AuditError:
        """Close a file that turned out to be damaged and take it out of the way; returns the error to raise."""
        with self._gate:
            with contextlib.suppress(duckdb.Error):
                self._connection.close()
            current = self._beside if self.rebuilding is not None else self.path
            aside = current.with_suffix(".damaged")
            os.replace(current, aside)
            _wal(current).unlink(missing_ok=True)
        return AuditError(f"{self.path} is damaged ({reason}); it was moved to {aside}, the next start rebuilds it")

    def close(self) -> None:
        """Let go of the file."""
        with self._gate:
            with contextlib.suppress(duckdb.Error):
                self._connection.interrupt()
            self._connection.close()

    def _open(self, path: Path, deadline: float) -> duckdb.DuckDBPyConnection:
        fresh = not path.exists()
        while True:
            try:
                connection = duckdb.connect(str(path), config=_RESTRICTED)
                break
            except duckdb.Error as error:
                if "Could not set lock" in str(error):
                    if time.monotonic() > deadline:
                        raise AuditBusy(f"another auditor holds {path}: {first_line(error)}") from error
                    time.sleep(0.2)
                    continue
                if not is_damage(error):
                    raise AuditError(f"{path} cannot be opened: {first_line(error)}") from error
                raise Unusable(f"it is damaged: {first_line(error)}") from error
        if fresh:
            os.chmod(path, 0o600)
            create(connection, self._namespace)
            return connection
        try:
            self._check(connection)
        except Unusable:
            connection.close()
            raise
        return connection

    def _check(self, connection: duckdb.DuckDBPyConnection) -> None:
        try:
            known = dict(connection.execute("SELECT key, value FROM meta").fetchall())
            connection.execute("SELECT count(*) FROM events").fetchone()
            connection.execute("SELECT count(*) FROM offsets").fetchone()
        except duckdb.Error as error:
            raise Unusable(f"it has no audit tables: {first_line(error)}") from error
        if known.get("format") != tables_digest():
            raise Unusable("it was made by another version of bat-events")
        if known.get("namespace") != self._namespace:
            raise Unusable(f"it belongs to namespace {known.get('namespace')}")
        if known.get("views") != views_digest():
            renew_views(connection)


def open_read_only(path: Path) -> duckdb.DuckDBPyConnection:
    """The file of a stopped auditor, for one reader. Raises duckdb.IOException where a running one holds it."""
    return duckdb.connect(str(path), config={**_RESTRICTED, "access_mode": "READ_ONLY"})


def is_damage(error: duckdb.Error) -> bool:
    """Whether an error at opening means that the file's content is wrong, not its place or permissions."""
    return not any(phrase in str(error) for phrase in _NOT_DAMAGE)


def is_corruption(error: Exception) -> bool:
    """Whether an error while reading or writing means that blocks of the file are wrong."""
    message = str(error)
    return isinstance(error, duckdb.Error) and ("orrupt" in message or "checksum" in message)


def is_full(error: Exception) -> bool:
    """Whether an error while writing means that the disk has no space left."""
    return isinstance(error, duckdb.Error) and "No space left" in str(error)


def is_dead(error: Exception) -> bool:
    """Whether DuckDB does nothing more with its connections after an error: the file is to be opened anew."""
    return isinstance(error, duckdb.FatalException) or "has been invalidated" in str(error)


def first_line(error: Exception) -> str:
    """The part of DuckDB's message that says what is wrong."""
    return str(error).split("\n", 1)[0]


def _wal(path: Path) -> Path:
    return path.with_name(path.name + ".wal")


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    _wal(path).unlink(missing_ok=True)
