"""This project: its writer, its reader and codec, its two service loops (`reactor`, and `worker` with one event at a time)."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from bat_events.codec import Codec, Fact
from bat_events.deciders.interface import Draft
from bat_events.events.rollouts import RewardScored, RolloutCompleted
from bat_events.log.interface import Outgoing
from bat_events.log.kafka import KafkaReactorLog, KafkaReader, KafkaWorkerLog, KafkaWriter
from bat_events.log.topics import partition_of
from bat_events.service.dead_letters import DeadLetterBox
from bat_events.service.reactor import ReactorMachine
from bat_events.service.runtime import InlineExecutor, Status, SystemClock, ThreadExecutor
from bat_events.service.worker import WorkerMachine

from .driving import BATCH, COMMIT_EVERY_S, Job, Meter, batches, job, versions

PARTITIONS = {"rollout": 4, "reward": 4, "dead-letter": 1}


def produce(work: Job, meter: Meter) -> None:
    """All records in transactions of BATCH: this writer has no other way."""
    records = [
        Outgoing(topic=topic, partition=partition_of(key, PARTITIONS[topic]), key=key, value=value, headers=headers)
        for topic, key, value, headers in work.corpus()
    ]
    writer = KafkaWriter(bootstrap=work.bootstrap, namespace=work.namespace, name=f"bench-{work.run}")
    for batch in batches(records, meter):
        writer.publish(batch)
    meter.end()


def consume(work: Job, meter: Meter) -> None:
    """As a service reads: envelope, digest, schema and every field are checked. Offsets are committed in transactions."""
    log = KafkaReactorLog(
        bootstrap=work.bootstrap, namespace=work.namespace, service=f"bench-{work.run}", topics=["rollout", "reward"]
    )
    codec, committed, done = Codec(), time.monotonic(), False
    while not done:
        records = log.poll(BATCH, 1.0)
        for record in records:
            event: Any = codec.decode(record).event
            done = meter.take(event.step, event.index, len(record.headers))
        if done or time.monotonic() - committed > COMMIT_EVERY_S:
            log.commit([], log.positions)
            committed = time.monotonic()
    meter.end()
    log.close()


def reward_for(fact: Fact, template: RewardScored) -> Draft:
    """The reward that answers a rollout."""
    rollout: RolloutCompleted = fact.event  # type: ignore[assignment]
    place = {name: getattr(rollout, name) for name in ("group", "rollout", "index", "round", "step", "slot")}
    event = RewardScored.model_validate({**dict(template), **place})
    return Draft(
        event=event, campaign=fact.envelope.campaign, cause=fact.id, ordinal=0, key=rollout.rollout, round=rollout.round
    )


class Answering:
    """Rules of a reactor, and a handler of a worker: a reward for every rollout."""

    is_decision: ClassVar[bool] = False
    version = 1
    topic = "rollout"
    inputs: tuple[str, ...] = ("rollout",)
    outputs: tuple[str, ...] = ("reward",)

    def __init__(self, work: Job, meter: Meter, template: RewardScored) -> None:
        self.name = "judge"
        self._work, self._meter, self._template = work, meter, template
        self._due: list[Draft] = []
        self.done = False

    def version_of(self, campaign: str) -> int:  # noqa: ARG002
        """See Rules."""
        return self.version

    def apply(self, fact: Fact) -> None:
        """See Rules."""
        self._due.append(self._answer(fact))

    def existing(self, fact: Fact) -> None:
        """See Rules."""

    def emitted(self, drafts: Sequence[Draft]) -> None:
        """See Rules."""

    def refused(self) -> Sequence[tuple[Fact, str]]:
        """See Rules."""
        return []

    def held(self) -> Sequence[tuple[Fact, str]]:
        """See Rules."""
        return []

    def next_work(self, exists: Callable[[str], bool]) -> Callable[[], Sequence[Draft]] | None:  # noqa: ARG002
        """See Rules."""
        due, self._due = self._due, []
        return (lambda: due) if due else None

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, RolloutCompleted)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """See Handler."""
        return [self._answer(fact)]

    def _answer(self, fact: Fact) -> Draft:
        event: Any = fact.event
        self.done = self._meter.take(event.step, event.index, 0)
        return reward_for(fact, self._template)


def react(work: Job, meter: Meter, kind: str) -> None:
    """The service loop as services run it, with its box for dead letters."""
    codec = Codec()
    (first,) = [row for row in work.corpus() if row[0] == "reward"][:1]
    template: Any = _decoded(codec, first)
    rules = Answering(work, meter, template)
    reader = KafkaReader(
        bootstrap=work.bootstrap, namespace=work.namespace, topics=["dead-letter"], group=f"letters-{work.run}"
    )
    box = DeadLetterBox(service="judge", topic="dead-letter", reader=reader, codec=codec)
    machine: ReactorMachine | WorkerMachine
    if kind == "reactor":
        topics = ["rollout", "reward"]
        machine = ReactorMachine(
            rules=rules,
            log=KafkaReactorLog(bootstrap=work.bootstrap, namespace=work.namespace, service="judge", topics=topics),
            codec=codec,
            clock=SystemClock(),
            executor=InlineExecutor(),
            status=Status(service="judge"),
            partitions=PARTITIONS,
            box=box,
        )
    else:
        machine = WorkerMachine(
            handler=rules,
            log=KafkaWorkerLog(
                bootstrap=work.bootstrap, namespace=work.namespace, service="judge", topic="rollout", instance=work.run
            ),
            codec=codec,
            clock=SystemClock(),
            executor=ThreadExecutor(),
            status=Status(service="judge"),
            partitions=PARTITIONS,
            box=box,
        )
    while not rules.done:
        machine.step(0.2)
    while machine.step(0.0):  # what is due is written
        pass
    meter.end()


def _decoded(codec: Codec, row: tuple[str, bytes, bytes, tuple[tuple[str, bytes], ...]]) -> Any:
    from bat_events.log.interface import Record

    topic, key, value, headers = row
    return codec.decode(
        Record(topic=topic, partition=0, offset=0, key=key, value=value, headers=headers, timestamp_ms=0)
    ).event


def main() -> None:
    """Do the job."""
    work = job()
    meter = Meter(work.events)
    if work.task == "produce":
        produce(work, meter)
    elif work.task == "consume":
        consume(work, meter)
    else:
        react(work, meter, sys.argv[2])
    meter.report(
        versions=versions(["confluent-kafka", "fastavro", "pydantic"]), settings=f"at most {BATCH} a transaction"
    )


if __name__ == "__main__":
    main()
