"""Puts an archive back on a log: the campaign's records with their ids, order, keys, headers and timestamps.

What is there already is compared record by record, and only what is missing is written: a second import changes nothing,
one that was killed goes on where its last transaction ended. Each transaction holds records of one partition and says on
the topic `import` which offsets they had before. A namespace that holds another campaign is refused. The topic `campaign`
comes last, so a campaign is not seen before it is whole.
"""

from dataclasses import dataclass
from pathlib import Path

from bat_events.errors import LogError
from bat_events.log.admin import list_topics
from bat_events.log.interface import CrashPoint
from bat_events.log.topics import BY_NAME
from bat_events.producers.import_log import ImportLog, Say, Target
from bat_events.replay.archive_evidence import checked, listed
from bat_events.replay.archive_format import Manifest
from bat_events.replay.archive_reader import ArchiveReader
from bat_events.service.runtime import no_crash

__all__ = ["ImportResult", "Target", "import_archive", "parallel_partitions"]


@dataclass(frozen=True, kw_only=True)
class ImportResult:
    """What an import did."""

    campaign: str
    records: int
    written: int
    schemas: int
    artifacts: int


def parallel_partitions(manifest: Manifest) -> int:
    """The partition count of the archive's parallel topics. Raises LogError where they differ."""
    counts = {topic.partitions for topic in manifest.topics if BY_NAME[topic.name].parallel}
    if len(counts) != 1:
        raise LogError(f"the archive's parallel topics have {sorted(counts)} partitions: create the topics by hand")
    return counts.pop()


def import_archive(folder: Path, target: Target, say: Say, *, crash: CrashPoint = no_crash) -> ImportResult:
    """See the module. Raises ArchiveError for a damaged archive; LogError where the namespace does not fit; nothing is
    written before everything that is there was compared.
    """
    archive = ArchiveReader(folder)
    manifest = archive.manifest
    if manifest.only_round is not None:
        raise LogError(f"{folder} holds round {manifest.only_round} only: import a whole campaign")
    check_topics(manifest, target)
    order = sorted(archive.partitions, key=lambda where: (where[0] == "campaign", where))
    with ImportLog(archive, target) as log:
        say("comparing what is there")
        there = {where: log.compare(where) for where in order}
        log.refuse_others()
        log.refuse_foreign_origin(there)
        schemas = log.publish_schemas()
        artifacts = sum(store_evidence(folder, entry.plane, archive, target, say) for entry in manifest.evidence)
        written = 0
        missing = sum(max(0, archive.entry(*where).records - count) for where, count in there.items())
        for number, where in enumerate(order if missing else (), 1):
            label = f"{number}/{len(order)} {where[0]}[{where[1]}]"
            written += log.write(where, there[where], lambda text, label=label: say(f"{label}: {text}"), crash)  # type: ignore[misc]
    say(f"{manifest.campaign}: {written:,} of {manifest.records:,} records written")
    return ImportResult(
        campaign=manifest.campaign,
        records=manifest.records,
        written=written,
        schemas=schemas,
        artifacts=artifacts,
    )


def check_topics(manifest: Manifest, target: Target) -> None:
    """Whether the namespace has the archive's topics, with as many partitions. Raises LogError."""
    there = {state.spec.name: state.partitions for state in list_topics(target.address, target.namespace)}
    for topic in manifest.topics:
        found = there.get(topic.name, 0)
        if found == 0:
            raise LogError(f"topic {target.namespace}.{topic.name} is not there: run `bat-events topics apply`")
        if found != topic.partitions:
            raise LogError(
                f"topic {target.namespace}.{topic.name} has {found} partitions and the archive {topic.partitions}: a key's "
                "partition depends on that. Import into a namespace without topics"
            )


def store_evidence(folder: Path, plane: str, archive: ArchiveReader, target: Target, say: Say) -> int:
    """Put an archive's artefacts of one plane into its store; returns how many. Raises LogError, ArchiveError."""
    entry = next(entry for entry in archive.manifest.evidence if entry.plane == plane)
    put = target.stores.get(plane)
    if put is None:
        raise LogError(f"{folder} holds artefacts of the {plane} plane and no store for them was given")
    count = 0
    for digest, size in listed(folder, entry):
        put(checked(folder, plane, digest, size))
        count += 1
        if count % 500 == 0:
            say(f"{plane} artefacts: {count:,} of {entry.artifacts:,}")
    return count
