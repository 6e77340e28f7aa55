"""The topics: what they hold, who writes them, how they are partitioned. One writer per topic, but for dead letters.

Names on the broker carry the namespace as a prefix (`demo.bank.state`); everywhere else a topic is named without it.
Partition counts are fixed when a topic is created, because an event's partition is a function of its key and the count.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from bat_events.events.base import event_types

Plane = Literal["training", "heldout", "boundary"]

SCHEMA_TOPIC = "schema"
DEAD_LETTERS: dict[Literal["training", "heldout"], str] = {"training": "dead-letter", "heldout": "heldout.dead-letter"}
"""Where the services of a plane put what they cannot take further, and learn what became of it."""

EVERY_SERVICE = "every service of its plane"
"""In place of a writer: dead letters are the one exception to one writer per topic."""
SEAL_TOPIC = "seal"
IMPORT_TOPIC = "import"
"""What an import says about the records that it wrote: of this log, not of the campaign, so no archive and no seal holds it."""


@dataclass(frozen=True, kw_only=True)
class TopicSpec:
    """One topic. `parallel` topics have the namespace's partition count, the others one partition."""

    name: str
    writer: str
    plane: Plane = "training"
    parallel: bool = False
    compacted: bool = False


TOPICS: tuple[TopicSpec, ...] = (
    TopicSpec(name=SCHEMA_TOPIC, writer="admin", compacted=True),
    TopicSpec(name="campaign", writer="campaign"),
    TopicSpec(name="round", writer="planner"),
    TopicSpec(name="group", writer="planner", parallel=True),
    TopicSpec(name="bank.request", writer="bank", parallel=True),
    TopicSpec(name="bank.state", writer="synthesizer", parallel=True),
    TopicSpec(name="bank.verdict", writer="leakage-gate", parallel=True),
    TopicSpec(name="bank.ready", writer="bank"),
    TopicSpec(name="curriculum", writer="teacher"),
    TopicSpec(name="rollout", writer="rollout", parallel=True),
    TopicSpec(name="reward", writer="judge", parallel=True),
    TopicSpec(name="training", writer="trainer"),
    TopicSpec(name="heldout.cell", writer="evaluator", plane="heldout"),
    TopicSpec(name="boundary.report", writer="evaluator", plane="boundary"),
    TopicSpec(name="boundary.fingerprint", writer="evaluator", plane="boundary"),
    TopicSpec(name="promotion", writer="gate"),
    TopicSpec(name=DEAD_LETTERS["training"], writer=EVERY_SERVICE),
    TopicSpec(name=DEAD_LETTERS["heldout"], writer=EVERY_SERVICE, plane="heldout"),
    TopicSpec(name=SEAL_TOPIC, writer="notary"),
    TopicSpec(name="heldout.seal", writer="heldout-notary", plane="heldout"),
    TopicSpec(name=IMPORT_TOPIC, writer="admin"),
)

BY_NAME = {spec.name: spec for spec in TOPICS}

_NAMESPACE = re.compile(r"^[a-z0-9][a-z0-9-]{0,47}$")


def check_namespace(namespace: str) -> str:
    """The namespace itself, or ValueError saying what one looks like."""
    if not _NAMESPACE.match(namespace):
        raise ValueError(f"namespace {namespace!r}: use 1 to 48 of a-z, 0-9 and '-', beginning with a letter or digit")
    return namespace


def broker_name(namespace: str, topic: str) -> str:
    """A topic's name on the broker."""
    return f"{namespace}.{topic}"


def plain_name(namespace: str, name: str) -> str:
    """The inverse of `broker_name`; ValueError for a topic of another namespace."""
    prefix = f"{namespace}."
    if not name.startswith(prefix):
        raise ValueError(f"topic {name!r} is not in namespace {namespace!r}")
    return name.removeprefix(prefix)


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key: the same in every client and in the simulated log."""
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") % partitions


def topics_of_events() -> dict[str, list[str]]:
    """Topic -> names of the event types that it carries."""
    table: dict[str, list[str]] = {spec.name: [] for spec in TOPICS}
    for cls in event_types():
        for topic in cls.topics():
            table[topic].append(cls.__name__)
    return table
