"""Given a running auditor on the real Kafka, events that go on coming and questions that go on being asked, the audit file is
rebuilt, the rebuilder killed, the auditor killed, the file tampered with: no question fails, nothing is lost or left wrong."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import pytest

from bat_events.audit.errors import AuditError
from bat_events.audit.places import audit_path, new_path
from bat_events.audit.run import run_query
from bat_events.log.acls import apply_access
from bat_events.log.admin import apply_topics
from bat_events.log.interface import Outgoing
from bat_events.log.kafka import KafkaWriter
from bat_events.log.local_kafka import LocalKafka

sys.path.insert(0, str(Path(__file__).parents[1] / "audit"))
from audit_log import PARTITIONS, campaign

pytestmark = pytest.mark.kafka

COUNT = "SELECT count(*) FROM events"


class Home:
    """A home on the test's broker, and `bat-events` in processes of their own."""

    def __init__(self, path: Path, kafka: LocalKafka, namespace: str) -> None:
        self.path, self.namespace = path, namespace
        self._env = {
            **os.environ,
            "BAT_HOME": str(path),
            "BAT_NAMESPACE": namespace,
            "BAT_KAFKA_BOOTSTRAP": kafka.bootstrap,
            "BAT_KAFKA__SECURITY": "scram",
            "BAT_KAFKA__SECRETS": str(kafka.secrets),
        }

    def start(self, *words: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "bat_events.cli.main", *words]
        return subprocess.Popen(command, env=self._env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *words: str) -> "tuple[int, str]":
        process = self.start(*words)
        out, error = process.communicate(timeout=120)
        return process.returncode, out + error

    def count(self) -> int:
        try:
            return int(run_query(self.path, self.namespace, sql=COUNT).rows[0][0])
        except AuditError:  # nothing was materialised yet
            return -1

    def until(self, count: int) -> None:
        deadline = time.monotonic() + 90
        while self.count() < count:
            assert time.monotonic() < deadline, f"{self.count()} of {count} events"
            time.sleep(0.1)


def ask_on(home: Home, over: threading.Event, seen: list[tuple[int, int]]) -> None:
    """Questions one after another: (sum of as-of offsets, events); an error ends the thread, and the test fails."""
    while not over.is_set():
        result = run_query(home.path, home.namespace, sql=COUNT)
        as_of = sum(offset for parts in result.as_of.values() for offset in parts.values())
        seen.append((as_of, result.rows[0][0]))
    seen.append((-1, -1))


def test_rebuilt_under_way_tampered_and_killed(kafka: LocalKafka, namespace: str, tmp_path: Path) -> None:
    apply_access(kafka.login(), namespace, kafka.secrets, own=True)
    apply_topics(kafka.login(), namespace, partitions=PARTITIONS["reward"])
    writer = KafkaWriter(bootstrap=kafka.login(), namespace=namespace, name="test")
    home = Home(tmp_path, kafka, namespace)
    out = [item for number in range(3) for item in campaign(f"c{number}").out]
    poison = Outgoing(topic="reward", partition=0, key=b"x", value=b"\x00", headers=())
    first = len(out) // 3
    writer.publish([*out[:first], poison, out[0]])
    auditor = home.start("serve", "auditor")
    home.until(first)

    over, seen = threading.Event(), []  # type: ignore[var-annotated]
    asking = threading.Thread(target=ask_on, args=(home, over, seen))
    asking.start()
    writing = threading.Thread(target=lambda: [writer.publish([item]) for item in out[first:]])
    writing.start()

    killed = home.start("audit", "rebuild")
    while not new_path(audit_path(tmp_path, namespace)).exists():
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.01)
    killed.kill()
    killed.wait()

    code, said = home.run("audit", "rebuild")
    assert code == 0, said
    assert "the running auditor took it over" in said
    writing.join()
    home.until(len(out))
    over.set()
    asking.join()
    assert seen.pop() == (-1, -1)
    assert seen == sorted(seen)  # no answer goes back behind an earlier one
    code, said = home.run("audit", "rebuild", "--check")
    assert code == 0, said

    auditor.kill()
    auditor.wait()
    with duckdb.connect(str(audit_path(tmp_path, namespace))) as live:
        live.execute("UPDATE evaluation_reported SET overall = 0.99 WHERE round = 1")
    auditor = home.start("serve", "auditor")
    home.until(len(out))
    code, said = home.run("audit", "rebuild", "--check")
    assert code == 1, said
    assert "evaluation_reported" in said
    assert "boundary.report[0]@" in said
    code, said = home.run("audit", "rebuild")
    assert code == 0, said
    assert "what differed is mended" in said
    assert len(run_query(tmp_path, namespace, name="duplicates", params={"campaign": "c0"}).rows) == 1
    assert len(run_query(tmp_path, namespace, name="undecodable").rows) == 1
    auditor.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        auditor.communicate(timeout=30)
    assert auditor.returncode == 0
    assert {path.name for path in (tmp_path / "audit").glob("*.duckdb")} == {f"{namespace}.duckdb"}
