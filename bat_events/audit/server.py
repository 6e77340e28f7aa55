"""Answers questions while the auditor writes: JSON lines over a Unix socket that only its owner can open.

Request  {"sql": …, "params": {…}}, one line. Reply {"result": {…}} or {"error": …, "kind": …}, one line.
Each connection has a thread and each query a cursor; a few run at once, the others wait.

One request is no question: {"take_over": MARK} hands over the file that `audit rebuild` made; its place is fixed, its mark must
fit. The thread that materialises does it; the reply {"taken_over": MARK} comes when the file is in place.
"""

import contextlib
import json
import os
import queue
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from bat_events.audit.errors import AuditError
from bat_events.audit.file import AuditFile, is_corruption
from bat_events.audit.query import QueryLimits, answer

_MAX_REQUEST = 1 << 20
_AT_ONCE = 4
_IDLE_S = 60.0
_TAKE_OVER_S = 600.0


class HandOver:
    """One rebuilt file that shall be taken over: asked for by a thread of the server, done by the one that materialises."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self._over = threading.Event()
        self._error: str | None = None

    def end(self, error: str | None = None) -> None:
        """It is done, or it failed with this error."""
        self._error = error
        self._over.set()

    def wait(self, seconds: float) -> None:
        """Raises AuditError where it failed or takes longer."""
        if not self._over.wait(seconds):
            raise AuditError(f"the rebuilt file was not taken over within {seconds:g} s: is the auditor stuck?")
        if self._error is not None:
            raise AuditError(self._error)


def socket_path(home: Path, namespace: str) -> Path:
    """Where the auditor of a namespace listens."""
    return home.absolute() / "run" / namespace / "audit.sock"


@contextlib.contextmanager
def address(path: Path) -> Iterator[str]:
    """An address for a socket path of any length (the system allows 107 bytes): by way of its open folder."""
    if len(os.fsencode(path)) < 108:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class QueryServer:
    """See the module. The audit file's lock makes sure that there is one server per namespace."""

    def __init__(self, file: AuditFile, path: Path, limits: QueryLimits | None = None) -> None:
        self._file, self._path = file, path
        self._limits = limits or QueryLimits()
        self._slots = threading.Semaphore(_AT_ONCE)
        self._closing = threading.Event()
        self._asked: queue.SimpleQueue[HandOver] = queue.SimpleQueue()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # left by an auditor that was killed: the file's lock shows that it is gone
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        os.fchmod(self._socket.fileno(), 0o600)  # Linux makes the socket file with the socket's own mode
        with address(path) as name:
            self._socket.bind(name)
        os.chmod(path, 0o600)
        self._socket.listen(16)
        self._thread = threading.Thread(target=self._accept, name="audit-server", daemon=True)
        self._thread.start()

    def asked_to_take_over(self) -> HandOver | None:
        """The next file that waits to be taken over, for the thread that materialises."""
        try:
            return self._asked.get_nowait()
        except queue.Empty:
            return None

    def close(self) -> None:
        """Stop listening; a query that runs is cut off when the file is closed."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(timeout=5)
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="audit-query", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(_IDLE_S)
        with connection, connection.makefile("rb") as lines, contextlib.suppress(OSError):
            while line := lines.readline(_MAX_REQUEST + 1):
                connection.sendall(json.dumps(self._reply(line)).encode() + b"\n")
                if len(line) > _MAX_REQUEST:
                    return

    def _reply(self, line: bytes) -> dict[str, Any]:
        try:
            mark = _take_over(line)
            if mark is not None:
                hand_over = HandOver(mark)
                self._asked.put(hand_over)
                hand_over.wait(_TAKE_OVER_S)
                return {"taken_over": mark}
            sql, parameters = _request(line)
            with self._slots, self._file.cursor() as cursor:
                return {"result": answer(cursor, sql, parameters, self._limits, "auditor").to_json()}
        except AuditError as error:
            cause = error.__cause__
            if isinstance(cause, duckdb.Error) and is_corruption(cause):
                self._file.damage = str(cause)
            return {"error": str(error), "kind": type(error).__name__}
        except duckdb.Error as error:
            return {"error": str(error), "kind": "QueryFailed"}


def _take_over(line: bytes) -> str | None:
    """The mark of a file to be taken over; None where the request is a question."""
    try:
        data = json.loads(line) if len(line) <= _MAX_REQUEST else None
    except ValueError:
        return None
    mark = data.get("take_over") if isinstance(data, dict) else None
    return mark if isinstance(mark, str) else None


def _request(line: bytes) -> tuple[str, dict[str, str | None]]:
    if len(line) > _MAX_REQUEST:
        raise AuditError(f"the request is longer than {_MAX_REQUEST} bytes")
    try:
        data = json.loads(line)
        sql, parameters = data["sql"], data.get("params", {})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AuditError(f"the request is not {{'sql': …, 'params': …}}: {error}") from None
    if not isinstance(sql, str) or not isinstance(parameters, dict):
        raise AuditError("the request's sql must be text and its params an object")
    if not all(value is None or isinstance(value, str) for value in parameters.values()):
        raise AuditError("parameters are text or null")
    return sql, parameters
