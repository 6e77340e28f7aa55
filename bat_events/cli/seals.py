"""The check of a campaign against its seals, as `log verify` and `replay` ask for it."""

from pathlib import Path
from typing import TYPE_CHECKING

from bat_events.cli.common import running_broker
from bat_events.log.heads import Head, heads_path, read_heads
from bat_events.service.context import sign_in
from bat_events.settings import Settings

if TYPE_CHECKING:
    from bat_events.replay.verify import Verification

HEADS = "the heads of seals that were kept outside the broker (BAT_HOME/seals/NAMESPACE.jsonl)"


def of_archive(folder: Path, heads: list[Path] | None) -> "Verification":
    """An archive against its seals and against heads kept elsewhere. Raises ArchiveError for another format."""
    from bat_events.replay.verify_archive import verify_archive

    return verify_archive(folder, read_all(heads), _silent)


def of_log(settings: Settings, campaign: str, heads: list[Path] | None, *, heldout: bool) -> "Verification":
    """A campaign on Kafka against its seals, and against the heads of this home where no others are given.

    Raises LogError where the log cannot be read.
    """
    from bat_events.replay.kafka_log import KafkaExportLog
    from bat_events.replay.verify import verify
    from bat_events.replay.verify_kafka import KafkaSealedLog

    kept = read_all(heads) if heads else own_heads(settings, heldout=heldout)
    with running_broker(settings) as address:
        hidden = sign_in(settings, address, "heldout-auditor") if heldout else None
        log = KafkaExportLog(sign_in(settings, address, "reader"), settings.namespace, campaign, heldout=hidden)
        try:
            sealed = KafkaSealedLog(log, settings.namespace, campaign, heads=heads_files(settings))
            return verify(sealed, kept, _silent)
        finally:
            log.close()


def read_all(paths: list[Path] | None) -> list[Head] | None:
    """The heads of some files; None where none are given."""
    return [head for path in paths for head in read_heads(path)] if paths else None


def heads_files(settings: Settings) -> dict[str, Path]:
    """Plane -> where its notary writes the heads."""
    home, namespace = settings.home.absolute(), settings.namespace
    return {
        "training": heads_path(home, namespace, heldout=False),
        "heldout": heads_path(home, namespace, heldout=True),
    }


def own_heads(settings: Settings, *, heldout: bool) -> list[Head] | None:
    """The heads of this home, where its notaries ran."""
    paths = [path for plane, path in heads_files(settings).items() if heldout or plane == "training"]
    return [head for path in paths if path.exists() for head in read_heads(path)] or None


def _silent(_: str) -> None:
    return None
