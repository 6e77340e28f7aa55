"""The field: a broker of its own, a home, every service as a process under the supervisor, and what can be done to them.

Processes are signalled only by the pids that the supervisor of this field started.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bat_events.codec import Codec, Fact
from bat_events.consumers.registry import SERVICES
from bat_events.errors import LogError
from bat_events.log.cluster import client_settings
from bat_events.log.interface import Partition
from bat_events.log.kafka import KafkaReader
from bat_events.log.local_kafka import LocalKafka
from bat_events.log.topics import SCHEMA_TOPIC, TOPICS, broker_name
from bat_events.service.metrics_lag import LagReader
from bat_events.service.run import log_folder
from bat_events.service.supervisor import Supervisor
from tests.e2e.commands import Home

ROOT = Path(__file__).resolve().parents[2]
TOPIC_NAMES = tuple(spec.name for spec in TOPICS if spec.name != SCHEMA_TOPIC)
RESTART_S = 0.3
_LAST_LINES = 12
TRANSACTIONAL = ("bank", "planner", "rollout", "judge", "trainer", "gate", "teacher", "synthesizer", "leakage-gate")
"""Services that write often enough to be caught inside a transaction."""
ALONE = frozenset(("auditor", "heldout-auditor"))
"""Their file has one owner: no second instance is started beside a frozen one."""


class Unruly(Supervisor):
    """The supervisor, never tired of restarting, quickly; and with processes that obey orders (tests.chaos.service)."""

    def __init__(self, home: Home) -> None:
        super().__init__(
            list(SERVICES),
            env={**home.env, "PYTHONPATH": str(ROOT)},
            logs=lambda service: log_folder(home.path, home.namespace, service),
            max_deaths=1_000_000,
        )

    def poll(self) -> list[str]:
        """See Supervisor.poll."""
        lines = super().poll()
        soon = time.monotonic() + RESTART_S
        for child in self.children:
            if child.restart_at is not None:
                child.restart_at = min(child.restart_at, soon)
        return lines

    def replace(self, service: str) -> "subprocess.Popen[bytes]":
        """Start a second instance, supervised from now on; returns the first, which is let go of."""
        child = next(child for child in self.children if child.name == service)
        let_go, child.process, child.started = child.process, self._spawn(service), time.monotonic()
        return let_go

    def _spawn(self, name: str) -> "subprocess.Popen[bytes]":
        folder = self._logs(name)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{name}.out").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.service", name],
                env=self._env,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )


class Watch:
    """Reads everything that is committed as it comes, also over restarts of the broker."""

    def __init__(self, home: Home) -> None:
        self._home, self._codec = home, Codec()
        self._reader: KafkaReader | None = None
        self._at: dict[Partition, int] = {}
        self.facts: list[Fact] = []
        self.kinds: dict[str, int] = {}

    def look(self, timeout_s: float = 0.05) -> int:
        """Take what is new; how many. Nothing while the broker is away."""
        new = 0
        try:
            if self._reader is None:
                self._reader = KafkaReader(
                    bootstrap=self._home.kafka.login(),
                    namespace=self._home.namespace,
                    topics=TOPIC_NAMES,
                    start=self._at,
                )
            while records := self._reader.poll(500, timeout_s):
                for record in records:
                    fact = self._codec.decode(record)
                    self.facts.append(fact)
                    kind = type(fact.event).__name__
                    self.kinds[kind] = self.kinds.get(kind, 0) + 1
                    self._at[record.place] = record.offset + 1
                new += len(records)
        except LogError:
            self.close()
        return new

    def close(self) -> None:
        """Stop reading."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class Field:
    """See the module."""

    def __init__(self, path: Path, *, kafka: LocalKafka, namespace: str, secrets: Path | None = None) -> None:
        path.mkdir(parents=True)
        if secrets is not None:
            shutil.copytree(secrets, path / "secrets")
        self.home = Home(path, kafka=kafka, namespace=namespace)
        self.home.env["BAT_SERVICE__DEATHS"] = "100000"  # that a process dies here is never its record's fault
        self.kafka = kafka
        self.orders = path / "chaos"
        self.orders.mkdir()
        self.watch = Watch(self.home)
        self.supervisor: Unruly | None = None
        self.zombies: list[tuple[str, subprocess.Popen[bytes]]] = []
        self.lines: list[str] = []

    @contextlib.contextmanager
    def serving(self) -> Iterator[Unruly]:
        """Every service runs, restarted when it ends, for as long as this lasts; then all have ended."""
        self.supervisor = Unruly(self.home)
        try:
            yield self.supervisor
        finally:
            for order in self.orders.glob("*.order"):
                order.unlink(missing_ok=True)
            for process in [child.process for child in self.supervisor.children] + [p for _, p in self.zombies]:
                _signal(process, signal.SIGCONT)
            for _, process in self.zombies:
                _signal(process, signal.SIGTERM)
            self.supervisor.stop()
            for _, process in self.zombies:
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            self.watch.close()

    def tend(self) -> None:
        """Restart who has ended, and read on. To be called often."""
        assert self.supervisor is not None
        self.lines += self.supervisor.poll()
        assert not self.supervisor.refused, self.supervisor.refused
        self.watch.look()

    def until(
        self, done: Callable[[], bool], *, timeout_s: float, what: str, look: Callable[[], object] | None = None
    ) -> None:
        """Tend until `done()` is true. Raises AssertionError with what the services say after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {timeout_s:g} s\n{self.report()}")
            (look or self.tend)()

    def report(self) -> str:
        """Where everything stands: what the services say, what the broker knows of them, the last lines of their logs."""
        lines = [f"{name}: {self.doing(name)}" for name in SERVICES]
        with contextlib.suppress(LogError, KafkaException):
            lines.append(f"behind open transactions: {self.held_back()}")
            folder = self.home.path / "run" / self.home.namespace
            reader = LagReader(self.kafka.login("monitor", self.home.namespace), self.home.namespace, folder)
            try:
                lines += [str(row) for row in reader.read() if row.records or row.members == 0]
            finally:
                reader.close()
        for name in SERVICES:
            log = log_folder(self.home.path, self.home.namespace, name) / f"{name}.log"
            if log.exists():
                lines += [f"-- {name}", *log.read_text().splitlines()[-_LAST_LINES:]]
        return "\n".join(lines)

    def rest(self, seconds: float) -> None:
        """Tend for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tend()

    # -- processes

    def process(self, service: str) -> "subprocess.Popen[bytes] | None":
        """The supervised process of a service; None between a death and the next start."""
        assert self.supervisor is not None
        child = next(child for child in self.supervisor.children if child.name == service)
        return child.process if child.process.poll() is None else None

    def doing(self, service: str, since: float = 0.0) -> str:
        """What a service's process says that it does; empty where it has not said so since that time of day."""
        process = self.process(service)
        if process is None:
            return ""
        path = self.home.path / "run" / self.home.namespace / f"{service}.{process.pid}.json"
        with contextlib.suppress(FileNotFoundError):
            said = json.loads(path.read_text())
            return str(said["doing"]) if said["at"] >= since else ""
        return ""

    def alive(self) -> list[str]:
        """The services whose process runs now."""
        return [name for name in SERVICES if self.process(name) is not None]

    def kill(self, services: Sequence[str]) -> list[str]:
        """kill -9, all of them before any is waited for; returns those that were running."""
        found = [(name, process) for name in services if (process := self.process(name)) is not None]
        for _, process in found:
            _signal(process, signal.SIGKILL)
        for _, process in found:
            process.wait(10)
        return [name for name, _ in found]

    def order(self, service: str, moment: str, act: str) -> None:
        """From its next passing of a commit point on, a service is dead (`kill`) or frozen (`stop`)."""
        fresh = self.orders / f"{service}.new"
        fresh.write_text(f"{moment} {act}")
        fresh.replace(self.orders / f"{service}.order")

    def ordered(self, service: str) -> bool:
        """Whether the order still waits."""
        return (self.orders / f"{service}.order").exists()

    def withdraw(self, service: str) -> bool:
        """Take an order back; whether it was not obeyed yet."""
        try:
            (self.orders / f"{service}.order").unlink()
        except FileNotFoundError:
            return False
        return True

    def frozen(self, service: str) -> str | None:
        """The moment at which a service froze itself; None where its process runs."""
        mark = self.orders / f"{service}.frozen"
        process = self.process(service)
        if process is None or not mark.exists():
            return None
        pid, moment = mark.read_text().split()
        return moment if int(pid) == process.pid and _stopped(process.pid) else None

    def stop(self, service: str) -> bool:
        """SIGSTOP; whether it was running."""
        process = self.process(service)
        if process is not None:
            _signal(process, signal.SIGSTOP)
        return process is not None

    def let_go(self, service: str) -> "subprocess.Popen[bytes]":
        """Start another instance in a frozen one's place; the frozen one is a zombie from now on."""
        assert self.supervisor is not None
        zombie = self.supervisor.replace(service)
        self.zombies.append((service, zombie))
        return zombie

    def go_on(self, process: "subprocess.Popen[bytes] | None") -> None:
        """SIGCONT."""
        if process is not None:
            _signal(process, signal.SIGCONT)

    # -- the broker

    def kill_broker(self) -> None:
        """kill -9 of the broker."""
        pid = self.kafka.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        while self.kafka.status().running:
            time.sleep(0.05)

    def held_back(self) -> list[str]:
        """Partitions that stand behind an open transaction: their last stable offset is below their end."""
        admin = AdminClient(dict(client_settings(self.kafka.login())))
        places = [
            TopicPartition(broker_name(self.home.namespace, name), number) for name, number in self._partitions(admin)
        ]
        ends = _offsets(admin, places, IsolationLevel.READ_UNCOMMITTED)
        stable = _offsets(admin, places, IsolationLevel.READ_COMMITTED)
        return sorted(place for place, end in ends.items() if stable[place] < end)

    def _partitions(self, admin: AdminClient) -> list[Partition]:
        known = admin.list_topics(timeout=30).topics
        return [(name, n) for name in TOPIC_NAMES for n in known[broker_name(self.home.namespace, name)].partitions]

    @contextlib.contextmanager
    def stranger(self) -> Iterator[None]:
        """A producer that is inside a transaction on `dead-letter` for as long as this lasts, and never commits it.

        What it wrote is no event: a reader that saw it would fail on it.
        """
        producer = Producer(
            {
                **client_settings(self.kafka.login()),
                "transactional.id": f"{self.home.namespace}.stranger",
                "transaction.timeout.ms": 10_000,
            }
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(broker_name(self.home.namespace, "dead-letter"), key=b"same", value=b"never committed")
        producer.flush(30)
        try:
            yield
        finally:
            del producer  # as a death does, it leaves the transaction open: its time-out ends it


def _offsets(admin: AdminClient, places: Sequence[TopicPartition], level: IsolationLevel) -> Mapping[str, int]:
    asked = admin.list_offsets({place: OffsetSpec.latest() for place in places}, isolation_level=level)
    return {f"{place.topic}[{place.partition}]": future.result().offset for place, future in asked.items()}


def _stopped(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


def some(chance: random.Random, names: Sequence[str], count: int) -> list[str]:
    """A sample in the order of a seeded draw."""
    return chance.sample(list(names), min(count, len(names)))
