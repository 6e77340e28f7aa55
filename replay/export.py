"""A campaign's log -> an archive of the second format (docs/archive.md). Reads and writes files; it cannot produce.

An export goes partition by partition. What was read so far is kept under `.export` in the folder, so one that was killed goes
on: finished partitions stay, the one at hand is done again, and the ends stay those of the first try. The manifest is
written last. The same log, ends and options give the same bytes (with the same version of the compression library).
"""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from bat_events import __version__
from bat_events.codec import Codec
from bat_events.domain.canonical import canonical_json
from bat_events.errors import DecodeError
from bat_events.events.seals import HeldoutRoundSealed
from bat_events.log.belonging import belongs
from bat_events.log.interface import Partition, Record
from bat_events.log.topics import BY_NAME
from bat_events.replay.archive_evidence import Fetch, write_evidence
from bat_events.replay.archive_format import (
    FORMAT,
    MANIFEST,
    NOT_ARCHIVED,
    SCHEMAS,
    SEAL_TOPICS,
    VERSION,
    ArchiveError,
    EvidenceEntry,
    Manifest,
    Other,
    PartitionEntry,
    TopicEntry,
    rounds_in,
)
from bat_events.replay.archive_writer import PartitionWriter, write_whole

STATE = ".export"
_PLAN = "plan.json"
_PROGRESS_RECORDS = 20_000


class ExportLog(Protocol):
    """What an export reads. Offsets of a campaign that was imported are those of the log that it came from."""

    def ends(self) -> Mapping[Partition, tuple[int, int]]:
        """Per partition of the archived topics: the end of what replay compares, and the end of what is read."""
        ...

    def read(self, where: Partition, end: int) -> Iterator[Record | Other]:
        """A partition's records before `end`, in order. Raises LogError."""
        ...

    def schemas(self) -> Mapping[str, bytes]:
        """Digest -> text of every schema on the log."""
        ...


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """What is exported."""

    campaign: str
    namespace: str
    only_round: int | None = None
    heldout: bool = False
    evidence: Mapping[str, Fetch] = field(default_factory=dict)
    """Plane -> how an artefact is got from its store; empty: no artefacts."""


class _Plan(BaseModel):
    """What the first try of an export fixed."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")
    campaign: str
    namespace: str
    only_round: int | None
    heldout: bool
    evidence: list[str]
    package_version: str
    ends: dict[str, dict[str, list[int]]]


class _Done(BaseModel):
    """A finished partition."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")
    entry: PartitionEntry
    schemas: list[str]


Say = Callable[[str], None]


def archived_topics(*, heldout: bool) -> tuple[str, ...]:
    """The topics of a campaign's archive."""
    return tuple(
        name for name, spec in BY_NAME.items() if name not in NOT_ARCHIVED and (heldout or spec.plane != "heldout")
    )


def export_campaign(log: ExportLog, folder: Path, options: ExportOptions, say: Say) -> Manifest:
    """Write the archive, or go on with one that was begun; `say` is told of progress.

    Raises ArchiveError where the folder holds something else, an archive already, or an export with other options;
    LogError where the log cannot be read or the campaign is not on it.
    """
    plan = _begin(log, folder, options, say)
    done: list[_Done] = []
    places = [(topic, int(p)) for topic, parts in sorted(plan.ends.items()) for p in sorted(parts, key=int)]
    for number, where in enumerate(places, 1):
        kept = _kept(folder, where)
        if kept is None:
            kept = _export(log, folder, where, plan, lambda text, n=number: say(f"{n}/{len(places)} {text}"))  # type: ignore[misc]
        done.append(kept)
    if not any(part.entry.topic == "campaign" and part.entry.records for part in done):
        shutil.rmtree(folder)
        raise ArchiveError(f"campaign {options.campaign} is not in namespace {options.namespace}: nothing was exported")
    schemas, missing = _write_schemas(log, folder, done)
    entries = [part.entry for part in done]
    evidence = _evidence(folder, entries, schemas, options, say)
    manifest = _manifest(plan, entries, schemas, missing, evidence)
    text = json.dumps(manifest.model_dump(mode="json"), indent=1, sort_keys=True) + "\n"
    write_whole(folder / MANIFEST, text.encode())
    shutil.rmtree(folder / STATE)
    return manifest


