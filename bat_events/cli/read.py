"""`bat-events audit`: questions to the record."""

import sys
from typing import Annotated

import typer

from bat_events.cli.common import err, errors, local_broker, say, settings_of
from bat_events.errors import ConfigurationError


def audit(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="a named query; see --list")] = None,
    sql: Annotated[str | None, typer.Option(help="a SELECT of your own")] = None,
    list_them: Annotated[bool, typer.Option("--list", help="the named queries and what they tell")] = False,
    param: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for a named query")] = None,
    form: Annotated[str, typer.Option("--format", help="table, csv or json")] = "table",
    heldout: Annotated[bool, typer.Option("--heldout", help="ask the held-out plane's auditor")] = False,
) -> None:
    """Ask DuckDB about the log: the running auditor answers, or else its file is opened."""
    import bat_events.audit.denied as denied
    import bat_events.audit.run as run
    from bat_events.audit.file import heldout_home

    with errors():
        settings = settings_of(ctx)
        if list_them or (name is None and sql is None):
            for query in run.list_queries():
                params_text = "".join(f" [{param}]" for param in query.params)
                say(f"{query.name + params_text:34} {query.title}")
            say(f"{denied.NAME:34} {denied.TITLE}")
            return
        if name in (denied.NAME, "denied"):
            found = denied.look(local_broker(settings), settings.bootstrap)
            print(found.render(form), end="")
            return
        params = {}
        for text in param or []:
            key, equals, value = text.partition("=")
            if not equals:
                raise ConfigurationError(f"--param {text!r}: write NAME=VALUE")
            params[key] = value
        if form not in run.FORMATS:
            raise ConfigurationError(f"--format {form!r}: choose one of {', '.join(run.FORMATS)}")
        home = heldout_home(settings.home) if heldout else settings.home.absolute()
        result = run.run_query(home, settings.namespace, name=name, sql=sql, params=params)
        print(run.render(result, form, width=None if sys.stdout.isatty() else 160))
        if form == "csv":
            err.print(run.as_of_line(result), highlight=False, markup=False)
