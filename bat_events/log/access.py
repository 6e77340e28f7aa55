"""Who may do what on the log: one declared matrix, from which users, access rules and the table in docs/access.md follow.

Pure: nothing here talks to a broker. A service that is not in the matrix may do nothing, and a new read or write of a
service is a change here (tests/unit/test_access_matrix.py compares the matrix with what the services declare).

A principal's user on the broker is `NAMESPACE.PRINCIPAL`, so that two namespaces on one cluster are two sets of users. Its
groups and transactional ids are those of its own names: `N` stands for `NAMESPACE.N` and everything below `NAMESPACE.N.`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from bat_events.log.topics import (
    BY_NAME,
    DEAD_LETTERS,
    IMPORT_TOPIC,
    SCHEMA_TOPIC,
    SEAL_TOPIC,
    TOPICS,
    broker_name,
    check_namespace,
)

Resource = Literal["TOPIC", "GROUP", "TRANSACTIONAL_ID"]
Pattern = Literal["LITERAL", "PREFIXED"]
Operation = Literal["READ", "WRITE", "DESCRIBE", "CREATE", "DELETE", "DESCRIBE_CONFIGS"]
Kind = Literal["decider", "worker", "observer", "operator"]

ADMIN = "admin"
"""The user that creates topics and gives rights: one for all namespaces of a cluster."""

OPEN_TOPICS: tuple[str, ...] = tuple(s.name for s in TOPICS if s.plane != "heldout" and s.name != SCHEMA_TOPIC)
"""Every event topic outside the held-out plane."""

HELDOUT_TOPICS: tuple[str, ...] = tuple(s.name for s in TOPICS if s.plane == "heldout")


@dataclass(frozen=True, kw_only=True)
class Principal:
    """One service, or one use of the command line. `reads` and `writes` are topics without namespace."""

    name: str
    does: str
    kind: Kind
    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()
    plane: Literal["training", "heldout"] = "training"
    names: tuple[str, ...] = ()
    """Groups and transactional ids beside its own name."""
    follows_groups: bool = False
    """Whether it may ask how far any group of the namespace has come, which are numbers only."""
    parks: bool = True
    """Whether it parks what it cannot take further; a notary reads raw records and takes none further."""

    @property
    def own_names(self) -> tuple[str, ...]:
        return (self.name, *self.names)

    @property
    def transactional(self) -> bool:
        """Whether it writes, for every write is a transaction."""
        return bool(self.writes)

    def may_read(self, topic: str) -> bool:
        """Whether the matrix lets it read a topic; the schemas are everybody's."""
        return topic in self.reads or topic == SCHEMA_TOPIC

    def may_write(self, topic: str) -> bool:
        """Whether the matrix lets it write a topic."""
        return topic in self.writes


