"""`bat-events replay`: every decision again, what happened when, and what other settings would have decided."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as dc_replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bat_events.cli import seals
from bat_events.cli.common import errors, running_broker, settings_of
from bat_events.cli.evidence import score_of
from bat_events.cli.seals import HEADS
from bat_events.errors import ConfigurationError
from bat_events.service.context import sign_in
from bat_events.settings import Settings

if TYPE_CHECKING:
    from bat_events.replay import Source
    from bat_events.replay.heldout import HeldoutLog
    from bat_events.replay.verify import Verification


def replay(
    ctx: typer.Context,
    campaign: Annotated[str | None, typer.Argument(help="a campaign's id; none: the one that the log holds")] = None,
    number: Annotated[int | None, typer.Option("--round", help="only this round's decisions are compared")] = None,
    until: Annotated[
        str | None, typer.Option(help="compare up to a time (2026-05-01T12:00Z) or a cut (JSON, as in bat_cut)")
    ] = None,
    archive: Annotated[Path | None, typer.Option(help="read an archive folder instead of Kafka")] = None,
    timeline: Annotated[bool, typer.Option("--timeline", help="what happened, when, caused by what")] = False,
    single: Annotated[bool, typer.Option("--all", help="with --timeline: also each state and rollout")] = False,
    what_if: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE of gate.mode, gate.max_stage_drop or target_rule: what would it have decided?"),
    ] = None,
    heldout: Annotated[
        bool,
        typer.Option(
            "--heldout", help="reports again from held-out cells, on Kafka too: needs the held-out auditor's user"
        ),
    ] = False,
    log_only: Annotated[
        bool, typer.Option("--log-only", help="leave out what needs evidence or held-out cells, and say so")
    ] = False,
    origin: Annotated[
        Path | None,
        typer.Option(help="of a fork: hold its copies against this archive of the campaign it was forked from"),
    ] = None,
    heads: Annotated[list[Path] | None, typer.Option(help=HEADS)] = None,
    as_data: Annotated[bool, typer.Option("--json", help="as JSON")] = False,
) -> None:
    """Run the deciders again at the recorded cuts, and compute every score again from the evidence that is there.

    The record is held against its seals too, but for --until. Exit 0: all of it, and nothing differs. 1: something differs, or a
    seal is broken. 2: unreadable. 3: nothing differs, and some scores could not be computed again, as listed; --log-only asks
    for no scores.
    """
    import bat_events.replay as replaying

    with errors(), open_source(settings := settings_of(ctx), archive) as whole:
        if timeline and what_if:
            raise ConfigurationError("--timeline and --what-if are two questions: ask one")
        if single and not timeline:
            raise ConfigurationError("--all goes with --timeline")
        if heldout and log_only:
            raise ConfigurationError("--heldout and --log-only exclude each other")
        if what_if and (until or number is not None):
            raise ConfigurationError("--what-if reads the whole campaign: leave out --until and --round")
        source = whole if until is None else replaying.Until(whole, until)
        code = 0
        if timeline:
            found = replaying.timeline(source, campaign=campaign, round=number, single=single)
            text = replaying.timeline_json(found) if as_data else replaying.timeline_table(found)
        elif what_if:
            answer = replaying.what_if(source, _changes(what_if), campaign=campaign)
            text = replaying.what_if_json(answer) if as_data else replaying.what_if_table(answer)
        else:
            result = replaying.replay_campaign(
                source,
                campaign=campaign,
                round=number,
                score_of=None if log_only else score_of(settings, archive),
                log_only=log_only,
            )
            held = None if log_only else _heldout(settings, whole, asked=heldout)
            if held is not None:
                result = replaying.with_heldout(result, source, held)
            if until is None:
                result = dc_replace(
                    result, seals=_seals(settings, whole, archive, result.campaign, heads, heldout=heldout)
                )
            if origin is not None:
                result = replaying.with_origin(result, whole, replaying.ArchiveReader(origin))
            text, code = replaying.to_json(result) if as_data else replaying.render(result), result.exit_code
    print(text, end="" if text.endswith("\n") else "\n")
    raise typer.Exit(code)


def _heldout(settings: Settings, source: "Source", *, asked: bool) -> "HeldoutLog | None":
    """Held-out cells: an archive's that has them, Kafka's where they are asked for."""
    from bat_events.replay import ArchiveSource, KafkaHeldout

    if isinstance(source, ArchiveSource):
        return source if asked or source.holds_heldout else None
    if not asked:
        return None
    with running_broker(settings) as address:
        return KafkaHeldout(sign_in(settings, address, "heldout-auditor"), settings.namespace)


def _seals(
    settings: Settings,
    source: "Source",
    archive: Path | None,
    campaign: str,
    heads: list[Path] | None,
    *,
    heldout: bool,
) -> "Verification | None":
    """The check against the seals; None for an archive of the first format, which says nothing of what lies outside it."""
    from bat_events.replay import ArchiveSource

    if archive is None:
        return seals.of_log(settings, campaign, heads, heldout=heldout)
    return seals.of_archive(archive, heads) if isinstance(source, ArchiveSource) and source.sealed else None


def _changes(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigurationError(f"--what-if {text!r}: write NAME=VALUE, such as gate.mode=reference")
        found[name.strip()] = value.strip()
    return found


@contextmanager
def open_source(settings: Settings, archive: Path | None) -> "Iterator[Source]":
    from bat_events.replay import ArchiveSource, KafkaSource

    if archive is not None:
        yield ArchiveSource(archive)
        return
    with running_broker(settings) as address:
        source = KafkaSource(sign_in(settings, address, "reader"), settings.namespace)
        try:
            yield source
        finally:
            source.close()
