"""Groups on a real log, and processes that work on them: started, watched, stopped, killed."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bat_events.codec import Codec
from bat_events.deciders.interface import Draft
from bat_events.domain.canonical import digest, identifier
from bat_events.domain.grouping import group_id
from bat_events.domain.vocabulary import Focus, Pool, Track
from bat_events.events.base import Event
from bat_events.events.rounds import GroupRequested
from bat_events.log.acls import apply_access
from bat_events.log.admin import admin_client, apply_topics
from bat_events.log.cluster import Address
from bat_events.log.interface import Outgoing
from bat_events.log.kafka import KafkaReader, KafkaWriter
from bat_events.log.local_kafka import LocalKafka
from bat_events.log.placement import place_of_group
from bat_events.log.topics import TOPICS
from bat_events.service.emit import outgoing

from .simulated import rollout

CAMPAIGN = "scaling"
_SERVICE = Path(__file__).with_name("simulated.py")


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One group to be worked on: its place in the campaign and how long its work takes."""

    step: int
    slot: int
    work_ms: int

    @property
    def group(self) -> str:
        """Its id, which is its key."""
        return group_id(CAMPAIGN, 1, self.step, self.slot)

    def partition(self, partitions: int) -> int:
        """Where it stands."""
        return place_of_group(self.step, self.slot, partitions)