_DECLARED: tuple[Principal, ...] = (
    Principal(
        name="bank",
        does="asks for practice states and says which are ready",
        kind="decider",
        reads=("campaign", "round", "bank.state", "bank.verdict", "bank.request", "bank.ready"),
        writes=("bank.request", "bank.ready"),
    ),
    Principal(
        name="synthesizer",
        does="makes practice states",
        kind="worker",
        reads=("bank.request", "campaign"),
        writes=("bank.state",),
    ),
    Principal(
        name="leakage-gate",
        does="holds states and the cold-start corpus against the held-out fingerprints",
        kind="worker",
        reads=("bank.state", "training", "boundary.fingerprint"),
        writes=("bank.verdict",),
        names=("leakage-gate-corpus",),
    ),
    Principal(
        name="planner",
        does="plans rounds, asks for groups and evaluations",
        kind="decider",
        reads=(
            "campaign",
            "bank.ready",
            "curriculum",
            "training",
            "promotion",
            "rollout",
            "reward",
            "round",
            "group",
        ),
        writes=("round", "group"),
    ),
    Principal(
        name="rollout",
        does="runs practice rollouts in sandboxes",
        kind="worker",
        reads=("group", "campaign"),
        writes=("rollout",),
    ),
    Principal(
        name="judge",
        does="scores rollouts",
        kind="worker",
        reads=("rollout", "campaign"),
        writes=("reward",),
        names=("judge-shadow",),
    ),
    Principal(
        name="trainer",
        does="updates the policy",
        kind="decider",
        reads=("campaign", "round", "rollout", "reward", "bank.verdict", "training"),
        writes=("training",),
    ),
    Principal(
        name="gate",
        does="promotes or holds candidates",
        kind="decider",
        reads=("campaign", "training", "boundary.report", "promotion"),
        writes=("promotion",),
    ),
    Principal(
        name="teacher",
        does="prescribes the next stage",
        kind="decider",
        reads=("campaign", "boundary.report", "promotion", "curriculum"),
        writes=("curriculum",),
    ),
    Principal(name="auditor", does="materialises every open topic into DuckDB", kind="observer", reads=OPEN_TOPICS),
    Principal(
        name="evaluator",
        does="measures checkpoints on held-out tasks, reports aggregates",
        kind="worker",
        plane="heldout",
        reads=("campaign", "round", "heldout.cell"),
        writes=("heldout.cell", "boundary.report", "boundary.fingerprint"),
        names=("evaluator-fingerprints",),
    ),
    Principal(
        name="heldout-auditor",
        does="materialises held-out topics into a file of that plane",
        kind="observer",
        plane="heldout",
        reads=("campaign", "round", "boundary.report", "boundary.fingerprint", *HELDOUT_TOPICS),
    ),
    Principal(
        name="notary",
        does="seals each round of every open topic",
        kind="worker",
        reads=OPEN_TOPICS,
        writes=(SEAL_TOPIC,),
        parks=False,
    ),
    Principal(
        name="heldout-notary",
        does="seals each round of the held-out topics",
        kind="worker",
        plane="heldout",
        reads=("round", *HELDOUT_TOPICS),
        writes=("heldout.seal",),
        parks=False,
    ),
    Principal(
        name="campaign",
        does="starts, pauses, resumes, cancels campaigns",
        kind="operator",
        reads=("campaign", "round"),
        writes=("campaign",),
    ),
    Principal(
        name="dlq",
        does="shows dead letters, says which are taken up again or discarded",
        kind="operator",
        reads=OPEN_TOPICS,
        writes=(DEAD_LETTERS["training"],),
    ),
    Principal(
        name="heldout-dlq",
        does="the same for the held-out plane's",
        kind="operator",
        plane="heldout",
        reads=("campaign", "round", *HELDOUT_TOPICS),
        writes=(DEAD_LETTERS["heldout"],),
    ),
    Principal(
        name="reader", does="replay, log tail, campaign status, the demo's display", kind="operator", reads=OPEN_TOPICS
    ),
    Principal(
        name="monitor",
        does="says how far services have come; an autoscaler's login",
        kind="operator",
        reads=OPEN_TOPICS,
        follows_groups=True,
    ),
    Principal(
        name=ADMIN,
        does="creates topics, users and rules; publishes schemas; imports",
        kind="operator",
        reads=(SCHEMA_TOPIC, IMPORT_TOPIC),
        writes=(SCHEMA_TOPIC, IMPORT_TOPIC),
    ),
)


def _with_dead_letters(principal: Principal) -> Principal:
    """What takes events further can park one, and must learn what became of it: in its own plane's topic only."""
    if principal.kind not in ("decider", "worker") or not principal.parks:
        return principal
    topic = DEAD_LETTERS[principal.plane]
    reads = principal.reads if topic in principal.reads else (*principal.reads, topic)
    return replace(principal, reads=reads, writes=(*principal.writes, topic))


PRINCIPALS: tuple[Principal, ...] = tuple(_with_dead_letters(principal) for principal in _DECLARED)

BY_PRINCIPAL = {principal.name: principal for principal in PRINCIPALS}


