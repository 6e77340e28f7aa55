"""`bat-events dlq …`: what services could not take further, and what shall become of it."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from bat_events.cli.common import errors, out, reading, say, settings_of
from bat_events.codec import Codec
from bat_events.deciders.dead_letters import Letter
from bat_events.errors import DecodeError
from bat_events.log.interface import Record

if TYPE_CHECKING:
    from bat_events.producers.dead_letters import Plane

app = typer.Typer(no_args_is_help=True, help="Dead letters: records that services could not take further.")

Heldout = Annotated[bool, typer.Option("--heldout", help="the held-out plane's, with that plane's right")]
What = Annotated[
    str, typer.Argument(help="a letter's id, its beginning, or the record's place: topic[partition]@offset")
]
Reason = Annotated[str, typer.Option(help="why, for the record")]

_ASKED = "asked for on the command line"
_SHOWN_BYTES = 256
_HIDDEN = {"prompt_ids", "response_ids", "response_mask", "logprobs"}


@app.command("list")
def show_all(
    ctx: typer.Context,
    heldout: Heldout = False,
    everything: Annotated[bool, typer.Option("--all", help="also those that are settled or discarded")] = False,
    as_data: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """The open dead letters, in the order of service and place."""
    from bat_events.producers.dead_letters import OPERATORS, read_letters

    plane = _plane(heldout)
    with errors(), reading(settings_of(ctx), OPERATORS[plane]) as context:
        fold = read_letters(context, plane)
        letters = fold.all() if everything else fold.open()
    if as_data:
        print(json.dumps([_row(letter) for letter in letters], indent=1))
    elif letters:
        out.print(_table(letters))
    else:
        say("no dead letters" if everything else "no open dead letters")


@app.command()
def show(ctx: typer.Context, what: What, heldout: Heldout = False) -> None:
    """What became of a record, and the record itself, decoded as far as it can be."""
    from bat_events.log.kafka_reader import fetch_record
    from bat_events.producers.dead_letters import OPERATORS, chosen, read_letters

    plane = _plane(heldout)
    with errors(), reading(settings_of(ctx), OPERATORS[plane]) as context:
        letters = chosen(read_letters(context, plane), what)
        for letter in letters:
            say(f"{letter.id} {letter.state.value}: {letter.event.service} on {letter.place}, key {letter.key}")
            for id_, event in letter.history:
                said = event.model_dump_json(exclude={"topic", "partition", "offset", "service"})
                say(f"  {id_[:12]} {type(event).__name__} {said}")
        event = letters[0].event
        where = (event.topic, event.partition)
        record = fetch_record(context.bootstrap, context.settings.namespace, where, event.offset)
        for line in describe(record, context.codec):
            say(line)


@app.command()
def redrive(ctx: typer.Context, what: What, heldout: Heldout = False, reason: Reason = _ASKED) -> None:
    """Let the service try it again, and then what waits behind it, in order."""
    from bat_events.producers import dead_letters

    plane = _plane(heldout)
    with errors(), reading(settings_of(ctx), dead_letters.OPERATORS[plane]) as context:
        for letter in dead_letters.redrive(context, plane, what, reason):
            say(f"{letter.event.service} tries {letter.place} again")


@app.command()
def discard(ctx: typer.Context, what: What, heldout: Heldout = False, reason: Reason = _ASKED) -> None:
    """Never handle it; what waits behind it goes on."""
    from bat_events.producers import dead_letters

    plane = _plane(heldout)
    with errors(), reading(settings_of(ctx), dead_letters.OPERATORS[plane]) as context:
        for letter in dead_letters.discard(context, plane, what, reason):
            say(f"{letter.event.service} leaves {letter.place} out")


def _plane(heldout: bool) -> "Plane":
    return "heldout" if heldout else "training"


def _row(letter: Letter) -> dict[str, Any]:
    event = letter.event
    return {
        "id": letter.id,
        "state": letter.state.value,
        "service": event.service,
        "place": letter.place,
        "key": letter.key,
        "campaign": letter.campaign,
        "cause": event.cause,
        "waits": event.waits,
        "attempts": event.attempts,
        "event": event.event,
        "event_type": event.event_type,
        "value_bytes": event.value_bytes,
        "value_digest": event.value_digest,
        "error": event.error,
    }


def _table(letters: list[Letter]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("id", "state", "service", "place", "key", "cause", "tries", "error"):
        table.add_column(name, justify="right" if name == "tries" else "left", overflow="fold")
    for letter in letters:
        row = _row(letter)
        cause = row["cause"] if row["waits"] else f"{row['cause']} (ignored)"
        table.add_row(
            letter.id[:12],
            row["state"],
            row["service"],
            row["place"],
            row["key"],
            cause,
            str(row["attempts"]),
            row["error"],
        )
    return table


def describe(record: Record, codec: Codec) -> list[str]:
    """A record for people: its headers, its event where it is one, else why not and its first bytes."""
    lines = [
        f"{record.topic}[{record.partition}]@{record.offset}: {record.size:,} bytes, key {_text(record.key)}",
        *(f"  {name}: {_text(raw)}" for name, raw in record.headers),
    ]
    try:
        fact = codec.decode(record)
    except DecodeError as error:
        lines.append(f"is no event: {type(error).__name__}: {error}")
        as_far = codec.glimpse(record)
        if as_far is not None:
            lines.append(f"read without checks by the schema that it names: {as_far}"[:4000])
        shown = record.value[:_SHOWN_BYTES]
        lines += [f"  {at:04x}  {shown[at : at + 16].hex(' ')}" for at in range(0, len(shown), 16)]
    else:
        lines.append(f"is {fact.envelope.type}: {fact.event.model_dump_json(exclude=_HIDDEN)}")
    return lines


def _text(raw: bytes) -> str:
    """Bytes as text that a terminal can be shown."""
    text = raw[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
