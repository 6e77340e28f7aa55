"""A small round on a real broker, its work really waited for, held against the simulated clock."""

import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from bat_events.codec import Codec
from bat_events.deciders.versions import NEWEST
from bat_events.log.admin import apply_topics
from bat_events.log.interface import Record
from bat_events.log.kafka import KafkaReactorLog, KafkaReader, KafkaWorkerLog, KafkaWriter
from bat_events.log.local_kafka import LocalKafka
from bat_events.service.reactor import DeciderRules, ReactorMachine
from bat_events.service.runtime import InlineExecutor, Status, SystemClock, ThreadExecutor
from bat_events.service.worker import WorkerMachine

from .comparing import Condition, rounds_of
from .durations import Durations
from .reading import Reading
from .spans import Round, Span
from .synchronous import synchronous_round
from .timed import CAMPAIGN, Shape, campaign_start, work_of
from .workers import WORKERS, StatingHandler, StatingTrainer

SCALE = 1 / 30
"""Of the stated seconds: a rollout takes 3 s on average, a step 1 s."""
# The cold start is long enough for the bank: every state costs three transactions here, whatever the scale.
SMALL = Condition(
    name="small",
    steps=6,
    lag=1,
    group_size=2,
    pools=(2, 1, 1),
    tracks=1,
    durations=Durations(cold_start=900.0, evaluation=60.0),
    shape=Shape(samplers=8, judges=4, partitions=16),
)
_LIMIT_S = 180.0


def scaled(durations: Durations, scale: float) -> Durations:
    """The same durations, all of them shorter by one factor; tails stay."""
    names = ("rollout", "judge", "step", "synthesis", "gate", "evaluation", "cold_start")
    return replace(durations, **{name: scale * getattr(durations, name) for name in names})


class SleepingExecutor:
    """Runs an effect in a thread of its own, where its seconds are slept."""

    def __init__(self, lane: str, durations: Durations, spans: list[Span], begun: float) -> None:
        self._lane, self._durations, self._spans, self._begun = lane, durations, spans, begun
        self._threads = ThreadExecutor()

    def submit(self, call: Callable[[], Any]) -> "Future[Any]":
        """See Executor."""

        def work() -> Any:
            began = time.time()
            result = call()
            kind, seconds, step = work_of(result, self._durations)
            time.sleep(max(0.0, began + seconds - time.time()))
            if kind:
                self._spans.append(Span(self._lane, kind, began - self._begun, time.time() - self._begun, step))
            return result

        return self._threads.submit(work)


