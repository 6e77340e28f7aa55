"""Given a campaign on the real Kafka and an auditor that is killed again and again, the audit holds every event once."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from bat_events.audit.errors import AuditError
from bat_events.audit.run import run_query
from bat_events.log.acls import apply_access
from bat_events.log.admin import apply_topics
from bat_events.log.interface import Outgoing
from bat_events.log.kafka import KafkaWriter
from bat_events.log.local_kafka import LocalKafka

sys.path.insert(0, str(Path(__file__).parents[1] / "audit"))
from audit_log import PARTITIONS, campaign

pytestmark = pytest.mark.kafka

_SERVE = """
import sys
from pathlib import Path
from bat_events.consumers.registry import build
from bat_events.service.context import Context, sign_in
from bat_events.service.run import run_service
from bat_events.service.runtime import Status
from bat_events.settings import load_settings
home, namespace, bootstrap, secrets = sys.argv[1:]
settings = load_settings(home=Path(home), namespace=namespace, kafka={"security": "scram", "secrets": secrets})
login = sign_in(settings, bootstrap, "auditor")
sys.exit(run_service("auditor", Context(settings=settings, bootstrap=login, status=Status(service="auditor")), build))
"""


def _until(condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.1)


def test_an_auditor_that_is_killed_loses_and_doubles_nothing(kafka: LocalKafka, namespace: str, tmp_path: Path) -> None:
    apply_access(kafka.login(), namespace, kafka.secrets, own=True)
    apply_topics(kafka.login(), namespace, partitions=PARTITIONS["reward"])
    writer = KafkaWriter(bootstrap=kafka.login(), namespace=namespace, name="test")
    out = campaign().out
    third = len(out) // 3

    def serve() -> "subprocess.Popen[bytes]":
        words = [str(tmp_path), namespace, kafka.bootstrap, str(kafka.secrets)]
        return subprocess.Popen([sys.executable, "-c", _SERVE, *words])

    def count() -> int:
        try:
            return int(run_query(tmp_path, namespace, sql="SELECT count(*) FROM events").rows[0][0])
        except AuditError:  # no file yet, or the auditor was killed while it answered
            return -1

    def until_more_than(known: int) -> None:
        _until(lambda: count() > known, f"the auditor materialises more than {known} events")

    published = 0
    for part in (out[:third], out[third : 2 * third]):
        auditor = serve()
        for item in part:
            writer.publish([item])  # a transaction each, so that markers leave gaps in the offsets
        until_more_than(published)
        published += len(part)
        auditor.kill()
        auditor.wait()

    poison = Outgoing(topic="reward", partition=0, key=b"x", value=b"\x00", headers=())
    writer.publish([*out[2 * third :], poison, out[-1]])
    auditor = serve()
    _until(lambda: count() == len(out), "every event is there")
    found = run_query(tmp_path, namespace, sql="SELECT type, count(*) FROM events GROUP BY type")
    assert found.source == "auditor"
    assert dict(found.rows) == Counter(_type(item) for item in out)
    assert len(run_query(tmp_path, namespace, name="duplicates").rows) == 1
    assert len(run_query(tmp_path, namespace, name="undecodable").rows) == 1
    assert [row["decision"] for row in run_query(tmp_path, namespace, name="rounds").dicts()] == ["promoted", "held"]
    assert run_query(tmp_path, namespace, name="boundary_crossings", params={"only_violations": "yes"}).rows == ()

    auditor.terminate()
    assert auditor.wait(30) == 0
    stopped = run_query(tmp_path, namespace, sql="SELECT type, count(*) FROM events GROUP BY type")
    assert stopped.source == "file"
    assert sorted(stopped.rows) == sorted(found.rows)
    assert stopped.as_of == found.as_of


def _type(item: Outgoing) -> str:
    return dict(item.headers)["ce_type"].decode().split(".")[1]
