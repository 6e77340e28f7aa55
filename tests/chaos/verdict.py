"""What a stormy run must have in common with an undisturbed one, and what may stand nowhere in it."""

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from bat_events.audit.file import open_read_only
from bat_events.audit.places import audit_path, heldout_home
from bat_events.codec import Fact
from bat_events.events.dead_letters import DeadLettered
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted, RolloutFailed
from bat_events.events.rounds import GroupRequested
from bat_events.events.training import TrainingStepCompleted
from bat_events.log.topics import BY_NAME
from bat_events.replay import KafkaSource, render, replay_campaign
from tests.e2e.commands import SEAL_TOPICS, Home, Identity, identities

_SEALS = ("RoundSealed", "HeldoutRoundSealed")
# Circumstances of a run, in no comparison: times, offsets, costs. A seal hashes them.
_AUDITED = {
    "events": "SELECT id, type, version, topic, campaign, round, cause, ordinal, logic, "
    f"if(type IN {_SEALS}, '', body_digest) AS body_digest, schema_digest, id_follows FROM events",
    "bodies": f"SELECT id, type, body::VARCHAR AS body FROM bodies WHERE type NOT IN {_SEALS}",
    "receipts": "SELECT * FROM receipts",
    "rollout_evidence": "SELECT * FROM rollout_evidence",
    "crossings": f"SELECT id, type, place, path, kind, n, permitted FROM crossings WHERE type NOT IN {_SEALS}",
    "duplicates": "SELECT * FROM duplicates",
    "undecodable": "SELECT * FROM undecodable",
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A run's end: what was committed, what the audits hold, what replay said."""

    facts: Sequence[Fact]
    identities: Identity
    audits: dict[str, str]
    """Plane and table -> digest of its rows in order, with their count."""
    replay: str

    @property
    def digest(self) -> str:
        """Of everything that is compared."""
        return _digest([sorted(self.identities.items()), sorted(self.audits.items())])


def outcome(home: Home) -> Outcome:
    """Read a run whose services have ended."""
    facts = home.facts()
    audits = {
        f"{plane}.{name}": rows
        for plane, folder in (("training", home.path), ("heldout", heldout_home(home.path)))
        for name, rows in _tables(folder, home.namespace)
    }
    source = KafkaSource(home.kafka.login("reader", home.namespace), home.namespace)
    try:
        replayed = replay_campaign(source, log_only=True)  # cells and rewards are compared with the other run
    finally:
        source.close()
    replay = "reproduced" if replayed.exit_code == 0 else f"exit {replayed.exit_code}: {render(replayed)[-1500:]}"
    return Outcome(facts=facts, identities=identities(list(facts)), audits=audits, replay=replay)


def _tables(folder: Any, namespace: str) -> Iterator[tuple[str, str]]:
    with contextlib.closing(open_read_only(audit_path(folder, namespace))) as file:
        for name, query in _AUDITED.items():
            rows = sorted(map(repr, _rows(file, query)))
            yield name, f"{len(rows)} rows {_digest(rows)[:16]}"


def _rows(file: duckdb.DuckDBPyConnection, query: str) -> list[Any]:
    return file.execute(query).fetchall()


def faults(calm: Outcome, stormy: Outcome) -> list[str]:
    """What was lost, came twice or differs, a line each; empty where nothing did."""
    found = []
    lost = calm.identities.keys() - stormy.identities.keys()
    more = stormy.identities.keys() - calm.identities.keys()
    other = [i for i in calm.identities.keys() & stormy.identities.keys() if calm.identities[i] != stormy.identities[i]]
    for what, ids in (("lost", lost), ("not in the undisturbed run", more), ("other than undisturbed", other)):
        if ids:
            kinds = Counter((calm.identities.get(i) or stormy.identities[i])[0] for i in ids)
            found.append(f"{len(ids)} events {what}: {dict(kinds)}, such as {sorted(ids)[0]}")
    found += [f"audit, {name}: {stormy.audits.get(name)} instead of {rows}" for name, rows in calm.audits.items()
              if stormy.audits.get(name) != rows]  # fmt: skip
    return found + _own_faults("undisturbed run", calm) + _own_faults("stormy run", stormy)


def _own_faults(name: str, run: Outcome) -> list[str]:
    """What must hold of one run by itself."""
    found = []
    twice = [i for i, n in Counter(fact.id for fact in run.facts).items() if n > 1]
    if twice:
        found.append(f"{len(twice)} events were committed twice, such as {run.identities[twice[0]][0]} {twice[0]}")
    letters = [f.event for f in run.facts if isinstance(f.event, DeadLettered)]
    found += [f"dead letter of {e.service} about {e.topic}[{e.partition}]@{e.offset}: {e.error}" for e in letters[:3]]
    asked = Counter(f.event.group for f in run.facts if isinstance(f.event, GroupRequested))
    trained = Counter(g.group for f in run.facts if isinstance(f.event, TrainingStepCompleted) for g in f.event.groups)
    if trained != asked:
        found.append(f"groups asked for and trained differ: {len(asked)} and {len(trained)}, {asked - trained}")
    rolled = Counter(f.event.rollout for f in run.facts if isinstance(f.event, RolloutCompleted | RolloutFailed))
    judged = Counter(f.event.rollout for f in run.facts if isinstance(f.event, RewardScored | RewardWithheld))
    if set(rolled.values()) != {1} or rolled.keys() != judged.keys() or set(judged.values()) != {1}:
        found.append(f"{len(rolled)} rollouts and {len(judged)} judgements are not one for one")
    open_events = sum(1 for fact in run.facts if BY_NAME[fact.topic].plane != "heldout")
    if not run.audits["training.events"].startswith(f"{open_events} rows"):
        found.append(f"the audit holds {run.audits['training.events']} of {open_events} open events")
    for plane in ("training", "heldout"):
        for table in ("duplicates", "undecodable"):
            if not run.audits[f"{plane}.{table}"].startswith("0 rows"):
                found.append(f"audit, {plane}.{table}: {run.audits[f'{plane}.{table}']}")
    if run.replay != "reproduced":
        found.append(f"replay: {run.replay}")
    return [f"{name}: {line}" for line in found]


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


__all__ = ["SEAL_TOPICS", "Outcome", "faults", "outcome"]