class KafkaCampaign:
    """One campaign by threads of this process, each service with clients of its own."""

    def __init__(self, condition: Condition, bootstrap: str) -> None:
        self._condition, self._bootstrap = condition, bootstrap
        self._namespace = f"async-{uuid.uuid4().hex[:8]}"
        self._durations = scaled(condition.durations, SCALE)
        self._counts = condition.shape.counts()
        self._codec, self._stop = Codec(), threading.Event()
        self._begun = time.time()
        self._errors: list[Exception] = []
        self.spans: list[Span] = []

    @property
    def origin(self) -> datetime:
        """What spans are counted from."""
        return datetime.fromtimestamp(self._begun, UTC)

    def run(self) -> list[Record]:
        """Every record, once the campaign has finished. Raises RuntimeError where it does not."""
        apply_topics(self._bootstrap, self._namespace, partitions=self._condition.shape.partitions)
        machines = [
            *(self._reactor(DeciderRules(kind), InlineExecutor()) for kind in NEWEST),
            self._reactor(StatingTrainer(CAMPAIGN), self._sleeping("trainer")),
            *(
                self._worker(name, number)
                for name in WORKERS
                for number in range(self._condition.shape.processes(name))
            ),
        ]
        threads = [threading.Thread(target=self._drive, args=machine, daemon=True) for machine in machines]
        for thread in threads:
            thread.start()
        time.sleep(8.0)  # groups settle: no partition moves during what is measured
        writer = KafkaWriter(bootstrap=self._bootstrap, namespace=self._namespace, name="campaign")
        writer.publish([campaign_start(self._condition.plan(), self._counts, datetime.now(UTC))])
        self._wait()
        self._stop.set()
        for thread in threads:
            thread.join(10.0)
        reader = KafkaReader(
            bootstrap=self._bootstrap,
            namespace=self._namespace,
            topics=["curriculum", "round", "group", "training", "boundary.report"],
        )
        records = list(reader.rest())
        reader.close()
        return records

    def _wait(self) -> None:
        reader = KafkaReader(bootstrap=self._bootstrap, namespace=self._namespace, topics=["round"])
        deadline = time.monotonic() + _LIMIT_S
        try:
            while time.monotonic() < deadline:
                if self._errors:
                    raise RuntimeError(f"a service ended: {self._errors[0]}") from self._errors[0]
                types = [self._codec.decode(record).envelope.type for record in reader.poll(100, 0.5)]
                if any("CampaignFinished" in each for each in types):
                    return
        finally:
            reader.close()
        raise RuntimeError(f"the campaign did not finish within {_LIMIT_S:g} s")

    def _drive(self, machine: ReactorMachine | WorkerMachine, log: KafkaReactorLog | KafkaWorkerLog) -> None:
        try:
            while not self._stop.is_set():
                machine.step(0.2)
        except Exception as error:  # noqa: BLE001  (told by whoever waits)
            self._errors.append(error)
        finally:
            log.close()

    def _sleeping(self, lane: str) -> SleepingExecutor:
        return SleepingExecutor(lane, self._durations, self.spans, self._begun)

    def _reactor(self, rules: Any, executor: Any) -> tuple[ReactorMachine, KafkaReactorLog]:
        topics = list(dict.fromkeys((*rules.inputs, *rules.outputs)))
        log = KafkaReactorLog(bootstrap=self._bootstrap, namespace=self._namespace, service=rules.name, topics=topics)
        machine = ReactorMachine(
            rules=rules,
            log=log,
            codec=self._codec,
            clock=SystemClock(),
            executor=executor,
            status=Status(service=rules.name),
            partitions=self._counts,
        )
        return machine, log

    def _worker(self, name: str, number: int) -> tuple[WorkerMachine, KafkaWorkerLog]:
        topic, state = WORKERS[name]
        log = KafkaWorkerLog(
            bootstrap=self._bootstrap, namespace=self._namespace, service=name, topic=topic, instance=str(number)
        )
        machine = WorkerMachine(
            handler=StatingHandler(name=name, topic=topic, plan=self._condition.plan(), state=state),
            log=log,
            codec=self._codec,
            clock=SystemClock(),
            executor=self._sleeping(f"{name} {number}"),
            status=Status(service=name),
            partitions=self._counts,
        )
        return machine, log


def confirm(condition: Condition = SMALL) -> Table:
    """The small round by the simulated clock and on Kafka, and what the synchronous order takes for the very same work."""
    sync, simulated = rounds_of(condition)
    with tempfile.TemporaryDirectory() as folder:
        broker = LocalKafka(Path(folder), secured=False)
        broker.up()
        try:
            campaign = KafkaCampaign(condition, broker.bootstrap)
            reading = Reading(campaign.run(), campaign.origin)
        finally:
            broker.down()
    real = reading.round(1, campaign.spans, condition.shape.samplers)
    again = synchronous_round(
        reading.steps(1, condition.group_size),
        scaled(condition.durations, SCALE),
        samplers=condition.shape.samplers,
        judges=condition.shape.judges,
    )
    return _table(sync, simulated, real, again, condition)


def _table(sync: Round, simulated: Round, real: Round, again: Round, condition: Condition) -> Table:
    table = Table(
        title=f"{condition.steps} steps of 4 groups of {condition.group_size}, lag {condition.lag}, durations x 1/{1 / SCALE:.0f}"
    )
    for name in ("", "synchronous s", "this system s", "ratio", "lag seen", "waited for states s"):
        table.add_column(name, justify="left" if not name else "right")
    rows: Sequence[tuple[str, float, Round, float]] = (
        ("simulated clock", SCALE * sync.wall, simulated, SCALE),
        ("on Kafka, slept", again.wall, real, 1.0),
    )
    for name, theirs, ours, scale in rows:
        wall = scale * ours.wall
        cells = [f"{theirs:.1f}", f"{wall:.1f}", f"{theirs / wall:.2f}", str(max(ours.lags))]
        table.add_row(name, *cells, f"{scale * ours.waited_for_states:.2f}")
    return table