def _begin(log: ExportLog, folder: Path, options: ExportOptions, say: Say) -> _Plan:
    path = folder / STATE / _PLAN
    if (folder / MANIFEST).exists():
        raise ArchiveError(f"{folder} holds an archive already: it is never overwritten")
    wanted = {
        "campaign": options.campaign,
        "namespace": options.namespace,
        "only_round": options.only_round,
        "heldout": options.heldout,
        "evidence": sorted(options.evidence),
        "package_version": __version__,
    }
    if path.exists():
        try:
            plan = _Plan.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise ArchiveError(
                f"{path} is no plan of an export ({error.errors()[0]['msg']}): remove {folder}"
            ) from None
        begun = plan.model_dump(exclude={"ends"})
        other = [name for name, value in wanted.items() if begun[name] != value]
        if other:
            raise ArchiveError(
                f"{folder} holds an export that was begun with another {other[0]} ({begun[other[0]]!r}, now "
                f"{wanted[other[0]]!r}): choose another folder, or remove it"
            )
        say(f"going on with the export that was begun in {folder}")
        return plan
    if folder.exists() and any(folder.iterdir()):
        raise ArchiveError(f"{folder} is not empty and no export that was begun: choose another folder")
    ends: dict[str, dict[str, list[int]]] = {}
    for (topic, partition), pair in sorted(log.ends().items()):
        ends.setdefault(topic, {})[str(partition)] = list(pair)
    plan = _Plan.model_validate({**wanted, "ends": ends})
    write_whole(path, canonical_json(plan.model_dump(mode="json")))
    return plan


def _kept(folder: Path, where: Partition) -> _Done | None:
    path = folder / STATE / f"{where[0]}-{where[1]}.json"
    return _Done.model_validate_json(path.read_bytes()) if path.exists() else None


def _export(log: ExportLog, folder: Path, where: Partition, plan: _Plan, say: Say) -> _Done:
    topic, partition = where
    judged, end = plan.ends[topic][str(partition)]
    salt = _salt(log, plan) if BY_NAME[topic].plane == "heldout" else b""
    only = None if topic in SEAL_TOPICS else plan.only_round
    writer = PartitionWriter(folder, topic, partition, plan.campaign, only_round=only, salt=salt)
    for read, record in enumerate(log.read(where, end), 1):
        writer.add(record)
        if read % _PROGRESS_RECORDS == 0:
            say(f"{topic}[{partition}]: {read:,} records read, to offset {record.offset:,} of {end:,}")
    done = _Done(entry=writer.finish(judged=judged), schemas=sorted(writer.schemas))
    write_whole(folder / STATE / f"{topic}-{partition}.json", done.model_dump_json().encode())
    say(f"{topic}[{partition}]: {writer.records:,} records in {len(done.entry.files)} files")
    return done


def _salt(log: ExportLog, plan: _Plan) -> bytes:
    """The salt of the campaign's held-out seals; none where it was not sealed."""
    codec = Codec()
    topic = HeldoutRoundSealed.TOPIC
    for record in log.read((topic, 0), plan.ends[topic]["0"][1]):
        if isinstance(record, Record) and belongs(record.headers, plan.campaign.encode()):
            with contextlib.suppress(DecodeError):
                event = codec.decode(record).event
                return bytes.fromhex(event.salt) if isinstance(event, HeldoutRoundSealed) else b""
    return b""


def _write_schemas(log: ExportLog, folder: Path, done: list[_Done]) -> tuple[list[str], list[str]]:
    """The schemas that the records name; those that are not on the log are listed apart."""
    named = sorted({digest for part in done for digest in part.schemas})
    known = log.schemas()
    there = [digest for digest in named if digest in known]
    for digest in there:
        write_whole(folder / SCHEMAS / f"{digest}.avsc", canonical_json(json.loads(known[digest])))
    return there, [digest for digest in named if digest not in known]


def _evidence(
    folder: Path, entries: list[PartitionEntry], schemas: list[str], options: ExportOptions, say: Say
) -> list[EvidenceEntry]:
    texts = [(folder / SCHEMAS / f"{digest}.avsc").read_bytes() for digest in schemas]
    return [
        write_evidence(folder, entries, texts, plane, fetch, say) for plane, fetch in sorted(options.evidence.items())
    ]


def _manifest(
    plan: _Plan, entries: list[PartitionEntry], schemas: list[str], missing: list[str], evidence: list[EvidenceEntry]
) -> Manifest:
    counts: dict[str, int] = {}
    for part in entries:
        counts[part.topic] = counts.get(part.topic, 0) + 1
    topics = [
        TopicEntry(
            name=name,
            partitions=count,
            writer=BY_NAME[name].writer,
            plane=BY_NAME[name].plane,
            parallel=BY_NAME[name].parallel,
        )
        for name, count in sorted(counts.items())
    ]
    data: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "campaign": plan.campaign,
        "namespace": plan.namespace,
        "only_round": plan.only_round,
        "rounds": rounds_in(entries),
        "heldout": "included" if plan.heldout else "not included",
        "records": sum(part.records for part in entries),
        "topics": topics,
        "partitions": entries,
        "schemas": schemas,
        "schemas_missing": missing,
        "evidence": evidence,
        "package_version": plan.package_version,
        "sha256": hashlib.sha256(b"").hexdigest(),
    }
    return Manifest.model_validate({**data, "sha256": Manifest.model_validate(data).digest()})
