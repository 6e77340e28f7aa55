"""A whole campaign in memory: the real deciders under the real reactor, workers that only state plausible facts.

Who works next, how much it reads, and when a decider is killed and started anew are drawn from a seed; what the workers
state is a function of their cause alone. So two seeds give the same decisions, in other orders and with other cuts.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from bat_events.codec import Codec, Fact
from bat_events.deciders.interface import Decider, Draft
from bat_events.deciders.old.bank import BankV1
from bat_events.deciders.old.planner import PlannerV1, PlannerV2
from bat_events.deciders.premises import Premises, impossible
from bat_events.deciders.versions import NEWEST, versions_of
from bat_events.domain import rubric
from bat_events.domain.vocabulary import Track
from bat_events.errors import DecodeError
from bat_events.events.base import Event
from bat_events.events.campaign import CampaignStarted, LogicVersion
from bat_events.events.ids import ROOT_CAUSE
from bat_events.events.plan import CampaignPlan, EvaluationPlan, PoolSizes
from bat_events.log.interface import CrashPoint, Outgoing, Partition, Record
from bat_events.log.topics import TOPICS
from bat_events.service.dead_letters import DeadLetterBox
from bat_events.service.emit import outgoing
from bat_events.service.reactor import DeciderRules, ReactorMachine, Rules
from bat_events.service.runtime import InlineExecutor, Status
from tests.replay.workers import WORKERS, Handle, StatingTrainer

PARTITIONS = {spec.name: 3 if spec.parallel else 1 for spec in TOPICS}
VERSION_1: tuple[type[Decider], ...] = (BankV1, *(k for k in NEWEST if k.name in ("gate", "teacher")), PlannerV1)
"""What the first campaigns pinned."""
VERSION_2: tuple[type[Decider], ...] = (*(k for k in NEWEST if k.name != "planner"), PlannerV2)
"""What campaigns pinned before the planner had a breaker."""
CAMPAIGN = (
    "synthetic-15"  # its facts give one promotion, one hold, and groups that are replaced; no round is broken off
)
PLAN = CampaignPlan(
    tracks=(Track.SEGMENTATION, Track.ENHANCEMENT),
    rounds=2,
    steps_per_round=2,
    group_size=3,
    seed=1,
    pools=PoolSizes(s_target=2, s_mix=1, e2e=1),
    evaluation=EvaluationPlan(repeats=4),
)


@dataclass
class TickingClock:
    """A clock that moves by a drawn amount whenever it is read."""

    rng: random.Random
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """See Clock."""
        self.at += timedelta(microseconds=self.rng.randint(1, 50_000))
        return self.at

    def sleep(self, seconds: float) -> None:
        """See Clock."""
        self.at += timedelta(seconds=seconds)


@dataclass
class Store:
    """Committed records and offsets. Every transaction leaves a gap of one offset, as Kafka's markers do."""

    records: dict[Partition, list[Record]] = field(default_factory=dict)
    offsets: dict[str, dict[Partition, int]] = field(default_factory=dict)
    next_offset: dict[Partition, int] = field(default_factory=dict)
    transactions: list[list[Outgoing]] = field(default_factory=list)

    def append(self, outputs: Sequence[Outgoing]) -> None:
        """Commit one transaction."""
        self.transactions.append(list(outputs))
        touched = set()
        for out in outputs:
            where = (out.topic, out.partition)
            touched.add(where)
            offset = self.next_offset.get(where, 0)
            self.next_offset[where] = offset + 1
            record = Record(
                topic=out.topic,
                partition=out.partition,
                offset=offset,
                key=out.key,
                value=out.value,
                headers=out.headers,
                timestamp_ms=out.timestamp_ms or 0,
            )
            self.records.setdefault(where, []).append(record)
        for where in touched:
            self.next_offset[where] += 1

    def all(self) -> list[Record]:
        """Every record, by topic, partition and offset."""
        return [record for where in sorted(self.records) for record in self.records[where]]


class ScrambledLog:
    """A ReactorLog whose polls take a drawn number of records from drawn partitions."""

    def __init__(self, store: Store, rng: random.Random, service: str, topics: Sequence[str]) -> None:
        self._store, self._rng, self._service = store, rng, service
        self._read = {(topic, p): 0 for topic in topics for p in range(PARTITIONS[topic])}
        self._begun = dict(store.offsets.get(service, {}))

    def poll(self, max_records: int, timeout_s: float) -> list[Record]:  # noqa: ARG002
        """See LogReader.poll."""
        found: list[Record] = []
        for _ in range(self._rng.randint(1, 3)):
            unread = [w for w in self._read if self._read[w] < len(self._store.records.get(w, []))]
            if unread:
                where = self._rng.choice(unread)
                count = self._rng.choice((1, 2, 5, 40))
                fresh = self._store.records[where][self._read[where] :][:count]
                self._read[where] += len(fresh)
                found += fresh
        return found

    def caught_up(self) -> bool:
        """See LogReader.caught_up."""
        return all(at >= len(self._store.records.get(where, [])) for where, at in self._read.items())

    def committed(self) -> Mapping[Partition, int]:
        """See ReactorLog.committed."""
        return {where: self._begun.get(where, 0) for where in self._read}

    def commit(self, outputs: Sequence[Outgoing], offsets: Mapping[Partition, int], crash: CrashPoint) -> None:
        """See ReactorLog.commit."""
        crash("begun")
        self._store.append(outputs)
        self._store.offsets.setdefault(self._service, {}).update(offsets)

    def settled(self) -> bool:
        """See ReactorLog.settled."""
        return self.caught_up()

    def close(self) -> None:
        """See LogReader.close."""


