"""`bat-events log export, import, verify, prove`: a campaign as a folder, and whether it is as it was sealed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from bat_events.artifacts import ArtifactError, ArtifactStore
from bat_events.cli import seals
from bat_events.cli.common import errors, prepare, running_broker, say, settings_of
from bat_events.errors import BatError, ConfigurationError
from bat_events.log.access import ADMIN
from bat_events.service.context import sign_in
from bat_events.settings import Settings

Folder = Annotated[Path, typer.Argument(help="an archive folder")]


def export_command(
    ctx: typer.Context,
    campaign: Annotated[str, typer.Argument(help="a campaign's id")],
    to: Annotated[Path, typer.Option("--to", help="the new folder; one that was begun goes on")],
    number: Annotated[
        int | None, typer.Option("--round", min=0, help="only this round, and what is of no round")
    ] = None,
    with_evidence: Annotated[bool, typer.Option("--with-evidence", help="with the artefacts that events name")] = False,
    heldout: Annotated[
        bool, typer.Option("--heldout", help="with the held-out topics: needs that plane's user")
    ] = False,
) -> None:
    """Write a campaign's log as an archive: Avro files per topic, partition and round, and a manifest."""
    from bat_events.replay.export import ExportOptions, export_campaign
    from bat_events.replay.kafka_log import KafkaExportLog

    with errors():
        settings = settings_of(ctx)
        stores = _stores(settings, heldout=heldout) if with_evidence else {}
        with running_broker(settings) as address:
            hidden = sign_in(settings, address, "heldout-auditor") if heldout else None
            log = KafkaExportLog(sign_in(settings, address, "reader"), settings.namespace, campaign, heldout=hidden)
            try:
                manifest = export_campaign(
                    log,
                    to,
                    ExportOptions(
                        campaign=campaign,
                        namespace=settings.namespace,
                        only_round=number,
                        heldout=heldout,
                        evidence={plane: _fetch(store) for plane, store in stores.items()},
                    ),
                    say,
                )
            finally:
                log.close()
        files = sum(len(part.files) for part in manifest.partitions)
        say(f"{to}: {manifest.records:,} records in {files} files; held-out topics {manifest.heldout}")
        for digest in manifest.schemas_missing:
            say(f"schema {digest} is named by records and not on the log")


def import_command(ctx: typer.Context, folder: Folder) -> None:
    """Put an archive onto the log of this namespace, which may hold nothing else; a second time changes nothing."""
    from bat_events.producers.imports import Target, import_archive, parallel_partitions
    from bat_events.replay.archive_format import read_manifest

    with errors():
        settings = settings_of(ctx)
        manifest = read_manifest(folder)
        kafka = settings.kafka.model_copy(update={"partitions": parallel_partitions(manifest)})
        with running_broker(settings) as address:
            prepare(settings.model_copy(update={"kafka": kafka}), address)
            stores = _stores(settings, heldout=any(entry.plane == "heldout" for entry in manifest.evidence))
            target = Target(
                address=sign_in(settings, address, ADMIN),
                namespace=settings.namespace,
                stores={plane: store.put for plane, store in stores.items()},
            )
            result = import_archive(folder, target, say)
        say(
            f"campaign {result.campaign} in namespace {settings.namespace}: {result.written:,} of {result.records:,} records, "
            f"{result.schemas} schemas and {result.artifacts:,} artefacts written"
        )


def verify_command(
    ctx: typer.Context,
    campaign: Annotated[str | None, typer.Argument(help="a campaign's id; left out with --archive")] = None,
    archive: Annotated[Path | None, typer.Option(help="check an archive folder instead of Kafka")] = None,
    heads: Annotated[list[Path] | None, typer.Option(help=seals.HEADS)] = None,
    heldout: Annotated[bool, typer.Option("--heldout", help="the held-out plane's seals too (on Kafka)")] = False,
) -> None:
    """Check a campaign against its seals. Exit 0 only if nothing differs; names the first event that does."""

    with errors():
        if (campaign is None) == (archive is None):
            raise ConfigurationError("name a campaign, or an archive with --archive FOLDER")
        settings = settings_of(ctx)
        if archive is not None:
            found = seals.of_archive(archive, heads)
        else:
            assert campaign is not None
            found = seals.of_log(settings, campaign, heads, heldout=heldout)
    for plane in found.planes:
        outside = (
            "held against the heads kept outside" if plane.heads_checked else "not held against heads kept outside"
        )
        head = f", head {plane.head[:16]}…" if plane.head else ""
        say(
            f"{plane.plane}: {plane.seals} seals over {plane.sealed:,} records, {plane.unsealed:,} unsealed; {outside}{head}"
        )
    for note in found.notes:
        say(note)
    for finding in found.findings:
        say(finding.line())
    say(f"{found.name}: {'as it was sealed' if found.ok else 'NOT as it was sealed'}")
    raise typer.Exit(0 if found.ok else 1)


def prove_command(
    event: Annotated[str | None, typer.Argument(help="an event's id (32 hex digits)")] = None,
    archive: Annotated[Path | None, typer.Option(help="the archive that holds it")] = None,
    check: Annotated[Path | None, typer.Option(help="check this proof instead of making one")] = None,
    heads: Annotated[list[Path] | None, typer.Option(help=seals.HEADS)] = None,
) -> None:
    """Write a proof that an event stood on a sealed log (JSON, to standard output), or check one, offline."""
    from bat_events.replay.proofs import check_proof, parse_proof, prove

    with errors():
        if check is not None:
            kept = seals.read_all(heads)
            if kept is None:
                raise ConfigurationError("a proof is checked against --heads FILE: without it anybody can make one")
            try:
                proof = parse_proof(check.read_bytes())
            except FileNotFoundError:
                raise ConfigurationError(f"{check} is not there") from None
            fault = check_proof(proof, kept)
            if fault is None:
                when = "the campaign's end" if proof.round is None else f"round {proof.round}"
                say(
                    f"event {proof.event} stood at {proof.topic}[{proof.partition}] event {proof.ordinal} of campaign "
                    f"{proof.campaign} when {when} was sealed"
                )
            else:
                say(f"the proof does not hold: {fault}")
            raise typer.Exit(0 if fault is None else 1)
        if event is None or archive is None:
            raise ConfigurationError("give an event's id and --archive FOLDER, or --check PROOF and --heads FILE")
        made = prove(archive, event)
    print(json.dumps(made.model_dump(mode="json"), indent=1))


def _stores(settings: Settings, *, heldout: bool) -> dict[str, ArtifactStore]:
    home = settings.home.absolute()
    stores = {"training": ArtifactStore(settings.artifact_root(), cache=home / "cache")}
    if heldout:
        stores["heldout"] = ArtifactStore(settings.heldout_artifact_root(), cache=home / "heldout" / "cache")
    return stores


def _fetch(store: ArtifactStore) -> Callable[[str], bytes | None]:
    def fetch(digest: str) -> bytes | None:
        if not store.has(digest):
            return None
        try:
            return store.get(digest)
        except ArtifactError as error:
            raise BatError(str(error)) from None

    return fetch