@dataclass(frozen=True, kw_only=True, order=True)
class Rule:
    """One access rule as Kafka has it: it allows, from any host. What no rule allows is denied."""

    user: str
    resource: Resource
    name: str
    pattern: Pattern
    operation: Operation


def user_of(namespace: str, principal: str) -> str:
    """The name of a principal's user on the broker. ValueError for an unknown principal."""
    if principal not in BY_PRINCIPAL:
        raise ValueError(f"principal {principal!r} is not in the access matrix: {', '.join(BY_PRINCIPAL)}")
    return ADMIN if principal == ADMIN else broker_name(namespace, principal)


def topics_of(principal: str) -> tuple[str, ...]:
    """The topics that a principal can see at all, in the order of TOPICS; the admin sees all."""
    known = BY_PRINCIPAL[principal]
    return tuple(
        spec.name for spec in TOPICS if principal == ADMIN or known.may_read(spec.name) or known.may_write(spec.name)
    )


def rules(namespace: str, principals: Iterable[Principal] = PRINCIPALS) -> list[Rule]:
    """Every rule of a namespace, sorted."""
    check_namespace(namespace)
    return sorted(rule for principal in principals for rule in _rules(namespace, principal))


def _rules(namespace: str, principal: Principal) -> Iterator[Rule]:
    user = user_of(namespace, principal.name)
    for topic in BY_NAME:
        name = broker_name(namespace, topic)
        if principal.may_read(topic):
            yield Rule(user=user, resource="TOPIC", name=name, pattern="LITERAL", operation="READ")
        if principal.may_write(topic):
            yield Rule(user=user, resource="TOPIC", name=name, pattern="LITERAL", operation="WRITE")
    for own in principal.own_names:
        name = broker_name(namespace, own)
        places: tuple[tuple[str, Pattern], ...] = ((name, "LITERAL"), (f"{name}.", "PREFIXED"))
        for place, pattern in places:
            yield Rule(user=user, resource="GROUP", name=place, pattern=pattern, operation="READ")
            if principal.transactional:
                yield Rule(user=user, resource="TRANSACTIONAL_ID", name=place, pattern=pattern, operation="WRITE")
    if principal.follows_groups:
        yield Rule(user=user, resource="GROUP", name=f"{namespace}.", pattern="PREFIXED", operation="DESCRIBE")
    if principal.name == ADMIN:
        manage: tuple[Operation, ...] = ("CREATE", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS")
        for operation in manage:
            yield Rule(user=user, resource="TOPIC", name=f"{namespace}.", pattern="PREFIXED", operation=operation)


def kafka_acls_lines(namespace: str) -> list[str]:
    """The rules as commands of Kafka's own `kafka-acls.sh`, to be completed with the cluster's address and login."""
    options = {"TOPIC": "--topic", "GROUP": "--group", "TRANSACTIONAL_ID": "--transactional-id"}
    words = {"DESCRIBE_CONFIGS": "DescribeConfigs"}
    return [
        f"kafka-acls.sh --bootstrap-server $BOOTSTRAP --command-config $ADMIN_CONFIG --add "
        f"--allow-principal User:{rule.user} --operation {words.get(rule.operation, rule.operation.capitalize())} "
        f"{options[rule.resource]} {rule.name} --resource-pattern-type {rule.pattern.lower()}"
        for rule in rules(namespace)
    ]


def matrix_table() -> str:
    """The matrix in Markdown, for docs/access.md: one row per principal."""
    head = ["| principal | plane | does | reads | writes |", "|---|---|---|---|---|"]
    rows = []
    for principal in PRINCIPALS:
        reads = "every open topic" if principal.reads == OPEN_TOPICS else _listed(principal.reads)
        rows.append(
            f"| `{principal.name}` | {principal.plane} | {principal.does} | {reads} | {_listed(principal.writes) or '–'} |"
        )
    return "\n".join([*head, *rows]) + "\n"


def _listed(topics: Iterable[str]) -> str:
    return ", ".join(f"`{topic}`" for topic in topics)


if __name__ == "__main__":
    print(matrix_table(), end="")
