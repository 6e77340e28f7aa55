"""`bat-events audit` and `bat-events replay`: questions to the record."""

import json
from pathlib import Path
from typing import Annotated

import typer

from bat_events.cli.common import errors, reading, say, settings_of
from bat_events.errors import ConfigurationError


def audit(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="a named query; see --list")] = None,
    sql: Annotated[str | None, typer.Option(help="a SELECT of your own")] = None,
    list_them: Annotated[bool, typer.Option("--list", help="the named queries and what they tell")] = False,
    param: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for a named query")] = None,
    form: Annotated[str, typer.Option("--format", help="table, csv or json")] = "table",
) -> None:
    """Ask DuckDB about the log: the running auditor answers, or else its file is opened."""
    from bat_events.audit import run

    with errors():
        settings = settings_of(ctx)
        if list_them or (name is None and sql is None):
            for query in run.list_queries():
                say(f"{query.name:24} {query.title}")
            return
        params = {}
        for text in param or []:
            key, equals, value = text.partition("=")
            if not equals:
                raise ConfigurationError(f"--param {text!r}: write NAME=VALUE")
            params[key] = value
        result = run.run_query(settings.home.absolute(), settings.namespace, name=name, sql=sql, params=params)
        print(run.render(result, form))


def replay(
    ctx: typer.Context,
    campaign: Annotated[str | None, typer.Argument(help="a campaign's id; none means the newest")] = None,
    number: Annotated[int | None, typer.Option("--round", help="only this round's decisions are compared")] = None,
    archive: Annotated[Path | None, typer.Option(help="read an archive folder instead of Kafka")] = None,
    as_data: Annotated[bool, typer.Option("--json", help="as JSON")] = False,
) -> None:
    """Run the deciders again at the recorded cuts. Exit 0 only if every recorded decision is reproduced."""
    from bat_events.replay.replayer import render, replay_campaign, to_json
    from bat_events.replay.source import ArchiveSource, KafkaSource

    with errors():
        settings = settings_of(ctx)
        if archive is not None:
            result = replay_campaign(ArchiveSource(archive), campaign=campaign, round=number)
        else:
            with reading(settings, "replay") as context:
                source = KafkaSource(bootstrap=context.bootstrap, namespace=settings.namespace, campaign=campaign)
                result = replay_campaign(source, campaign=campaign, round=number)
    print(json.dumps(to_json(result), indent=2) if as_data else render(result))
    raise typer.Exit(result.exit_code)
