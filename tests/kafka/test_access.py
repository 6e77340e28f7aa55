"""The real broker allows each service what the access matrix says, and nothing else; who is denied stops and is seen."""

import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from bat_events.audit import denied
from bat_events.errors import AccessDenied, ConfigurationError, LogError, LoginRefused
from bat_events.log.access import ADMIN, BY_PRINCIPAL, PRINCIPALS, Principal, Rule, rules, user_of
from bat_events.log.acls import apply_access, binding_of, current_rules, filter_of
from bat_events.log.admin import apply_topics, list_topics
from bat_events.log.cluster import Cluster, client_settings
from bat_events.log.credentials import make_secret, read_secret
from bat_events.log.interface import Outgoing
from bat_events.log.kafka import KafkaReader, KafkaWorkerLog, KafkaWriter
from bat_events.log.local_kafka import BrokerFailed, LocalKafka
from bat_events.log.topics import SCHEMA_TOPIC, TOPICS, broker_name

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

QUIET = {"log_level": 0}
NAMES = [principal.name for principal in PRINCIPALS]
ALL = {spec.name for spec in TOPICS}


@pytest.fixture(scope="module")
def ruled(kafka: LocalKafka) -> str:
    """A namespace with users, rules and topics, one record in each topic."""
    name = "t-access"
    assert apply_access(kafka.login(), name, kafka.secrets, own=True).added == len(rules(name))
    apply_topics(kafka.login(), name, partitions=1)
    producer = Producer({**client_settings(kafka.login()), **QUIET})
    for topic in sorted(ALL - {SCHEMA_TOPIC}):
        producer.produce(broker_name(name, topic), b"a record")
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def quiet(kafka: LocalKafka) -> str:
    """A namespace with users, rules and topics, and nothing in them: services that start here have nothing to halt at."""
    name = "t-quiet"
    apply_access(kafka.login(), name, kafka.secrets, own=True)
    apply_topics(kafka.login(), name, partitions=1)
    return name


@pytest.fixture
def home(kafka: LocalKafka) -> Path:
    """The BAT_HOME of the broker."""
    return kafka.secrets.parents[1]


# -- the matrix, tried out


def test_every_principal_reads_and_writes_exactly_what_the_matrix_says(kafka: LocalKafka, ruled: str) -> None:
    with ThreadPoolExecutor(5) as threads:
        found = dict(zip(NAMES, threads.map(lambda name: _readable(kafka, ruled, name), NAMES), strict=True))
        written = dict(zip(NAMES, threads.map(lambda name: _writable(kafka, ruled, name), NAMES), strict=True))
    assert found == {p.name: ALL if p.name == ADMIN else {t for t in ALL if p.may_read(t)} for p in PRINCIPALS}
    assert written == {p.name: ALL if p.name == ADMIN else {t for t in ALL if p.may_write(t)} for p in PRINCIPALS}


