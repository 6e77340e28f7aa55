"""`bat-events fork`: a campaign goes on from a round's report under other settings, in a namespace of its own."""

import hashlib
import shutil
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from bat_events.artifacts import ArtifactStore
from bat_events.cli.common import errors, prepare, running_broker, say, settings_of
from bat_events.domain.canonical import canonical_json
from bat_events.errors import ConfigurationError
from bat_events.log.access import ADMIN
from bat_events.log.topics import check_namespace
from bat_events.service.context import sign_in
from bat_events.settings import Settings


def fork(
    ctx: typer.Context,
    campaign: Annotated[str, typer.Argument(help="the campaign that is forked")],
    at: Annotated[str, typer.Option(help="round:N: copy up to round N's report; its gate decides anew")],
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE, such as gate.mode=reference; see docs/fork.md")
    ] = None,
    into: Annotated[str | None, typer.Option("--namespace", help="the new one; made from --name by default")] = None,
    archive: Annotated[Path | None, typer.Option("--from-archive", help="fork from an archive, not from Kafka")] = None,
    name: Annotated[
        str | None, typer.Option(help="the fork's id is CAMPAIGN~NAME; made from the rest by default")
    ] = None,
    without_cells: Annotated[
        bool,
        typer.Option("--without-cells", help="without held-out cells: reports only, and the gate can promote nothing"),
    ] = False,
) -> None:
    """Begin a new campaign with copies of another one's events, and go on from there under other settings."""
    from bat_events.producers.fork import fork_campaign, fork_id
    from bat_events.producers.imports import Target, parallel_partitions
    from bat_events.replay.archive_format import read_manifest

    with errors():
        settings = settings_of(ctx)
        number, values = _round(at), _values(changes or [])
        name = name or f"r{number}-{hashlib.sha256(canonical_json(values)).hexdigest()[:6]}"
        new = _namespace(into or f"{settings.namespace}-{name}".lower().replace(".", "-").replace("_", "-"))
        fork_id(campaign, name)
        if new == settings.namespace and archive is None:
            raise ConfigurationError(f"a fork needs a namespace of its own, not that of {campaign}: --namespace {new}")
        with running_broker(settings) as address:
            folder = archive or _exported(settings, address, campaign, name, heldout=not without_cells)
            manifest = read_manifest(folder)
            if manifest.campaign != campaign:
                raise ConfigurationError(f"{folder} holds campaign {manifest.campaign}, not {campaign}")
            kafka = settings.kafka.model_copy(update={"partitions": parallel_partitions(manifest)})
            prepare(settings.model_copy(update={"namespace": new, "kafka": kafka}), address)
            target = Target(
                address=sign_in(settings, address, ADMIN),
                namespace=new,
                stores={entry.plane: _store(settings, entry.plane).put for entry in manifest.evidence},
            )
            try:
                result = fork_campaign(
                    folder, target, say, number=number, values=values, name=name, without_cells=without_cells
                )
            finally:  # only a process that is killed leaves it, for the next call to go on from
                if archive is None:
                    shutil.rmtree(folder)
        if result.written == 0:
            say(f"{result.campaign} is on the log of namespace {new} already: nothing was written")
        else:
            said = ", ".join(f"{s.name}: {s.before} -> {s.after}" for s in result.settings) or "no other settings"
            say(
                f"{result.campaign} is on the log of namespace {new}: {result.copies:,} copies up to round {number}; {said}"
            )
        say(f"it goes on with: bat-events --namespace {new} serve")


def _round(text: str) -> int:
    kind, _, number = text.partition(":")
    if kind != "round" or not (number.isascii() and number.isdigit()):
        raise ConfigurationError(f"--at {text!r}: write round:N, such as round:2")
    return int(number)


def _values(texts: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigurationError(f"--set {text!r}: write NAME=VALUE, such as gate.mode=reference")
        try:
            found[name.strip()] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise ConfigurationError(f"--set {text!r}: the value is no YAML") from None
    return found


def _namespace(text: str) -> str:
    try:
        return check_namespace(text)
    except ValueError as error:
        raise ConfigurationError(f"{error}. Name one with --namespace") from None


def _exported(settings: Settings, address: str, campaign: str, name: str, *, heldout: bool) -> Path:
    """An archive of the campaign as it is now, under this home for as long as the fork is being made."""
    from bat_events.replay.archive_format import MANIFEST
    from bat_events.replay.export import ExportOptions, export_campaign
    from bat_events.replay.kafka_log import KafkaExportLog

    folder = settings.home.absolute() / "work" / "forks" / settings.namespace / f"{campaign}~{name}"
    if (folder / MANIFEST).exists():
        say(f"going on with the copy that was begun from {folder}")
        return folder
    hidden = sign_in(settings, address, "heldout-auditor") if heldout else None
    log = KafkaExportLog(sign_in(settings, address, "reader"), settings.namespace, campaign, heldout=hidden)
    try:
        options = ExportOptions(campaign=campaign, namespace=settings.namespace, heldout=heldout)
        export_campaign(log, folder, options, _quiet)
    finally:
        log.close()
    return folder


def _store(settings: Settings, plane: str) -> ArtifactStore:
    home = settings.home.absolute()
    if plane == "heldout":
        return ArtifactStore(settings.heldout_artifact_root(), cache=home / "heldout" / "cache")
    return ArtifactStore(settings.artifact_root(), cache=home / "cache")


def _quiet(_: str) -> None:
    return None
