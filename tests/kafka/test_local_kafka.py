"""The local broker: a real Kafka that starts by itself, keeps what it was given, and is never mistaken for another."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from bat_events.log.cluster import client_settings
from bat_events.log.local_kafka import BrokerFailed, BrokerUnavailable, LocalKafka, bootstrap_for
from bat_events.log.local_kafka_parts import ensure_jars, jars_version

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The BAT_HOME of the tests that stop and kill: one broker, formatted once."""
    folder = tmp_path_factory.mktemp("restarted")
    yield folder
    LocalKafka(folder).down()


def create_topic(broker: LocalKafka, name: str, partitions: int = 1) -> None:
    admin = AdminClient({**client_settings(broker.login()), **QUIET})
    admin.create_topics([NewTopic(name, num_partitions=partitions, replication_factor=1)])[name].result(30)


def write(broker: LocalKafka, topic: str, *values: bytes) -> None:
    producer = Producer({**client_settings(broker.login()), "acks": "all", **QUIET})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def read(broker: LocalKafka, topic: str, count: int, timeout_s: float = 30.0) -> list[bytes]:
    """The first `count` committed values of partition 0, fewer where the time is over."""
    settings = {"group.id": "reader", "isolation.level": "read_committed", "enable.auto.commit": False}
    consumer = Consumer({**client_settings(broker.login()), **settings, **QUIET})
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline, values = time.monotonic() + timeout_s, []
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.close()
    return values