def pieces(work_ms: Sequence[int], *, first: int = 0) -> list[Piece]:
    """Groups with the ids that a planner gives them, eight a step: they are placed as in a campaign."""
    return [Piece(step=number // 8, slot=number % 8, work_ms=ms) for number, ms in enumerate(work_ms, start=first * 8)]


def request(piece: Piece, partitions: int, size: int, service: str = "rollout") -> Outgoing:
    """The event that asks for a group; for a judge one rollout of it."""
    asked = GroupRequested(
        group=piece.group,
        round=1,
        step=piece.step,
        slot=piece.slot,
        attempt=0,
        pool=Pool.S_TARGET,
        focus=Focus.S3,
        track=Track.SEGMENTATION,
        state=identifier("state", piece.group),
        body=digest({"body": piece.group}),
        weights=digest({"weights": 1}),
        seed=piece.work_ms,
        size=size,
    )
    event: Event = asked if service == "rollout" else rollout(asked, 0)
    draft = Draft(
        event=event,
        campaign=CAMPAIGN,
        cause=identifier("plan", piece.group),
        ordinal=piece.slot,
        key=piece.group,
        round=1,
    )
    counts = {spec.name: partitions if spec.parallel else 1 for spec in TOPICS}
    return outgoing(draft, source="bat/planner", logic="planner/1", time=datetime.now(UTC), partitions=counts)


@dataclass
class Fleet:
    """Processes of one service in one namespace. A context manager: what still runs at its end is killed."""

    kafka: LocalKafka
    home: Path
    namespace: str
    partitions: int
    service: str = "rollout"
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def __enter__(self) -> "Fleet":
        self.home.mkdir(parents=True, exist_ok=True)
        apply_access(self.admin, self.namespace, self.kafka.secrets, own=True)
        apply_topics(self.admin, self.namespace, partitions=self.partitions)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    @property
    def admin(self) -> Address:
        """The broker as its administrator."""
        return self.kafka.login()

    @property
    def env(self) -> dict[str, str]:
        """Settings of a process of this namespace."""
        return {
            **os.environ,
            "BAT_HOME": str(self.home),
            "BAT_NAMESPACE": self.namespace,
            "BAT_KAFKA_BOOTSTRAP": self.kafka.bootstrap,
            "BAT_KAFKA__SECURITY": "scram",
            "BAT_KAFKA__SECRETS": str(self.kafka.secrets),
            "OMP_NUM_THREADS": "1",
        }

    @property
    def journal(self) -> Path:
        """What the processes note."""
        return self.home / "journal.jsonl"

    def notes(self) -> list[dict[str, Any]]:
        """Every line of the journal that is whole, in order."""
        text = self.journal.read_text() if self.journal.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def last(self, pid: int) -> str:
        """What a process noted last."""
        return [str(note["what"]) for note in self.notes() if note["pid"] == pid][-1]

    def publish(self, some: Iterable[Piece], *, size: int = 2) -> float:
        """Put groups on the log; gives the moment at which they could be read (s since the epoch)."""
        writer = KafkaWriter(bootstrap=self.admin, namespace=self.namespace, name="bench")
        writer.publish([request(piece, self.partitions, size, self.service) for piece in some])
        return time.time()

    def start(self, count: int = 1) -> list["subprocess.Popen[bytes]"]:
        """More processes of the service."""
        output = (self.home / "services.out").open("ab")
        words = [sys.executable, str(_SERVICE), str(self.journal), self.service]
        new = [
            subprocess.Popen(words, env=self.env, stdout=output, stderr=output, start_new_session=True)
            for _ in range(count)
        ]
        output.close()
        self.processes += new
        return new

    def stop(self) -> None:
        """Ask all to end, and wait."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(60)
        self.processes.clear()

    def owners(self) -> dict[int, int]:
        """Partition -> number of the member that has it, as the broker says."""
        group = f"{self.namespace}.{self.service}"
        admin = admin_client(self.admin)  # kept: its futures end with it
        described = admin.describe_consumer_groups([group])[group].result(10)
        return {
            place.partition: number
            for number, member in enumerate(described.members)
            for place in (member.assignment.topic_partitions if member.assignment else [])
        }

    def await_shares(self, members: int, *, within_s: float = 120.0) -> None:
        """Wait until each of so many members has as many partitions as the others, or one more."""

        def shared() -> bool:
            shares = Counter(self.owners().values())
            return (
                len(shares) == members
                and sum(shares.values()) == self.partitions
                and max(shares.values()) - min(shares.values()) <= 1
            )

        until(shared, f"{members} members share {self.partitions} partitions", within_s, every_s=0.25)
        time.sleep(1.0)  # the members have heard of it, too

    def outputs(self) -> "Outputs":
        """What the service has written."""
        topic = "rollout" if self.service == "rollout" else "reward"
        return Outputs(self.admin, self.namespace, topic)


class Outputs:
    """Follows the service's output topic."""

    def __init__(self, address: Address, namespace: str, topic: str) -> None:
        self._reader = KafkaReader(bootstrap=address, namespace=namespace, topics=[topic])
        self._codec = Codec()
        self.ids: Counter[str] = Counter()
        """How often each event id was committed."""
        self.groups: set[str] = set()
        self.last = 0.0
        """When the last of them was written (s since the epoch)."""

    def poll(self) -> None:
        """Read what is new."""
        for record in self._reader.poll(500, 0.1):
            headers = dict(record.headers)
            self.ids[headers["ce_id"].decode()] += 1
            self.groups.add(record.key.decode())
            self.last = max(self.last, record.timestamp_ms / 1000)

    def wait(self, groups: Iterable[str], *, within_s: float) -> float:
        """Until each of these groups has an answer; gives when the last was written (s since the epoch)."""
        wanted = set(groups)

        def there() -> bool:
            self.poll()
            return wanted <= self.groups

        until(there, f"{len(wanted)} groups are answered", within_s, every_s=0.0)
        return self.last

    def close(self) -> None:
        """Stop following."""
        self._reader.close()


class Feeder:
    """Keeps so many groups unanswered until it is ended: a round that goes on however long the processes take to start."""

    def __init__(self, fleet: Fleet, work_ms: int, waiting: int) -> None:
        self._fleet, self._work_ms, self._waiting = fleet, work_ms, waiting
        self.outputs = fleet.outputs()
        self.asked: set[str] = set()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._feed)
        self._thread.start()

    def _feed(self) -> None:
        writer = KafkaWriter(bootstrap=self._fleet.admin, namespace=self._fleet.namespace, name="feeder")
        for batch in itertools.count():
            some = pieces([self._work_ms] * self._waiting, first=batch * self._waiting // 8)
            writer.publish([request(piece, self._fleet.partitions, 1, self._fleet.service) for piece in some])
            self.asked |= {piece.group for piece in some}
            while len(self.asked) - len(self.outputs.groups) >= self._waiting:
                if self._end.is_set():
                    return
                self.outputs.poll()
            if self._end.is_set():
                return

    def stop(self) -> None:
        """Ask for no more."""
        self._end.set()
        self._thread.join()

    def finish(self, within_s: float) -> float:
        """Ask for no more and wait for every answer; gives when the last was written (s since the epoch)."""
        self.stop()
        return self.outputs.wait(self.asked, within_s=within_s)


def until(condition: Callable[[], bool], what: str, within_s: float, *, every_s: float = 0.1) -> None:
    """Wait until something holds. Raises TimeoutError naming it."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within_s:g} s: {what}")
        time.sleep(every_s)


def by_process(notes: Iterable[dict[str, Any]]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The journal's lines of each process."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for note in notes:
        found[note["pid"]].append(note)
    yield from found.items()
