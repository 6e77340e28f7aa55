"""`bat-events audit rebuild`: the audit file made anew from the log or from an archive."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bat_events.artifacts import ArtifactStore
from bat_events.audit.errors import AuditError, NoAuditFile
from bat_events.audit.evidence import ReadArtefact
from bat_events.audit.materialiser import AUDITED, HELDOUT_AUDITED, Materialiser
from bat_events.audit.places import audit_path, heldout_home
from bat_events.audit.rebuild import ArchiveRecords, KafkaRecords, Rebuilder, Rebuilt, RecordSource
from bat_events.audit.run import run_query
from bat_events.audit.server import socket_path
from bat_events.cli.common import bootstrap
from bat_events.codec import Codec
from bat_events.log.admin import learn_schemas
from bat_events.replay.archive_format import ARTIFACTS
from bat_events.service.context import sign_in
from bat_events.service.runtime import SystemClock
from bat_events.settings import Settings

NAME = "rebuild"
TITLE = "the audit file made anew from the log (or --archive), compared with the live one, and put in its place"


def rebuild(
    settings: Settings, *, heldout: bool, archive: Path | None, check: bool, say: Callable[[str], None]
) -> Rebuilt:
    """Rebuild or check a namespace's audit file. Raises AuditError, LogError or ArchiveError."""
    home = heldout_home(settings.home) if heldout else settings.home.absolute()
    topics = HELDOUT_AUDITED if heldout else AUDITED
    codec = Codec()
    relearn: Callable[[], None] | None = None
    source: RecordSource
    if archive is None:
        address = sign_in(settings, bootstrap(settings, start=False), "heldout-auditor" if heldout else "auditor")

        def learn() -> None:
            learn_schemas(codec, address, settings.namespace)

        learn()
        relearn = learn
        source = KafkaRecords(address, settings.namespace, topics)
    else:
        source = archived = ArchiveRecords(archive, topics)
        for schema in archived.reader.schemas():
            codec.learn(schema)
        _check_archive(archived, home, settings.namespace, replaces=not check)
    materialiser = Materialiser(
        codec=codec,
        now=SystemClock().now,
        relearn=relearn,
        artefact=None if heldout else _artefacts(settings, archive),
    )
    rebuilder = Rebuilder(home=home, namespace=settings.namespace, source=source, materialiser=materialiser, say=say)
    try:
        return rebuilder.run(check_only=check)
    finally:
        source.close()


def _artefacts(settings: Settings, archive: Path | None) -> ReadArtefact:
    """The archive's own artefacts where it has some, else this home's store."""
    own = None if archive is None else archive / ARTIFACTS["training"]
    root = str(own.absolute()) if own is not None and own.is_dir() else settings.artifact_root()
    return ArtifactStore(root, cache=settings.home.absolute() / "cache").get


def _check_archive(archived: ArchiveRecords, home: Path, namespace: str, *, replaces: bool) -> None:
    """Raises AuditError where a file made from this archive would take the place of one that knows more."""
    if not replaces or not audit_path(home, namespace).exists():
        return
    hint = "use another --namespace for the archive, or --check to compare only"
    if socket_path(home, namespace).exists():
        raise AuditError(f"an auditor keeps namespace {namespace} from its log: {hint}")
    try:
        rows = run_query(home, namespace, sql='SELECT topic, "partition", next_offset FROM offsets').rows
    except (NoAuditFile, AuditError):
        return  # what cannot be read has nothing to lose
    more = [f"{t}[{n}]" for t, n, offset in rows if offset > archived.ends.get((t, n), 0)]
    if more or not archived.whole:
        what = f"knows more of {', '.join(more[:3])}" if more else "may know other campaigns, which it has not"
        raise AuditError(f"the live file of namespace {namespace} {what} than {archived.name}: {hint}")


def show(found: Rebuilt, out: Console) -> int:
    """Print what was found; returns the exit code: 1 where a check found a difference."""
    if found.comparison is not None:
        _tables(found, out)
    tell = _teller(out)
    for fault in found.faults:
        tell(f"the live file contradicts itself or the log: {fault}")
    if found.comparison is None:
        tell(f"nothing was compared: {found.uncompared}")
    else:
        records = sum(found.comparison.cut.values())
        equal = len(found.comparison.tables) - len(found.comparison.different)
        tell(
            f"{equal} of {len(found.comparison.tables)} tables hold the same up to {records:,} offsets of "
            f"{len(found.comparison.cut)} partitions; digest {found.comparison.digest()}"
        )
    if found.placed_by is not None:
        who = "the running auditor took it over" if found.placed_by == "auditor" else "no auditor runs"
        healed = "" if found.same or found.comparison is None else "; what differed is mended"
        tell(f"the new file is in place ({who}){healed}")
        return 0
    return 0 if found.same else 1


def _teller(out: Console) -> Callable[[str], None]:
    return lambda line: out.print(line, highlight=False, markup=False)


def _tables(found: Rebuilt, out: Console) -> None:
    assert found.comparison is not None
    table = Table(box=None)
    for head in ("table", "rows live", "rows new", "digest", "first difference"):
        table.add_column(head, justify="right" if head.startswith("rows") else "left", no_wrap=True)
    for row in found.comparison.tables:
        if row.rows_new or not row.equal:
            live = "-" if row.rows_live is None else f"{row.rows_live:,}"
            where = "" if row.equal else row.first or "content"
            table.add_row(row.table, live, f"{row.rows_new:,}", row.digest_new[:16], where)
    out.print(table)
