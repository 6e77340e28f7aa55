"""Every event's id follows from its cause, its cause is on the log, and the topic's one writer wrote it."""

from bat_events.codec import Fact
from bat_events.events.ids import ROOT_CAUSE, event_id
from bat_events.log.topics import BY_NAME, EVERY_SERVICE
from bat_events.replay.differences import Kind
from bat_events.replay.findings import Findings, Side
from bat_events.replay.index import Entry, Index, upgrades

NAME = "ids, causes and writers"


def pinned_versions(started: Fact) -> dict[str, int]:
    """Name -> version of the deciders and workers that the campaign pins."""
    return {part.name: part.version for part in started.event.logic}  # type: ignore[attr-defined]


def check_identity(index: Index, findings: Findings) -> None:
    """Check every event of the campaign that is compared."""
    pinned: dict[str, set[int]] = {name: {version} for name, version in pinned_versions(index.started).items()}
    for upgrade in upgrades(index):
        pinned.setdefault(upgrade.decider, set()).add(upgrade.version)
    for topic in sorted({topic for topic, _ in index.partitions}):
        for entry in index.topic(topic):
            fact = entry.fact
            if fact is not None and entry.judged and findings.wants(fact) and not index.ignores(fact):
                findings.check(NAME, fact, _sides(fact, entry, index, pinned), Kind.ORIGIN)


def _sides(fact: Fact, entry: Entry, index: Index, pinned: dict[str, set[int]]) -> list[Side]:
    envelope = fact.envelope
    made = event_id(
        campaign=envelope.maker, cause=envelope.cause, type_name=fact.event.type_name(), ordinal=envelope.ordinal
    )
    writer, _, version = envelope.logic.partition("/")
    root = envelope.cause == ROOT_CAUSE
    sides: list[Side] = [
        ("ce_id", fact.id, made),
        ("bat_cause", envelope.cause, envelope.cause if root or envelope.cause in index.by_id else "not on the log"),
        ("ce_subject", envelope.subject, entry.key.decode(errors="replace")),
    ]
    if BY_NAME[fact.topic].writer != EVERY_SERVICE:
        sides.append(("bat_logic", writer, BY_NAME[fact.topic].writer))
    if writer in pinned:
        versions = sorted(map(str, pinned[writer]))
        sides.append(("bat_logic", version, version if version in versions else " or ".join(versions)))
    return sides
