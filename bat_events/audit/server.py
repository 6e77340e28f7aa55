"""Answers questions while the auditor writes: JSON lines over a Unix socket that only its owner can open.

Request  {"sql": …, "params": {…}}, one line. Reply {"result": {…}} or {"error": …, "kind": …}, one line.
Each connection has a thread and each query a cursor; a few run at once, the others wait.
"""

import contextlib
import json
import os
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
