"""The access matrix says what topics.py and the services say, and no more: checked without a broker."""

import re
from pathlib import Path
from typing import Literal

import pytest

from bat_events.consumers.corpus_gate import CorpusGate
from bat_events.consumers.evaluator import Evaluator
from bat_events.consumers.fingerprinter import Fingerprinter
from bat_events.consumers.judge import Judge
from bat_events.consumers.leakage_gate import LeakageGate
from bat_events.consumers.registry import SERVICES
from bat_events.consumers.rollout import Rollout
from bat_events.consumers.synthesizer import Synthesizer
from bat_events.consumers.trainer import Trainer
from bat_events.deciders.bank import Bank
from bat_events.deciders.gate import Gate
from bat_events.deciders.planner import Planner
from bat_events.deciders.teacher import Teacher
from bat_events.log.access import (
    BY_PRINCIPAL,
    HELDOUT_TOPICS,
    OPEN_TOPICS,
    PRINCIPALS,
    kafka_acls_lines,
    matrix_table,
    rules,
    topics_of,
    user_of,
)
from bat_events.log.topics import DEAD_LETTERS, EVERY_SERVICE, SCHEMA_TOPIC, TOPICS

DOCS = Path(__file__).parents[3] / "docs" / "access.md"
REACTORS = (Bank, Gate, Planner, Teacher, Trainer)
WORKERS = (Synthesizer, LeakageGate, CorpusGate, Rollout, Judge, Evaluator, Fingerprinter)


def test_every_topic_has_the_one_writer_that_topics_names() -> None:
    writers = {spec.name: [p.name for p in PRINCIPALS if p.may_write(spec.name)] for spec in TOPICS}
    letters = set(DEAD_LETTERS.values())
    assert {spec.name for spec in TOPICS if spec.writer == EVERY_SERVICE} == letters
    assert {topic: by for topic, by in writers.items() if topic not in letters} == {
        spec.name: [spec.writer] for spec in TOPICS if spec.name not in letters
    }


@pytest.mark.parametrize("plane", ["training", "heldout"])
def test_dead_letters_are_written_by_the_services_of_their_plane_and_its_operator_only(
    plane: Literal["training", "heldout"],
) -> None:
    topic = DEAD_LETTERS[plane]
    services = {p.name for p in PRINCIPALS if p.kind in ("decider", "worker") and p.plane == plane and p.parks}
    operator = "dlq" if plane == "training" else "heldout-dlq"
    assert {p.name for p in PRINCIPALS if p.may_write(topic)} == services | {operator}
    assert services <= {p.name for p in PRINCIPALS if p.may_read(topic)}
    assert {p.plane for p in PRINCIPALS if p.may_write(topic)} == {plane}
    assert {p.name for p in PRINCIPALS if not p.parks} == {"notary", "heldout-notary"}  # they read raw records


def test_every_service_is_a_principal_and_nothing_else_is_but_the_operators() -> None:
    assert set(BY_PRINCIPAL) - set(SERVICES) == {"campaign", "reader", "admin", "dlq", "heldout-dlq", "monitor"}
    assert set(SERVICES) <= set(BY_PRINCIPAL)
    assert len(BY_PRINCIPAL) == len(PRINCIPALS)


def test_only_the_heldout_plane_touches_heldout_topics() -> None:
    assert tuple(spec.name for spec in TOPICS if spec.name.startswith("heldout.")) == HELDOUT_TOPICS
    touching = {p.name for p in PRINCIPALS for topic in HELDOUT_TOPICS if p.may_read(topic) or p.may_write(topic)}
    assert (
        touching
        == {p.name for p in PRINCIPALS if p.plane == "heldout"}
        == {"evaluator", "heldout-auditor", "heldout-dlq", "heldout-notary"}
    )


@pytest.mark.parametrize("rules_of", REACTORS, ids=lambda kind: kind.name)
def test_a_reactor_has_what_it_declares_and_no_more(rules_of: type[Planner]) -> None:
    principal = BY_PRINCIPAL[rules_of.name]
    letters = DEAD_LETTERS[principal.plane]
    assert set(principal.writes) == {*rules_of.outputs, letters}
    assert set(principal.reads) == {
        *rules_of.inputs,
        *rules_of.outputs,
        letters,
    }  # it learns from its outputs which exist


@pytest.mark.parametrize("handler", WORKERS, ids=lambda kind: kind.__name__)
def test_a_worker_has_what_it_declares(handler: type[Judge]) -> None:
    principal = BY_PRINCIPAL[handler.name]
    assert handler.topic in principal.reads
    assert set(handler.outputs) <= set(principal.writes)


def test_a_worker_has_no_more_than_its_handlers_declare() -> None:
    declared: dict[str, set[str]] = {}
    for handler in WORKERS:
        declared.setdefault(handler.name, set()).update(handler.outputs)
    assert declared == {
        name: set(BY_PRINCIPAL[name].writes) - {DEAD_LETTERS[BY_PRINCIPAL[name].plane]} for name in declared
    }


def test_observers_and_readers_write_nothing() -> None:
    writing = {p.name for p in PRINCIPALS if p.kind == "observer" and p.writes} | set(BY_PRINCIPAL["reader"].writes)
    writing |= set(BY_PRINCIPAL["monitor"].writes)
    assert writing == set()
    assert BY_PRINCIPAL["auditor"].reads == BY_PRINCIPAL["reader"].reads == OPEN_TOPICS
    assert set(OPEN_TOPICS) | set(HELDOUT_TOPICS) | {SCHEMA_TOPIC} == {spec.name for spec in TOPICS}


def test_only_the_monitor_follows_other_groups_and_it_may_not_join_them() -> None:
    groups = [rule for rule in rules("bat") if rule.resource == "GROUP" and rule.name == "bat."]
    assert [(rule.user, rule.operation, rule.pattern) for rule in groups] == [("bat.monitor", "DESCRIBE", "PREFIXED")]


def test_rules_name_nothing_outside_their_namespace() -> None:
    for rule in rules("team-a"):
        assert rule.name.startswith("team-a.")
        assert rule.user in ("admin", *(user_of("team-a", p.name) for p in PRINCIPALS))
        if rule.pattern == "PREFIXED":  # so that team-a's rules do not reach team-ab
            assert rule.name.endswith(".")


def test_names_of_one_principal_are_not_below_anothers() -> None:
    names = [name for p in PRINCIPALS for name in p.own_names]
    assert len(set(names)) == len(names)
    assert not [(a, b) for a in names for b in names if a.startswith(f"{b}.")]


def test_a_training_service_sees_no_heldout_topic_and_the_admin_sees_all() -> None:
    assert "heldout.cell" not in topics_of("trainer")
    assert topics_of("admin") == tuple(spec.name for spec in TOPICS)
    with pytest.raises(ValueError, match="not in the access matrix"):
        user_of("bat", "stranger")


def test_printed_commands_are_one_for_each_rule() -> None:
    lines = kafka_acls_lines("bat")
    assert len(lines) == len(set(lines)) == len(rules("bat"))
    assert all("--add" in line and "password" not in line.lower() for line in lines)


def test_docs_hold_the_matrix_as_it_is() -> None:
    found = re.search(r"<!-- matrix -->\n(.*?)<!-- end of matrix -->", DOCS.read_text(), re.DOTALL)
    assert found, f"{DOCS} has no matrix between its two comments"
    assert found[1] == matrix_table(), "renew it: python -m bat_events.log.access"