class _Premises:
    name, version = Premises.NAME, Premises.VERSION


Poison = Callable[[Store, random.Random, int], bool]
"""Called between turns with the log, randomness and how long nothing happened; may append, and says whether it did."""


class Loop:
    """One campaign, run to its end by `run`."""

    def __init__(
        self,
        *,
        seed: int,
        plan: CampaignPlan = PLAN,
        campaign: str = CAMPAIGN,
        restarts: float = 0.01,
        controls: Mapping[int, Event] | None = None,
        pins: Sequence[type[Decider]] = NEWEST,
        poison: Poison | None = None,
        workers: Mapping[str, tuple[str, int, Handle]] = WORKERS,
        store: Store | None = None,
    ) -> None:
        self._poison, self._workers = poison, workers
        self._rng = random.Random(seed)
        self._clock = TickingClock(self._rng)
        if not {kind for kind in pins if kind.name == "planner"} & set(NEWEST):
            plan = plan.model_copy(update={"breaker": None})  # nobody would break a round off
        self._plan, self._campaign, self._restarts = plan, campaign, restarts
        self._controls = dict(controls or {})  # number of records on the log -> what an operator then says
        self._codec = Codec()
        self.store = store or Store()
        self._pins = pins  # each service has every version, as in production; the campaign says which one decides
        self._rules: dict[str, Callable[[], Rules]] = {kind.name: self._decider(kind.name) for kind in pins}
        self._rules["trainer"] = lambda: StatingTrainer()
        self._machines = {name: self._machine(make()) for name, make in self._rules.items()}
        self._positions: dict[str, dict[Partition, int]] = {name: {} for name in workers}

    def run(self, *, records: int | None = None) -> list[Record]:
        """All records of the campaign once nobody has anything to do, or as soon as there are `records`."""
        started = CampaignStarted(
            plan=self._plan,
            package_version="0",
            logic=(
                *(
                    LogicVersion(name=kind.name, version=kind.version)
                    for kind in (*self._pins, *((_Premises,) if self._pins is NEWEST else ()))
                ),
                LogicVersion(name=rubric.NAME, version=rubric.NEWEST),
            ),
            benchmark_version=1,
        )
        draft = Draft(event=started, campaign=self._campaign, cause=ROOT_CAUSE, ordinal=0, key=self._campaign)
        self._publish("campaign", 1, [draft])
        return self.go_on(draft, records=records)

    def go_on(self, last: Draft, *, records: int | None = None) -> list[Record]:
        """As `run`, of a campaign that has begun; what an operator says is caused by `last`."""
        actors = [*self._machines, *self._workers]
        idle = 0
        while idle < 3 * len(actors):
            self._rng.shuffle(actors)
            for name in actors:
                idle = 0 if self._act(name) else idle + 1
            if self._poison is not None and self._poison(self.store, self._rng, idle):
                idle = 0
            there = sum(len(part) for part in self.store.records.values())
            if records is not None and there >= records:
                break
            for due in [number for number in sorted(self._controls) if number <= there or idle]:
                event = self._controls.pop(due)
                last = Draft(event=event, campaign=self._campaign, cause=last.id, ordinal=0, key=self._campaign)
                self._publish("campaign", 1, [last])
                idle = 0
                break
        return self.store.all()

    def _act(self, name: str) -> bool:
        if name in self._workers:
            return self._work(name)
        if self._rng.random() < self._restarts:
            self._machines[name] = self._machine(self._rules[name]())
        return sum(self._machines[name].step(0.0) for _ in range(self._rng.randint(1, 4))) > 0

    def _work(self, name: str) -> bool:
        topic, version, handle = self._workers[name]
        positions = self._positions[name]
        waiting = [
            (topic, p)
            for p in range(PARTITIONS[topic])
            if positions.get((topic, p), 0) < len(self.store.records.get((topic, p), []))
        ]
        if not waiting:
            return False
        where = self._rng.choice(waiting)
        record = self.store.records[where][positions.get(where, 0)]
        positions[where] = positions.get(where, 0) + 1
        try:
            fact = self._codec.decode(record)
        except DecodeError:  # the workers' own parking is tried elsewhere
            return True
        copied = fact.envelope.origin is not None
        drafts = [] if copied or impossible(fact) else handle(fact, self._plan)
        self._publish(name, version, drafts)
        return True

    def _publish(self, name: str, version: int, drafts: Sequence[Draft]) -> None:
        now = self._clock.now()
        self.store.append(
            [
                outgoing(d, source=f"bat/{name}", logic=f"{name}/{version}", time=now, partitions=PARTITIONS)
                for d in drafts
            ]
        )

    @staticmethod
    def _decider(name: str) -> Callable[[], Rules]:
        return lambda: DeciderRules(*versions_of(name))

    def _machine(self, rules: Rules) -> ReactorMachine:
        topics = list(dict.fromkeys((*rules.inputs, *rules.outputs)))
        return ReactorMachine(
            rules=rules,
            log=ScrambledLog(self.store, self._rng, rules.name, topics),
            codec=self._codec,
            clock=self._clock,
            executor=InlineExecutor(),
            status=Status(service=rules.name),
            partitions=PARTITIONS,
            box=self._box(rules.name),
        )

    def _box(self, service: str) -> DeadLetterBox:
        reader = ScrambledLog(self.store, self._rng, f"{service}.letters", ["dead-letter"])
        return DeadLetterBox(service=service, topic="dead-letter", reader=reader, codec=self._codec)


def decode(records: Sequence[Record]) -> list[Fact]:
    """The facts of records."""
    codec = Codec()
    return [codec.decode(record) for record in records]
