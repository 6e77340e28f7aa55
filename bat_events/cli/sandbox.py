"""`bat-events sandbox …`: the image of the container engine, and whether this machine's sandboxes hold."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from bat_events.benchmark.registry import KNOWN, sandbox_extras
from bat_events.cli.common import errors, say, settings_of

app = typer.Typer(no_args_is_help=True, help="Where model-written code runs.")


@app.command()
def build(
    ctx: typer.Context,
    base: Annotated[
        str, typer.Option(help="image to build on; `local`: one made of this machine's files, nothing is pulled")
    ] = "python:3.11-slim-bookworm",
) -> None:
    """Build the sandbox image on the container engine, with the skill library of the built-in benchmark."""
    from bat_events.sandbox.docker.build import build_image
    from bat_events.sandbox.docker.engine import connect

    with errors():
        settings = settings_of(ctx).sandbox
        engine = connect(settings.docker_host)
        paths = [path for name in KNOWN for path in sandbox_extras(name)[0]]
        image = build_image(engine, base=base, libraries=paths, name=settings.image)
        say(f"built {image.name} on the engine at {engine.address}: {image.id}")


@app.command()
def check(ctx: typer.Context) -> None:
    """Attack every limit of the sandboxes that would serve here. Exit 1 when one does not hold."""
    from bat_events.sandbox.selftest import self_test
    from bat_events.service.sandboxes import make_pool

    with errors(), tempfile.TemporaryDirectory(prefix="bat-check-") as root:
        paths, modules, aliases = sandbox_extras(KNOWN[0])
        settings = settings_of(ctx).sandbox.model_copy(update={"prestart": 1})
        with make_pool(
            settings, root=Path(root), readonly_paths=paths, preimports=modules, aliases=aliases, warn=say
        ) as pool:
            found = self_test(pool)
        say(f"isolation: {pool.isolation}")
    for limit in found:
        say(f"{'held' if limit.held else 'NOT HELD'}  {limit.limit}: {limit.detail}")
    if not all(limit.held for limit in found):
        raise typer.Exit(1)
