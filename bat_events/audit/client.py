"""Asks the running auditor; where none runs, opens its file read-only under the same restrictions."""

import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from bat_events.audit.errors import KINDS, AuditBusy, AuditError, NoAuditFile, QueryFailed
from bat_events.audit.file import first_line, open_read_only
from bat_events.audit.places import audit_path
from bat_events.audit.query import QueryLimits, answer
from bat_events.audit.result import Result
from bat_events.audit.schema import tables_digest, views_digest
from bat_events.audit.server import address, socket_path

_CONNECT_S = 2.0
_BUSY_S = 15.0


def ask(
    home: Path,
    namespace: str,
    sql: str,
    parameters: Mapping[str, str | None],
    limits: QueryLimits | None = None,
    busy_s: float = _BUSY_S,
) -> Result:
    """The answer of the auditor, or of the file. Limits are the auditor's own where it runs.

    Raises NoAuditFile, AuditBusy (the file is held, but nothing answers within `busy_s`), QueryRefused, QueryFailed
    or QueryTimeout.
    """
    limits = limits or QueryLimits()
    deadline = time.monotonic() + busy_s
    while True:
        connection = _connect(socket_path(home, namespace))
        if connection is not None:
            return _ask_server(connection, sql, parameters, limits.seconds)
        try:
            return _ask_file(audit_path(home, namespace), namespace, sql, parameters, limits)
        except AuditBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _connect(path: Path) -> socket.socket | None:
    if not path.parent.is_dir():
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_CONNECT_S)
    try:
        with address(path) as name:
            connection.connect(name)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except OSError as error:
        connection.close()
        raise AuditError(f"the auditor's socket {path} cannot be used: {error}") from error
    return connection


def take_over(home: Path, namespace: str, mark: str, seconds: float) -> bool:
    """Ask the running auditor to take over the rebuilt file with this mark; False where none runs.

    Raises AuditBusy where it does not answer within the time, AuditError where it cannot, or went away.
    """
    connection = _connect(socket_path(home, namespace))
    if connection is None:
        return False
    return bool(_exchange(connection, {"take_over": mark}, seconds)["taken_over"] == mark)


def _ask_server(connection: socket.socket, sql: str, parameters: Mapping[str, str | None], seconds: float) -> Result:
    # the auditor's own limit ends the query; waiting for a slot comes before, and so may one file's taking another's place
    reply = _exchange(connection, {"sql": sql, "params": dict(parameters)}, seconds + 60.0)
    return Result.from_json(reply["result"])


def _exchange(connection: socket.socket, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    with connection:
        connection.settimeout(seconds)
        try:
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as lines:
                line = lines.readline()
        except TimeoutError:
            raise AuditBusy("the auditor does not answer: is it stopped?") from None
        except OSError as error:
            raise AuditError(f"the auditor went away before it answered ({error}): ask again") from error
    if not line.endswith(b"\n"):
        raise AuditError("the auditor went away before it answered: ask again")
    reply: dict[str, Any] = json.loads(line)
    if "error" in reply:
        raise KINDS.get(reply["kind"], AuditError)(reply["error"])
    return reply


def _ask_file(
    path: Path, namespace: str, sql: str, parameters: Mapping[str, str | None], limits: QueryLimits
) -> Result:
    if not path.exists():
        raise NoAuditFile(
            f"nothing is materialised for namespace {namespace} ({path} is not there): run "
            f"`bat-events serve {_auditor_of(path)}`"
        )
    try:
        before = path.stat().st_ino
        connection = open_read_only(path)
    except duckdb.Error as error:
        message = first_line(error)
        if path.stat().st_ino != before:
            raise AuditBusy(f"{path} was replaced while it was opened") from error
        if "Could not set lock" in message or "different configuration" in message:
            raise AuditBusy(f"an auditor holds {path} but does not answer: {message}") from error
        raise AuditError(
            f"{path} cannot be opened: {message}; `bat-events serve {_auditor_of(path)}` rebuilds it"
        ) from error
    try:
        _check(connection, path, namespace)
        return answer(connection, sql, parameters, limits, "file")
    finally:
        connection.close()


def _check(connection: duckdb.DuckDBPyConnection, path: Path, namespace: str) -> None:
    try:
        known = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    except duckdb.Error as error:
        raise QueryFailed(f"{path} has no audit tables: `bat-events serve {_auditor_of(path)}` rebuilds it") from error
    wanted = {"format": tables_digest(), "views": views_digest(), "namespace": namespace}
    wrong = sorted(name for name, value in wanted.items() if known.get(name) != value)
    if wrong:
        raise AuditError(
            f"{path} was made by another version of bat-events ({', '.join(wrong)}): "
            f"start `bat-events serve {_auditor_of(path)}` once, it brings the file up to date"
        )


def _auditor_of(path: Path) -> str:
    """The service that keeps a file."""
    return "heldout-auditor" if path.parent.parent.name == "heldout" else "auditor"
