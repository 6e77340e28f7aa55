"""What `bat-events audit` is made of: the named queries, and one call that answers.

A named query is a file: its first line is a title; the comment lines after it say what a reviewer may conclude and what
not; `-- param NAME: …` lines describe its parameters. Every parameter is bound, never pasted in, and may be left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bat_events.audit.client import ask
from bat_events.audit.errors import QueryRefused
from bat_events.audit.query import QueryLimits, parameters_of
from bat_events.audit.render import FORMATS, as_of_line, render
from bat_events.audit.result import Result
from bat_events.audit.schema import sql_files

_PARAM = "param "


@dataclass(frozen=True, kw_only=True)
class NamedQuery:
    """One question and its SQL. `params` maps a parameter to what it means."""

    name: str
    title: str
    about: str
    params: Mapping[str, str]
    sql: str


@cache
def _named() -> Mapping[str, NamedQuery]:
    return {name: _parse(name, sql) for name, sql in sql_files("queries").items()}


def _parse(name: str, sql: str) -> NamedQuery:
    comments = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        comments.append(line.removeprefix("--").strip())
    described = dict(part.removeprefix(_PARAM).split(": ", 1) for part in comments if part.startswith(_PARAM))
    about = " ".join(part for part in comments[1:] if not part.startswith(_PARAM))
    if not comments or not about or set(described) != parameters_of(sql):
        raise ValueError(
            f"query {name}: title, about and its parameters {sorted(parameters_of(sql))} must be described"
        )
    return NamedQuery(name=name, title=comments[0], about=about, params=described, sql=sql)


def list_queries() -> list[NamedQuery]:
    """The named queries, in order of name."""
    return list(_named().values())


def run_query(
    home: Path,
    namespace: str,
    *,
    name: str | None = None,
    sql: str | None = None,
    params: Mapping[str, str] | None = None,
    limits: QueryLimits | None = None,
) -> Result:
    """Answer a named query or a SELECT.

    Raises QueryRefused (unknown name or parameter, not one SELECT), NoAuditFile, AuditBusy, QueryFailed, QueryTimeout.
    """
    given = dict(params or {})
    if (name is None) == (sql is None):
        raise QueryRefused("give the name of a query or --sql, one of the two")
    if name is not None:
        if name not in _named():
            raise QueryRefused(f"query {name!r} is unknown: choose of {', '.join(_named())}")
        sql = _named()[name].sql
    assert sql is not None
    wanted = parameters_of(sql)
    unknown = sorted(set(given) - wanted)
    if unknown:
        known = ", ".join(sorted(wanted)) or "none"
        raise QueryRefused(f"parameter {', '.join(unknown)} is unknown to this query; it has: {known}")
    bound: dict[str, str | None] = {parameter: given.get(parameter) for parameter in sorted(wanted)}
    return ask(home, namespace, sql, bound, limits)


__all__ = ["FORMATS", "NamedQuery", "Result", "as_of_line", "list_queries", "render", "run_query"]