def until(condition: Callable[[], bool], timeout_s: float) -> float:
    """Seconds until the condition holds; fails the test after `timeout_s`."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < timeout_s, "it did not happen in time"
        time.sleep(0.02)
    return time.monotonic() - began


# -- a broker's life


def test_data_and_port_survive_down_and_up(home: Path) -> None:
    broker = LocalKafka(home)
    bootstrap = broker.up()
    create_topic(broker, "kept")
    write(broker, "kept", b"before")

    assert broker.down()
    assert not broker.status().running
    assert broker.up() == bootstrap
    write(broker, "kept", b"after")

    assert read(broker, "kept", 2) == [b"before", b"after"]
    status = broker.status()
    assert (status.running, status.bootstrap) == (True, bootstrap)
    assert status.data_bytes > 0


def test_second_up_reuses_the_running_broker_even_with_its_state_lost_to_a_stale_process(home: Path) -> None:
    first = LocalKafka(home)
    bootstrap, process = first.up(), first.status().pid
    assert LocalKafka(home).up() == bootstrap

    state_file = home / "kafka" / "state.json"
    state = json.loads(state_file.read_text())
    state_file.write_text(json.dumps({**state, "pid": os.getpid(), "started": 0.0}))

    assert LocalKafka(home).status().pid == process
    assert LocalKafka(home).up() == bootstrap


def test_killed_broker_comes_back_with_what_it_had_acknowledged(home: Path) -> None:
    broker = LocalKafka(home)
    bootstrap = broker.up()
    create_topic(broker, "acknowledged")
    write(broker, "acknowledged", *(b"%d" % n for n in range(500)))

    killed = broker.status().pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    until(lambda: not broker.status().running, 10)

    assert broker.up() == bootstrap
    assert broker.status().pid != killed
    assert read(broker, "acknowledged", 500) == [b"%d" % n for n in range(500)]


def test_two_starters_get_one_broker_which_outlives_their_ctrl_c(tmp_path: Path) -> None:
    script = (
        "import signal, sys, time; from pathlib import Path; from bat_events.log.local_kafka import LocalKafka;"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"  # whoever runs the tests may have it ignored
        "print(LocalKafka(Path(sys.argv[1])).up(), flush=True); time.sleep(60)"
    )
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        for _ in range(2)
    ]
    broker = LocalKafka(tmp_path)
    try:
        said = {starter.stdout.readline().strip() for starter in starters if starter.stdout}
        assert said == {broker.bootstrap}
        for starter in starters:
            os.killpg(starter.pid, signal.SIGINT)
            starter.wait(10)
        assert broker.status().running
        create_topic(broker, "still-there")
    finally:
        for starter in starters:
            starter.kill()
            starter.communicate()
        broker.down()
    assert not broker.status().running


def test_down_never_touches_a_process_that_is_not_the_broker(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        folder = tmp_path / "kafka"
        folder.mkdir()
        started = psutil.Process(stranger.pid).create_time()
        state = {"port": 20_001, "controller_port": 20_002, "pid": stranger.pid, "started": started}
        (folder / "state.json").write_text(json.dumps(state))

        broker = LocalKafka(tmp_path)
        assert not broker.status().running
        assert not broker.down()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_broker_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    data = tmp_path / "kafka" / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n")

    broker = LocalKafka(tmp_path)
    with pytest.raises(BrokerFailed, match=r"ended while starting[\s\S]*broker\.log[\s\S]*Stored node id 7"):
        broker.up()
    assert not broker.status().running


# -- what clients rely on


def test_aborted_transactions_are_invisible_and_committed_ones_are_whole(kafka: LocalKafka, namespace: str) -> None:
    topic = f"{namespace}.t"
    create_topic(kafka, topic)
    producer = Producer({**client_settings(kafka.login()), "transactional.id": namespace, **QUIET})
    producer.init_transactions(30)
    for value, commit in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(10)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)

    assert read(kafka, topic, 1) == [b"committed"]


def test_transaction_of_a_dead_producer_holds_readers_back_for_its_timeout_only(
    kafka: LocalKafka, namespace: str
) -> None:
    topic = f"{namespace}.t"
    create_topic(kafka, topic)
    settings = {**client_settings(kafka.login()), "transactional.id": namespace, "transaction.timeout.ms": 2000}
    dying = Producer({**settings, **QUIET})
    dying.init_transactions(30)
    dying.begin_transaction()
    dying.produce(topic, b"never committed")
    assert dying.flush(10) == 0
    write(kafka, topic, b"behind it")

    began = time.monotonic()
    assert read(kafka, topic, 1, timeout_s=15) == [b"behind it"]
    assert time.monotonic() - began < 6


def test_killed_group_member_is_replaced_within_its_session(kafka: LocalKafka, namespace: str) -> None:
    topic = f"{namespace}.t"
    create_topic(kafka, topic, partitions=2)
    script = (
        "import sys; from pathlib import Path; from confluent_kafka import Consumer;"
        "from bat_events.log.cluster import Cluster, client_settings;"
        "file = Path(sys.argv[4]);"
        "login = Cluster(bootstrap=sys.argv[1], principal='admin', user='admin', password_file=file);"
        "c = Consumer({**client_settings(login), 'group.id': sys.argv[2], 'group.protocol': 'consumer'});"
        "c.subscribe([sys.argv[3]])\n"
        "while True:\n    c.poll(0.1)\n    if c.assignment(): print('assigned', flush=True)\n"
    )
    command = [sys.executable, "-c", script, kafka.bootstrap, namespace, topic, str(kafka.secrets / "admin")]
    doomed = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    survivor = Consumer(
        {**client_settings(kafka.login()), "group.id": namespace, "group.protocol": "consumer", **QUIET}
    )
    try:
        assert doomed.stdout is not None
        assert doomed.stdout.readline() == "assigned\n"
        doomed.stdout.close()  # it dies of the broken pipe at its next line: no goodbye to the group
        doomed.kill()
        doomed.wait()
        survivor.subscribe([topic])

        def has_both() -> bool:
            survivor.poll(0.05)
            return len(survivor.assignment()) == 2

        until(has_both, 12)
    finally:
        survivor.close()
        doomed.kill()
        doomed.wait()


def test_nothing_that_was_logged_or_committed_expires(kafka: LocalKafka) -> None:
    admin = AdminClient({**client_settings(kafka.login()), **QUIET})
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    settings = {name: entry.value for name, entry in admin.describe_configs([resource])[resource].result(30).items()}

    assert settings["log.retention.ms"] == "-1"
    assert int(settings["offsets.retention.minutes"]) >= 60 * 24 * 365 * 100
    assert settings["auto.create.topics.enable"] == "false"
    assert (settings["group.consumer.session.timeout.ms"], settings["group.min.session.timeout.ms"]) == ("6000", "6000")


def test_broker_listens_on_the_loopback_only_and_stays_small(kafka: LocalKafka) -> None:
    process = psutil.Process(kafka.status().pid)
    listening = {
        entry.laddr.ip.removeprefix("::ffff:") for entry in process.net_connections() if entry.status == "LISTEN"
    }
    assert listening == {"127.0.0.1"}
    assert process.memory_info().rss < 512 << 20


# -- what the machine may lack


def test_missing_java_is_one_line_that_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(BrokerUnavailable, match=r"needs Java 17 .* apt-get install .*jre") as caught:
        LocalKafka(tmp_path, env={"PATH": ""}).up()
    assert "\n" not in str(caught.value)


def test_java_that_is_too_old_is_named(tmp_path: Path) -> None:
    program(tmp_path / "java", "echo 'openjdk version \"11.0.24\" 2024-07-16' >&2")
    with pytest.raises(BrokerUnavailable, match=r'Java 17 or newer; .*java -version says openjdk version "11\.0\.24"'):
        LocalKafka(tmp_path / "home", env={"PATH": str(tmp_path)}).up()


def test_missing_maven_is_one_line_and_only_when_the_jars_are_missing(tmp_path: Path) -> None:
    with pytest.raises(BrokerUnavailable, match=r"Maven.* is missing: install it \(Debian: apt-get .*maven") as caught:
        ensure_jars({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})
    assert "\n" not in str(caught.value)

    have = ensure_jars(os.environ)
    assert ensure_jars({"PATH": "", "BAT_KAFKA_JARS": str(have)}) == have


def test_jars_are_there_completely_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "jars"
    env = {"PATH": str(tmp_path), "BAT_KAFKA_JARS": str(folder)}
    copies_one = 'for word; do case "$word" in -DoutputDirectory=*) : >"${word#*=}/kafka_2.13-9.jar";; esac; done'

    program(tmp_path / "mvn", f"{copies_one}; echo '[ERROR] the line is cut'; exit 1")
    with pytest.raises(BrokerUnavailable, match="the line is cut"):
        ensure_jars(env)
    assert not [path for path in folder.parent.iterdir() if path.is_dir()]

    program(tmp_path / "mvn", copies_one)
    assert jars_version(ensure_jars(env)) == "9"


def test_named_cluster_is_used_and_nothing_is_started(tmp_path: Path) -> None:
    env = {"PATH": "", "BAT_KAFKA_BOOTSTRAP": "kafka.example:9092"}
    assert bootstrap_for(tmp_path, env) == "kafka.example:9092"
    assert not any(tmp_path.iterdir())
    status = LocalKafka(tmp_path, env=env).status()
    assert dataclasses.replace(status, version=None, log=Path()) == dataclasses.replace(
        status,
        running=False,
        pid=None,
        port=None,
        bootstrap=None,
        secured=False,
        data_bytes=0,
        version=None,
        log=Path(),
    )


def program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
