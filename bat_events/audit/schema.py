"""The audit file's schema: base tables and views from .sql files, typed tables from the event types.

A file whose tables were made by other definitions is rebuilt from the log; other views are only made anew, with the tables that
are kept of them.
"""

import hashlib
from functools import cache
from importlib import resources

import duckdb

from bat_events.audit.shape import quote, text, typed_tables
from bat_events.events.base import event_types
from bat_events.log.access import PRINCIPALS
from bat_events.log.topics import BY_NAME, TOPICS

KEPT = "kept"
"""The key in `meta` under which stands when the kept tables were made; see audit.kept."""

_FORMAT = 2  # raise when rows come out differently though the tables stay the same


def sql_files(folder: str) -> dict[str, str]:
    """The package's .sql files of a folder by name without suffix, in order of name."""
    root = resources.files("bat_events.audit") / "sql" / folder
    found = {entry.name.removesuffix(".sql"): entry for entry in root.iterdir() if entry.name.endswith(".sql")}
    return {name: found[name].read_text(encoding="utf-8") for name in sorted(found)}


@cache
def tables_ddl() -> str:
    """Everything that holds rows."""
    return "\n".join([*sql_files("tables").values(), *(table.ddl() for table in typed_tables().values())])


@cache
def views_ddl() -> str:
    """Everything that is derived at reading."""
    files = {**{name: _kept(name, sql) for name, sql in kept_files().items()}, **sql_files("views")}
    return "\n".join([_bodies(), _declared(), *(files[name] for name in sorted(files))])


def kept_files() -> dict[str, str]:
    """The SELECTs of sql/kept, by the names of their files."""
    return {file: sql.strip().removesuffix(";") for file, sql in sql_files("kept").items()}


@cache
def kept_selects() -> dict[str, str]:
    """View that has a table beside it (see audit.kept) -> its SELECT, each after those that it reads."""
    return {_after_number(file): sql for file, sql in kept_files().items()}


def _after_number(file: str) -> str:
    return file.partition("_")[2]


def _kept(file: str, select: str) -> str:
    name = _after_number(file)
    return f"CREATE OR REPLACE VIEW {name} AS\n{select};\nCREATE TABLE {name}_kept AS FROM {name} LIMIT 0;"


def _bodies() -> str:
    """A view of every event's body as JSON, made from the typed tables so that nothing is stored twice."""
    parts = []
    for table in typed_tables().values():
        fields = ", ".join(f"{quote(c.name)} := {quote(c.name)}" for c in table.columns[3:])
        body = f"to_json(struct_pack({fields}))" if fields else "'{}'::JSON"
        parts.append(
            f"SELECT id, campaign, time, {text(table.event.type_name())} AS type, {body} AS body FROM {table.name}"
        )
    return f"CREATE OR REPLACE VIEW bodies AS {' UNION ALL '.join(parts)};"


def _declared() -> str:
    """What is declared of topics and types, so that queries can hold the log against it."""
    topics = ", ".join(f"({text(t.name)}, {text(t.writer)}, {text(t.plane)})" for t in TOPICS)
    types = ", ".join(
        f"({text(cls.type_name())}, {text(cls.TOPIC)}, {text(BY_NAME[cls.TOPIC].plane)})" for cls in event_types()
    )
    writers = ", ".join(f"({text(topic)}, {text(p.name)})" for p in PRINCIPALS for topic in p.writes)
    return (
        f"CREATE OR REPLACE VIEW declared_writers AS SELECT * FROM (VALUES {writers}) AS d(topic, writer);\n"
        f"CREATE OR REPLACE VIEW declared_topics AS SELECT * FROM (VALUES {topics}) AS d(topic, writer, plane);\n"
        f"CREATE OR REPLACE VIEW declared_types AS SELECT * FROM (VALUES {types}) AS d(type, topic, plane);"
    )


def tables_digest() -> str:
    """Changes whenever a file must be rebuilt."""
    return hashlib.sha256(f"{_FORMAT}\n{tables_ddl()}".encode()).hexdigest()


def views_digest() -> str:
    """Changes whenever views must be made anew."""
    return hashlib.sha256(views_ddl().encode()).hexdigest()


def create(connection: duckdb.DuckDBPyConnection, namespace: str) -> None:
    """Make tables and views in an empty file, in one transaction."""
    connection.execute("BEGIN TRANSACTION")
    connection.execute(tables_ddl())
    connection.execute(views_ddl())
    connection.execute(
        "INSERT INTO meta VALUES ('format', $format), ('views', $views), ('namespace', $namespace)",
        {"format": tables_digest(), "views": views_digest(), "namespace": namespace},
    )
    connection.execute("COMMIT")


def renew_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Replace all views and the tables that are kept of them by the current ones, in one transaction."""
    names = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    kept = connection.execute("SELECT table_name FROM duckdb_tables() WHERE ends_with(table_name, '_kept')").fetchall()
    connection.execute("BEGIN TRANSACTION")
    for (name,) in names:
        connection.execute(f"DROP VIEW {quote(name)}")
    for (name,) in kept:
        connection.execute(f"DROP TABLE {quote(name)}")
    connection.execute(views_ddl())
    connection.execute("DELETE FROM meta WHERE key = $key", {"key": KEPT})  # they say what the old views said
    connection.execute("UPDATE meta SET value = $digest WHERE key = 'views'", {"digest": views_digest()})
    connection.execute("COMMIT")
