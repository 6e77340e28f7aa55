"""A home of its own and the command line, as a user would type it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bat_events.codec import Codec, Fact
from bat_events.log.acls import apply_access
from bat_events.log.admin import list_topics
from bat_events.log.kafka import KafkaReader
from bat_events.log.local_kafka import LocalKafka
from bat_events.log.topics import SCHEMA_TOPIC, TOPICS

# The part of the log that a fact is compared by: circumstances (time, cost, trace, cut) differ from run to run.
Identity = dict[str, tuple[str, str, str]]
SEAL_TOPICS = ("seal", "heldout.seal")


class Home:
    """BAT_HOME, a namespace and a broker with access rules; commands run in processes of their own."""

    def __init__(self, path: Path, *, kafka: LocalKafka, namespace: str) -> None:
        self.path, self.kafka, self.namespace = path, kafka, namespace
        apply_access(kafka.login(), namespace, kafka.secrets, own=True)
        self.env = {
            **os.environ,
            "BAT_HOME": str(path),
            "BAT_NAMESPACE": namespace,
            "BAT_KAFKA_BOOTSTRAP": kafka.bootstrap,
            "BAT_KAFKA__SECURITY": "scram",
            "BAT_KAFKA__SECRETS": str(kafka.secrets),
            "OMP_NUM_THREADS": "1",
        }

    def run(self, *words: str, code: int = 0, timeout_s: float = 120.0) -> str:
        """A command's standard output; its exit code must be `code`."""
        done = subprocess.run(
            [sys.executable, "-m", "bat_events.cli.main", *words],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def ask(self, sql: str) -> list[dict[str, Any]]:
        """Rows of an audit query."""
        answer = json.loads(self.run("audit", "--sql", sql, "--format", "json"))
        return [
            dict(zip(answer["columns"], row, strict=True)) if isinstance(row, list) else row for row in answer["rows"]
        ]

    @contextmanager
    def serving(self, *names: str) -> Any:
        """Services under a supervisor for as long as this lasts; yields the supervisor's process."""
        output = (self.path / "serve.out").open("ab")
        process = subprocess.Popen(
            [sys.executable, "-m", "bat_events.cli.main", "serve", *names],
            env=self.env,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            finally:
                output.close()

    def facts(self, *topics: str) -> list[Fact]:
        """Every committed event of these topics (all but the schemas by default), in the order of each partition."""
        names = list(topics) or [spec.name for spec in TOPICS if spec.name != SCHEMA_TOPIC]
        reader = KafkaReader(bootstrap=self.kafka.login(), namespace=self.namespace, topics=names)
        codec, found = Codec(), []
        while not reader.caught_up():
            found += [codec.decode(record) for record in reader.poll(500, 0.2)]
        reader.close()
        return found

    def wait(self, condition: Callable[[list[Fact]], bool], *topics: str, timeout_s: float = 240.0) -> list[Fact]:
        """The facts of the topics once `condition` holds."""
        deadline = time.monotonic() + timeout_s
        while True:
            facts = self.facts(*topics)
            if condition(facts):
                return facts
            assert time.monotonic() < deadline, f"not within {timeout_s} s; services: {self.doing()}"
            time.sleep(0.3)

    def wait_for_topics(self, timeout_s: float = 60.0) -> None:
        """Until the namespace's topics are there."""
        deadline = time.monotonic() + timeout_s
        while not all(state.partitions for state in list_topics(self.kafka.login(), self.namespace)):
            assert time.monotonic() < deadline
            time.sleep(0.3)

    def doing(self) -> dict[str, str]:
        """What the services say they do."""
        files = (self.path / "run" / self.namespace).glob("*.json")
        return {str(data["service"]): str(data["doing"]) for data in (json.loads(f.read_text()) for f in files)}

    def counts(self, service: str) -> dict[int, int]:
        """Events written by each process of a service, as their status says."""
        files = (self.path / "run" / self.namespace).glob(f"{service}.*.json")
        return {int(data["pid"]): int(data["out"]) for data in (json.loads(f.read_text()) for f in files)}

    def pid_of(self, service: str) -> int:
        """The process that runs a service now."""
        found = []
        for path in (self.path / "run" / self.namespace).glob(f"{service}.*.json"):
            pid = int(path.name.split(".")[-2])
            if Path(f"/proc/{pid}").exists():
                found.append(pid)
        assert found, f"{service} is not running"
        return found[-1]


def identities(facts: list[Fact]) -> Identity:
    """event id -> (type, cause, body digest) of the first committed event of each id; a seal hashes times, so it has none."""
    found: Identity = {}
    for fact in facts:
        digest = "" if fact.topic in SEAL_TOPICS else fact.envelope.body_digest
        found.setdefault(fact.id, (type(fact.event).__name__, fact.envelope.cause, digest))
    return found


def closed(facts: list[Fact]) -> bool:
    """Whether both planes' logs of a finished campaign are sealed to their end (facts of the seal topics)."""
    ends = {fact.topic for fact in facts if getattr(fact.event, "round", 0) is None}
    return ends == set(SEAL_TOPICS)


def finished(facts: list[Fact]) -> bool:
    """Whether a campaign has ended."""
    return any(type(fact.event).__name__ == "CampaignFinished" for fact in facts)
