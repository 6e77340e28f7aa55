"""`bat-events audit`: questions to the record."""

import shutil
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from bat_events.cli.common import err, errors, local_broker, out, say, settings_of
from bat_events.errors import ConfigurationError
from bat_events.settings import Settings


def audit(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="a named query; see --list")] = None,
    sql: Annotated[str | None, typer.Option(help="a SELECT of your own")] = None,
    list_them: Annotated[bool, typer.Option("--list", help="the named queries and what they tell")] = False,
    param: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for a named query")] = None,
    form: Annotated[str, typer.Option("--format", help="table, csv or json")] = "table",
    heldout: Annotated[bool, typer.Option("--heldout", help="ask the held-out plane's auditor")] = False,
    archive: Annotated[Path | None, typer.Option(help="rebuild: from this archive instead of the log")] = None,
    check: Annotated[bool, typer.Option("--check", help="rebuild: compare only; exit 1 on a difference")] = False,
) -> None:
    """Ask DuckDB about the log: the running auditor answers, or else its file is opened.

    Four names are no SQL: denied_accesses, search (all training-side bytes), boundary (every check of the boundary) and
    rebuild (the file made anew and put in the old one's place). search and boundary end with 1 where held-out content crossed
    and with 3 where something could not be observed.
    """
    import bat_events.audit.boundary as boundary
    import bat_events.audit.denied as denied
    import bat_events.audit.run as run
    import bat_events.audit.search.result as search
    import bat_events.cli.rebuild as rebuild
    from bat_events.audit.places import heldout_home

    with errors():
        settings = settings_of(ctx)
        if list_them or (name is None and sql is None):
            for query in run.list_queries():
                params_text = "".join(f" [{param}]" for param in query.params)
                say(f"{query.name + params_text:34} {query.title}")
            for other in (denied, search, boundary, rebuild):
                say(f"{other.NAME:34} {other.TITLE}")
            return
        if name == rebuild.NAME:
            _rebuild(settings, heldout=heldout, archive=archive, check=check)
        if archive is not None or check:
            raise ConfigurationError("--archive and --check belong to `audit rebuild`")
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
        if name in (search.NAME, boundary.NAME):
            _look_everywhere(settings, name, params, form, heldout=heldout)
        home = heldout_home(settings.home) if heldout else settings.home.absolute()
        result = run.run_query(home, settings.namespace, name=name, sql=sql, params=params)
        print(run.render(result, form, width=None if sys.stdout.isatty() else 160))
        if form == "csv":
            err.print(run.as_of_line(result), highlight=False, markup=False)


def _rebuild(settings: Settings, *, heldout: bool, archive: Path | None, check: bool) -> NoReturn:
    """`audit rebuild`."""
    import bat_events.cli.rebuild as cli

    def tell(line: str) -> None:
        err.print(line, highlight=False, markup=False)

    found = cli.rebuild(settings, heldout=heldout, archive=archive, check=check, say=tell)
    raise typer.Exit(cli.show(found, out))


def _look_everywhere(settings: Settings, name: str, params: dict[str, str], form: str, *, heldout: bool) -> NoReturn:
    """`audit search` and `audit boundary`."""
    import bat_events.cli.boundary as cli
    from bat_events.audit.search.result import FORMATS

    if heldout:
        raise ConfigurationError(f"audit {name} is about the training plane: leave out --heldout")
    if set(params) - {"campaign"}:
        raise ConfigurationError(f"audit {name} has one parameter, campaign")
    if form not in FORMATS:
        raise ConfigurationError(f"--format {form!r}: choose one of {', '.join(FORMATS)}")
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 160

    def tell(line: str) -> None:
        err.print(line, highlight=False, markup=False)

    if name == "boundary":
        report = cli.boundary(settings, params.get("campaign"), tell)
        print(report.render(form, width=width), end="")
        raise typer.Exit(report.exit_code)
    try:
        found = cli.search(settings, params.get("campaign"), tell)
    except cli.NotObservable as error:
        tell(f"not observable: {error}")
        raise typer.Exit(3) from None
    print(found.render(form, width=width), end="")
    raise typer.Exit(1 if found.found else 3 if found.unread else 0)