def _readable(kafka: LocalKafka, namespace: str, principal: str) -> set[str]:
    """The topics out of which a record came; the client is told to fetch all of them."""
    group = f"{namespace}.{principal}"
    settings = {"group.id": group, "enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 50}
    consumer = Consumer({**client_settings(kafka.login(principal, namespace)), **settings, **QUIET})
    forbidden = {t for t in ALL if _metadata_error(consumer, broker_name(namespace, t)) is not None}
    consumer.assign([TopicPartition(broker_name(namespace, topic), 0, 0) for topic in ALL])
    found: set[str] = set()
    deadline = time.monotonic() + 20
    ends = 0
    while ends < len(ALL - forbidden) and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error() is None:
            found.add((message.topic() or "").removeprefix(f"{namespace}."))
        ends += message.error() is not None and message.error().code() == KafkaError._PARTITION_EOF
    consumer.close()
    assert not found & forbidden
    return found


def _metadata_error(consumer: Consumer, name: str) -> KafkaError | None:
    error = consumer.list_topics(name, timeout=10).topics[name].error
    assert error is None or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    return error


def _writable(kafka: LocalKafka, namespace: str, principal: str) -> set[str]:
    """The topics that took a record."""
    answers: dict[str, KafkaError | None] = {}
    settings = {"acks": "all", "message.timeout.ms": 20_000}
    producer = Producer({**client_settings(kafka.login(principal, namespace)), **settings, **QUIET})
    for topic in ALL:
        producer.produce(
            broker_name(namespace, topic),
            b"a record",
            partition=0,
            key=b"k",
            on_delivery=lambda error, message: answers.update({message.topic(): error}),
        )
    assert producer.flush(30) == 0
    refused = {error.code() for error in answers.values() if error is not None}
    assert refused <= {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    return {name.removeprefix(f"{namespace}.") for name, error in answers.items() if error is None}


def test_groups_and_transactional_ids_belong_to_their_principal(kafka: LocalKafka, ruled: str) -> None:
    services = [p for p in PRINCIPALS if p.name != ADMIN]
    with ThreadPoolExecutor(5) as threads:
        groups = list(threads.map(lambda p: _own_groups(kafka, ruled, p, services), services))
        ids = list(threads.map(lambda p: _own_ids(kafka, ruled, p), services))
    for principal, usable in zip(services, groups, strict=True):
        assert usable == {*principal.own_names, f"{principal.name}.instance"}, principal.name
    for principal, usable in zip(services, ids, strict=True):
        assert usable == ({principal.name, f"{principal.name}.instance"} if principal.writes else set()), principal.name


def _own_groups(kafka: LocalKafka, namespace: str, principal: Principal, others: list[Principal]) -> set[str]:
    """The groups whose offsets this principal can set."""
    admin = AdminClient({**client_settings(kafka.login(principal.name, namespace)), **QUIET})
    place = TopicPartition(broker_name(namespace, SCHEMA_TOPIC), 0, 0)
    usable = set()
    for name in [*(name for other in others for name in other.own_names), f"{principal.name}.instance"]:
        wanted = ConsumerGroupTopicPartitions(f"{namespace}.{name}", [place])
        try:
            done = next(iter(admin.alter_consumer_group_offsets([wanted]).values())).result(20)
            errors = {place.error.code() for place in done.topic_partitions or [] if place.error is not None}
            if not errors:
                usable.add(name)
            assert errors <= {
                KafkaError.GROUP_AUTHORIZATION_FAILED
            }  # who may find the group is told so for each partition
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise
    return usable


def _own_ids(kafka: LocalKafka, namespace: str, principal: Principal) -> set[str]:
    """Which transactional ids out of a sample can be begun with: its own two, its neighbour's, the evaluator's."""
    neighbour = NAMES[(NAMES.index(principal.name) + 1) % len(NAMES)]
    usable = set()
    for name in {principal.name, f"{principal.name}.instance", neighbour, "evaluator.x"}:
        settings = {"transactional.id": f"{namespace}.{name}"}
        producer = Producer({**client_settings(kafka.login(principal.name, namespace)), **settings, **QUIET})
        try:
            producer.init_transactions(20)
            usable.add(name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                raise
    return usable - ({"evaluator.x"} if principal.name == "evaluator" else set())


def test_a_namespace_is_closed_to_the_services_of_another(kafka: LocalKafka, ruled: str) -> None:
    other = f"{ruled}-b"  # its name begins alike
    apply_access(kafka.login(), other, kafka.secrets, own=True)
    with pytest.raises(AccessDenied, match=rf"user {other}\.auditor may not read topic {ruled}\.round"):
        KafkaReader(bootstrap=kafka.login("auditor", other), namespace=ruled, topics=["round"])


# -- what a service meets


def test_a_training_service_that_reads_or_writes_heldout_topics_gets_a_clear_error(
    kafka: LocalKafka, ruled: str
) -> None:
    login = kafka.login("trainer", ruled)
    began = time.monotonic()
    with pytest.raises(AccessDenied, match=rf"user {ruled}\.trainer may not read topic {ruled}\.heldout\.cell.*docs/"):
        KafkaReader(bootstrap=login, namespace=ruled, topics=["heldout.cell"])
    writer = KafkaWriter(bootstrap=login, namespace=ruled, name="trainer")
    out = Outgoing(topic="heldout.cell", partition=0, key=b"k", value=b"v", headers=())
    with pytest.raises(AccessDenied, match=rf"user {ruled}\.trainer may not write topic {ruled}\.heldout\.cell"):
        writer.publish([out])
    with pytest.raises(AccessDenied, match=rf"{ruled}\.rollout.*transactional id"):
        KafkaWriter(bootstrap=login, namespace=ruled, name="rollout")
    with pytest.raises(AccessDenied, match="may not read topic"):
        KafkaWorkerLog(bootstrap=login, namespace=ruled, service="trainer", topic="heldout.cell", instance="a")
    assert "heldout.cell" not in {state.spec.name for state in list_topics(login, ruled)}
    assert time.monotonic() - began < 20, "a denial is told at once, not after a time-out"


def test_a_right_that_is_withdrawn_while_a_service_runs_stops_it(kafka: LocalKafka, ruled: str) -> None:
    rule = Rule(user=f"{ruled}.gate", resource="TOPIC", name=f"{ruled}.training", pattern="LITERAL", operation="READ")
    reader = KafkaReader(bootstrap=kafka.login("gate", ruled), namespace=ruled, topics=["training"])
    while not reader.caught_up():
        reader.poll(100, 0.2)
    try:
        _withdraw(kafka, rule)
        with pytest.raises(AccessDenied, match=rf"user {ruled}\.gate may not read {ruled}\.training"):
            _poll(reader, 100)
    finally:
        reader.close()
        assert apply_access(kafka.login(), ruled, kafka.secrets, own=True).added == 1


def _poll(reader: KafkaReader, times: int) -> None:
    for _ in range(times):
        reader.poll(100, 0.2)


def _withdraw(kafka: LocalKafka, rule: Rule) -> None:
    admin = AdminClient({**client_settings(kafka.login()), **QUIET})
    (future,) = admin.delete_acls([filter_of(rule)]).values()
    assert len(future.result(20)) == 1


_CURIOUS = """
import sys
from bat_events.cli.common import make_context
from bat_events.consumers.trainer import Trainer
from bat_events.service.run import run_service
from bat_events.service.services import reactor
from bat_events.settings import load_settings

class Curious(Trainer):
    inputs = (*Trainer.inputs, "heldout.cell")

context = make_context(load_settings(), "trainer")
sys.exit(run_service("trainer", context, lambda name, context: reactor(context, Curious(context))))
"""


def test_a_trainer_that_wants_heldout_cells_stops_and_is_shown_in_the_audit(ruled: str, home: Path) -> None:
    env = {**os.environ, "BAT_HOME": str(home), "BAT_NAMESPACE": ruled}
    words = [sys.executable, "-c", _CURIOUS]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 4, done.stderr
    assert f"user {ruled}.trainer may not read topic {ruled}.heldout.cell" in done.stderr

    shown = json.loads(_command(env, "audit", "denied_accesses", "--format", "json"))
    assert shown["observable"] is True
    assert shown["unread"] == 0
    mine = [
        r for r in shown["rows"] if (r["principal"], r["resource"]) == (f"{ruled}.trainer", f"{ruled}.heldout.cell")
    ]
    assert {row["operation"] for row in mine} >= {"DESCRIBE"}
    assert all(row["count"] >= 1 and row["first"] <= row["last"] and row["kind"] == "Topic" for row in mine)
    assert f"{ruled}.trainer" in _command(env, "audit", "denied")


def test_a_denied_service_is_not_started_again_and_the_others_go_on(kafka: LocalKafka, quiet: str, home: Path) -> None:
    env = {**os.environ, "BAT_HOME": str(home), "BAT_NAMESPACE": quiet}
    rule = Rule(user=f"{quiet}.judge", resource="TOPIC", name=f"{quiet}.rollout", pattern="LITERAL", operation="READ")
    _withdraw(kafka, rule)
    words = [sys.executable, "-m", "bat_events.cli.main", "serve", "judge", "synthesizer"]
    process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said: list[str] = []
        assert process.stdout is not None
        reading = threading.Thread(target=lambda: said.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
        reading.start()
        deadline = time.monotonic() + 60
        while not any("not started again" in line for line in said) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(3)  # longer than the wait before a first restart
        children = psutil.Process(process.pid).children()
        assert [child.cmdline()[-1] for child in children] == ["synthesizer"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 1
        reading.join(10)
    finally:
        process.kill()
        process.wait()
        apply_access(kafka.login(), quiet, kafka.secrets, own=True)
    assert sum("judge was denied access" in line for line in said) == 1
    assert any(f"user {quiet}.judge may not read topic {quiet}.rollout" in line for line in said)
    assert (home / "logs" / quiet / "judge.out").read_text().count("AccessDenied") == 1


def _command(env: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "bat_events.cli.main", *words], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- logins and passwords


def test_a_wrong_password_an_unknown_user_and_no_login_are_refused(
    kafka: LocalKafka, ruled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "wrong"
    make_secret(wrong)
    for user in (user_of(ruled, "trainer"), "stranger"):
        login = Cluster(bootstrap=kafka.bootstrap, principal="trainer", user=user, password_file=wrong)
        began = time.monotonic()
        with pytest.raises(LoginRefused, match=f"refuses user {user}"):
            list_topics(login, ruled)
        assert time.monotonic() - began < 20, "a refusal is told at once, not after a time-out"
    with pytest.raises(LoginRefused, match=f"refuses user {user}"):
        KafkaReader(bootstrap=login, namespace=ruled, topics=["campaign"])
    with pytest.raises(LoginRefused, match=f"refuses user {user}"):
        KafkaWriter(bootstrap=login, namespace=ruled, name="trainer")
    monkeypatch.setattr("bat_events.log.admin._CALL_S", 1.0)
    with pytest.raises(LogError, match="no Kafka answers"):
        list_topics(kafka.bootstrap, ruled)


def test_neither_listener_answers_who_has_not_logged_in(kafka: LocalKafka) -> None:
    assert [_answers_a_stranger(port) for port in _ports(kafka)] == [False, False]


def _ports(kafka: LocalKafka) -> tuple[int, int]:
    state = json.loads((kafka.secrets.parents[1] / "kafka" / "state.json").read_text())
    return state["port"], state["controller_port"]


def _answers_a_stranger(port: int) -> bool:
    """Whether DescribeCluster is answered on a fresh connection; broker and controller both know that request."""
    request = (
        struct.pack(">hhihB", 60, 0, 7, -1, 0) + b"\x00\x00"
    )  # header: key, version, id, no client; body: no, no tags
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        try:
            answer = connection.recv(8)
        except ConnectionResetError:
            return False
    return len(answer) == 8 and struct.unpack(">i", answer[4:])[0] == 7


def test_passwords_are_their_owners_only_and_stand_nowhere_else(kafka: LocalKafka, ruled: str, home: Path) -> None:
    files = sorted(kafka.secrets.iterdir())
    assert {user_of(ruled, p.name) for p in PRINCIPALS} | {"broker"} <= {path.name for path in files}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(kafka.secrets.stat().st_mode) == stat.S_IMODE(kafka.secrets.parent.stat().st_mode) == 0o700
    properties = home / "kafka" / "server.properties"
    assert stat.S_IMODE(properties.stat().st_mode) == 0o600

    passwords = {path.read_text().encode() for path in files}
    assert len(passwords) == len(files)
    assert all(len(password) == 64 for password in passwords)
    broker = psutil.Process(kafka.status().pid)
    for place in (Path(f"/proc/{broker.pid}/cmdline"), Path(f"/proc/{broker.pid}/environ")):
        assert not any(password in place.read_bytes() for password in passwords), place
    texts = [path for path in home.rglob("*") if path.is_file() and kafka.secrets not in path.parents]
    told = {path for path in texts if any(password in path.read_bytes() for password in passwords)}
    assert told == {properties}, "the node's own password stands in its configuration, and no other one anywhere"
    assert "password" not in repr(client_settings(kafka.bootstrap)) + repr(kafka.login("trainer", ruled)).replace(
        "password_file", ""
    )


def test_a_password_file_that_others_can_read_or_that_is_missing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "kafka" / "bat.trainer"
    with pytest.raises(ConfigurationError, match="is not there"):
        read_secret(path, "bat.trainer")
    assert make_secret(path)
    assert not make_secret(path)
    assert stat.S_IMODE(path.parent.stat().st_mode) == stat.S_IMODE(path.parents[1].stat().st_mode) == 0o700
    path.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_secret(path, "bat.trainer")


# -- bringing rules onto a cluster


def test_rules_are_made_those_of_the_matrix_again(kafka: LocalKafka, ruled: str, namespace: str) -> None:
    apply_access(kafka.login(), namespace, kafka.secrets, own=True)
    assert current_rules(kafka.login(), namespace) == rules(namespace)
    beside = rules(ruled, [BY_PRINCIPAL["evaluator"]])[0]
    extra = Rule(
        user=f"{namespace}.trainer",
        resource="TOPIC",
        name=f"{namespace}.heldout.cell",
        pattern="LITERAL",
        operation="READ",
    )
    admin = AdminClient({**client_settings(kafka.login()), **QUIET})
    next(iter(admin.create_acls([binding_of(extra)]).values())).result(20)
    assert extra in current_rules(kafka.login(), namespace)
    applied = apply_access(kafka.login(), namespace, kafka.secrets, own=True)
    assert (applied.users, applied.added, applied.removed) == (0, 0, 1)
    assert current_rules(kafka.login(), namespace) == rules(namespace)
    assert beside in current_rules(kafka.login(), ruled)


def test_on_a_cluster_of_others_a_user_in_use_keeps_its_password(
    kafka: LocalKafka, namespace: str, tmp_path: Path
) -> None:
    theirs = tmp_path / "elsewhere"
    assert apply_access(kafka.login(), namespace, theirs, own=False).users == len(PRINCIPALS) - 1
    here = tmp_path / "here"
    assert apply_access(kafka.login(), namespace, here, own=False).users == 0
    assert not list(here.glob("*")), "a password made here would not be the user's"
    file = theirs / f"{namespace}.reader"
    login = Cluster(bootstrap=kafka.bootstrap, principal="reader", user=file.name, password_file=file)
    apply_topics(kafka.login(), namespace, partitions=1)
    assert {s.spec.name for s in list_topics(login, namespace) if s.partitions} >= {"campaign", "reward"}


def test_services_may_not_give_themselves_rights(kafka: LocalKafka, ruled: str) -> None:
    with pytest.raises(AccessDenied, match=rf"user {ruled}\.trainer may not create users"):
        apply_access(kafka.login("trainer", ruled), ruled, kafka.secrets, own=True)


# -- without access control, and from one to the other


@pytest.fixture
def open_home(tmp_path: Path) -> Iterator[Path]:
    """A BAT_HOME whose broker has no access control at first."""
    yield tmp_path
    LocalKafka(tmp_path).down()


def test_a_broker_without_logins_works_and_gets_rules_at_its_next_start(open_home: Path) -> None:
    plain = LocalKafka(open_home, secured=False)
    address = plain.up()
    apply_topics(plain.login(), "bat", partitions=1)
    assert plain.login() == address
    KafkaWriter(bootstrap=address, namespace="bat", name="campaign").publish(
        [Outgoing(topic="campaign", partition=0, key=b"k", value=b"kept", headers=())]
    )
    assert [_answers_a_stranger(port) for port in _ports(plain)] == [True, True], "the probe sees an open listener"
    assert not denied.look(plain, None).observable
    assert "rules" in str(denied.look(plain, None).why)
    elsewhere = denied.look(plain, "kafka.example:9092").summary()
    assert elsewhere.startswith("not observable: the cluster at kafka.example:9092")

    ruling = LocalKafka(open_home)
    with pytest.raises(BrokerFailed, match="runs without access control"):
        ruling.up()
    assert plain.down()
    ruling.up()
    apply_access(ruling.login(), "bat", ruling.secrets, own=True)
    assert [_answers_a_stranger(port) for port in _ports(ruling)] == [False, False]
    reader = KafkaReader(bootstrap=ruling.login("planner", "bat"), namespace="bat", topics=["campaign"])
    kept: list[Any] = []
    while not reader.caught_up():
        kept += reader.poll(10, 0.2)
    reader.close()
    assert [record.value for record in kept] == [b"kept"]
    assert denied.look(ruling, ruling.bootstrap).observable
