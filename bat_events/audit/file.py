"""The audit's DuckDB file: opened by one auditor for writing, rebuilt from the log when it cannot be trusted.

A file that is damaged or was made by other table definitions stays where it is while a new one is filled beside it;
`finish` puts the new one in its place with one rename. The same way a file that `audit rebuild` made is taken over:
`adopt` makes it the one that is written, while the old one answers until the new one knows as much. DuckDB's own access to
anything outside the file is switched off for good, for the auditor's connection too.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb

from bat_events.audit.errors import AuditBusy, AuditError
from bat_events.audit.hold import Hold
from bat_events.audit.materialiser import offsets
from bat_events.audit.places import lock_path, new_path, next_path, put_in_place, remove, wal
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


class Unusable(Exception):
    """The file cannot be gone on with; the message says why."""


class AuditFile:
    """See the module. `rebuilding` says why the file is being made anew, or is None.

    `lock` is False for a file that only its maker knows of. Raises AuditBusy where another process holds the file.
    """

    def __init__(self, path: Path, namespace: str, *, lock_s: float = _LOCK_S, lock: bool = True) -> None:
        self.path = path
        self.rebuilding: str | None = None
        self.damage: str | None = None
        self._namespace = namespace
        self._gate = threading.Condition()
        self._readers, self._swapping = 0, False
        self._successor: duckdb.DuckDBPyConnection | None = None
        self._target: dict[Partition, int] = {}
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        deadline = time.monotonic() + lock_s
        self._hold = Hold(lock_path(path), f"another auditor holds {path}", lock_s) if lock else None
        try:
            remove(next_path(path))  # left by an auditor that was killed while it took a file over: the live one stands
            self._connection = self._open_or_rebuild(deadline)
        except BaseException:
            self._let_go()
            raise

    def _open_or_rebuild(self, deadline: float) -> duckdb.DuckDBPyConnection:
        try:
            return self._open(self.path, deadline)
        except Unusable as reason:
            self.rebuilding = str(reason)
            try:
                return self._open(self._beside, deadline)
            except Unusable:
                remove(self._beside)
                return self._open(self._beside, deadline)

    @property
    def _beside(self) -> Path:
        return self.path.with_suffix(".rebuild.duckdb")

    @property
    def writer(self) -> duckdb.DuckDBPyConnection:
        """The connection of the thread that materialises."""
        return self._connection if self._successor is None else self._successor

    def offsets(self) -> dict[Partition, int]:
        """Where to read on."""
        return dict(offsets(self.writer))

    @contextlib.contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of its own for one reader, usable from another thread; waits while one file replaces another."""
        with self._gate:
            self._gate.wait_for(lambda: not self._swapping)
            self._readers += 1
            try:
                cursor = self._connection.cursor()
            except BaseException:
                self._readers -= 1
                raise
        try:
            yield cursor
        finally:
            cursor.close()
            with self._gate:
                self._readers -= 1
                self._gate.notify_all()

    @property
    def adopting(self) -> bool:
        """Whether a rebuilt file is being taken over."""
        return self._successor is not None

    def adopt(self, mark: str) -> None:
        """From now on write the rebuilt file that carries this mark, from its own offsets; the old one still answers.

        Raises AuditError where there is no such file; nothing is changed then.
        """
        if self._successor is not None:
            raise AuditError("another rebuilt file is being taken over: ask again")
        new, ours = new_path(self.path), next_path(self.path)
        try:
            os.replace(new, ours)  # now no other rebuild can remove it
        except OSError as error:
            raise AuditError(f"the rebuilt file {new} is not there: {error}") from None
        try:
            successor = self._open(ours, time.monotonic() + _LOCK_S)
            if mark_of(successor) != mark:
                successor.close()
                raise Unusable("it is not the one that was announced")
        except (Unusable, AuditError) as reason:
            remove(ours)
            raise AuditError(f"the rebuilt file {new} cannot be taken over: {reason}") from None
        self._target = dict(offsets(self._connection))
        self._successor = successor

    def abandon(self) -> None:
        """Go on with the file that still answers; the one that was being taken over is removed."""
        if self._successor is not None:
            with contextlib.suppress(duckdb.Error):
                self._successor.close()
            self._successor = None
        remove(next_path(self.path))

    def knows_as_much(self) -> bool:
        """Whether the file that is being taken over was filled as far as the one that still answers."""
        reached = self.offsets()
        return all(reached.get(where, 0) >= offset for where, offset in self._target.items())

    def finish(self) -> None:
        """Put the new file in the old one's place; readers wait for a moment."""
        if self._successor is None and self.rebuilding is None:
            return
        source = self._beside if self._successor is None else next_path(self.path)
        with self._gate:
            self._swapping = True
            try:
                self._gate.wait_for(lambda: self._readers == 0)
                self.writer.execute("CHECKPOINT")  # so that one file is all there is: its write-ahead log ends
                self.writer.close()
                self._connection.close()
                self._successor = None
                put_in_place(source, self.path)
                remove(self._beside)
                self._connection = self._open(self.path, time.monotonic() + _LOCK_S)
                self.rebuilding = None
            finally:
                self._swapping = False
                self._gate.notify_all()

    def reopen(self) -> None:
        """Open the file anew, after an error from which DuckDB does not go on; readers wait for a moment."""
        with self._gate:
            self._gate.wait_for(lambda: self._readers == 0)
            with contextlib.suppress(duckdb.Error):
                self.writer.close()
            if self._successor is not None:
                self._successor = self._open(next_path(self.path), time.monotonic() + _LOCK_S)
                return
            current = self._beside if self.rebuilding is not None else self.path
            self._connection = self._open(current, time.monotonic() + _LOCK_S)

    def set_aside(self, reason: str) -> AuditError:
        """Close a file that turned out to be damaged and take it out of the way; returns the error to raise."""
        with self._gate:
            with contextlib.suppress(duckdb.Error):
                self.writer.close()
                self._connection.close()
            current = self._beside if self.rebuilding is not None else self.path
            aside = current.with_suffix(".damaged")
            os.replace(current, aside)
            wal(current).unlink(missing_ok=True)
            self._let_go()
        return AuditError(f"{self.path} is damaged ({reason}); it was moved to {aside}, the next start rebuilds it")

    def close(self) -> None:
        """Let go of the file."""
        with self._gate:
            with contextlib.suppress(duckdb.Error):
                self._connection.interrupt()
            self.writer.close()
            self._connection.close()
            self._let_go()

    def _let_go(self) -> None:
        if self._hold is not None:
            self._hold.release()

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


def open_to_settle(path: Path) -> None:
    """Bring the write-ahead log of a file that nobody holds into it. Raises duckdb.Error."""
    connection = duckdb.connect(str(path), config=_RESTRICTED)
    try:
        connection.execute("CHECKPOINT")
    finally:
        connection.close()


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


MARK = "rebuild"
"""The key in `meta` under which a file that `audit rebuild` finished carries its mark."""


def mark_of(connection: duckdb.DuckDBPyConnection) -> str | None:
    """The mark of the rebuild that made a file; None where none finished it."""
    row = connection.execute("SELECT value FROM meta WHERE key = $key", {"key": MARK}).fetchone()
    return row[0] if row else None
