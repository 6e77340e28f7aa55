"""`bat-events log …`."""

import time
from typing import Annotated

import typer

from bat_events.cli import archive
from bat_events.cli.common import errors, reading, say, settings_of
from bat_events.codec import Fact
from bat_events.errors import DecodeError
from bat_events.log.kafka import KafkaReader
from bat_events.log.topics import BY_NAME, SCHEMA_TOPIC

app = typer.Typer(no_args_is_help=True, help="The log itself.")
app.command("export")(archive.export_command)
app.command("import")(archive.import_command)
app.command("verify")(archive.verify_command)
app.command("prove")(archive.prove_command)

_OPEN = tuple(name for name, spec in BY_NAME.items() if spec.plane != "heldout" and name != SCHEMA_TOPIC)


@app.command()
def tail(
    ctx: typer.Context,
    topic: Annotated[list[str] | None, typer.Option(help="only this topic; may be given several times")] = None,
    campaign: Annotated[str | None, typer.Option(help="only this campaign")] = None,
    number: Annotated[int, typer.Option("-n", help="how many events")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="go on as events come, until Ctrl-C")] = False,
    body: Annotated[bool, typer.Option("--body", help="with bodies, as JSON")] = False,
) -> None:
    """The newest events of the open topics, oldest first."""
    with errors():
        names = topic or list(_OPEN)
        unknown = [name for name in names if name not in BY_NAME]
        if unknown:
            raise typer.BadParameter(f"{', '.join(unknown)}: choose of {', '.join(BY_NAME)}")
        with reading(settings_of(ctx), "reader") as context:
            reader = KafkaReader(
                bootstrap=context.bootstrap, namespace=context.settings.namespace, topics=names, group="tail"
            )
            kept: list[tuple[float, str]] = []
            shown = False
            while True:
                for record in reader.poll(500, 0.2):
                    try:
                        fact = context.codec.decode(record)
                    except DecodeError as error:
                        kept.append((record.timestamp_ms / 1000, f"undecodable: {error}"))
                        continue
                    if campaign in (None, fact.envelope.campaign):
                        kept.append((fact.envelope.time.timestamp(), line(fact, body=body)))
                if reader.caught_up():
                    kept.sort(key=lambda item: item[0])
                    for _, text in kept if shown else kept[-number:]:
                        say(text)
                    kept, shown = [], True
                    if not follow:
                        break
                    time.sleep(0.2)
            reader.close()


def line(fact: Fact, *, body: bool = False) -> str:
    """One event as a line."""
    envelope = fact.envelope
    where = f"{fact.topic}[{fact.partition}]@{fact.offset}"
    number = "" if envelope.round is None else f" round {envelope.round}"
    text = (
        f"{envelope.time:%H:%M:%S} {where:26} {type(fact.event).__name__:24}{number:9} "
        f"{envelope.id[:12]} <- {envelope.cause[:12]} {envelope.logic}"
    )
    if body:
        data = fact.event.model_dump_json(exclude={"prompt_ids", "response_ids", "response_mask", "logprobs"})
        text += f"\n    {data}"
    return text
