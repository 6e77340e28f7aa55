"""A whole campaign in simulated time: the real service machines, and workers whose effects take a set time. Test-only.

Deciders take no time and workers state what tests/replay/workers.py states, as late as their effect takes. So when an event
comes is a function of the seconds below and of nothing else, and an hour of campaign is simulated in a second.
"""

import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from bat_events.codec import Codec, Fact
from bat_events.deciders.bank import Bank
from bat_events.deciders.interface import Decider, Draft
from bat_events.deciders.versions import NEWEST
from bat_events.events.campaign import CampaignStarted, LogicVersion
from bat_events.events.ids import ROOT_CAUSE
from bat_events.events.plan import CampaignPlan
from bat_events.events.training import ColdStartCompleted, TrainingStepCompleted
from bat_events.log.interface import Record
from bat_events.log.topics import TOPICS
from bat_events.service.emit import outgoing
from bat_events.service.reactor import DeciderRules, ReactorMachine
from bat_events.service.runtime import InlineExecutor, Status
from bat_events.service.worker import WorkerMachine
from tests.replay.workers import WORKERS, Handle, StatingTrainer
from tests.simulation.memory_log import Broker, MemoryReactorLog, MemoryWorkerLog

CAMPAIGN = "timed"
PARTITIONS = {spec.name: 4 if spec.parallel else 1 for spec in TOPICS}
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Seconds:
    """What each effect takes, and how many processes of a service share its topic."""

    synthesis: float = 1.0  # of one state
    gate: float = 0.05  # of one state
    group: float = 4.0  # all rollouts of one group
    judge: float = 0.1  # of one rollout
    step: float = 6.0
    cold_start: float = 120.0
    evaluation: float = 30.0
    processes: Mapping[str, int] = field(default_factory=lambda: {"rollout": 2})


class Agenda:
    """The clock, and what is still going on: effects by the time at which they end."""

    def __init__(self) -> None:
        self.at = 0.0
        self._going: list[tuple[float, int, Future[Any], Any]] = []
        self._count = itertools.count()

    def now(self) -> datetime:
        """See Clock."""
        return BEGIN + timedelta(seconds=self.at)

    def sleep(self, seconds: float) -> None:
        """See Clock. No effect here fails, so nothing is ever waited for like this."""
        raise AssertionError(f"a service wants to wait {seconds} s before it tries again")

    def begin(self, seconds: float, future: "Future[Any]", result: object) -> None:
        """An effect that ends in so many seconds."""
        heapq.heappush(self._going, (self.at + seconds, next(self._count), future, result))

    def end_next(self) -> bool:
        """Go on to the next effect's end; False where nothing is going on."""
        if not self._going:
            return False
        self.at, _, future, result = heapq.heappop(self._going)
        future.set_result(result)
        return True


class TimedExecutor:
    """Runs an effect at once and hands its result over when its time has passed."""

    def __init__(self, agenda: Agenda, seconds: Callable[[Sequence[Draft]], float]) -> None:
        self._agenda, self._seconds = agenda, seconds
        self._current: Future[Any] | None = None

    @property
    def busy(self) -> bool:
        """Whether an effect is going on."""
        return self._current is not None and not self._current.done()

    def submit(self, call: Callable[[], Any]) -> "Future[Any]":
        """See Executor."""
        future: Future[Any] = Future()
        result = call()
        self._agenda.begin(self._seconds(result), future, result)
        self._current = future
        return future


@dataclass(frozen=True, kw_only=True)
class StatingHandler:
    """A Handler around a stating worker. What is no work for it takes no time."""

    name: str
    version: int
    topic: str
    plan: CampaignPlan
    state: Handle
    outputs: tuple[str, ...] = ()

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return bool(self.state(fact, self.plan))

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """See Handler."""
        return self.state(fact, self.plan)


class TimedCampaign:
    """One campaign, run to its end by `run`. `bank` takes the real bank's place."""

    def __init__(self, plan: CampaignPlan, seconds: Seconds, *, bank: type[Bank] = Bank) -> None:
        self._plan, self._seconds = plan, seconds
        self._kinds: tuple[type[Decider], ...] = (bank, *(kind for kind in NEWEST if kind is not Bank))
        self._agenda, self._codec = Agenda(), Codec()
        self.broker = Broker(PARTITIONS, now_ms=lambda: round(1000 * (BEGIN.timestamp() + self._agenda.at)))
        self._machines: list[tuple[ReactorMachine | WorkerMachine, TimedExecutor | None]] = []

    def run(self) -> list[Record]:
        """Every record, by partition, once nothing is going on and nobody has anything to do."""
        self._start()
        self._machines = [
            *((self._reactor(DeciderRules(kind), None)) for kind in self._kinds),
            self._reactor(StatingTrainer(), TimedExecutor(self._agenda, self._training_s)),
            *(self._worker(name, number) for name in WORKERS for number in range(self._seconds.processes.get(name, 1))),
        ]
        going = True
        while going:
            while sum(machine.step(0.0) for machine, effect in self._machines if effect is None or not effect.busy):
                pass
            going = self._agenda.end_next()
        return [record for where in sorted(self.broker.records) for record in self.broker.records[where]]

    def _start(self) -> None:
        logic = tuple(LogicVersion(name=kind.name, version=kind.version) for kind in self._kinds)
        event = CampaignStarted(plan=self._plan, package_version="0", logic=logic, benchmark_version=1)
        draft = Draft(event=event, campaign=CAMPAIGN, cause=ROOT_CAUSE, ordinal=0, key=CAMPAIGN)
        now = self._agenda.now()
        self.broker.append(
            [outgoing(draft, source="bat/campaign", logic="campaign/1", time=now, partitions=PARTITIONS)]
        )

    def _reactor(
        self, rules: Any, effect: TimedExecutor | None
    ) -> tuple[ReactorMachine | WorkerMachine, TimedExecutor | None]:
        topics = list(dict.fromkeys((*rules.inputs, *rules.outputs)))
        machine = ReactorMachine(
            rules=rules,
            log=MemoryReactorLog(self.broker, service=rules.name, topics=topics),
            codec=self._codec,
            clock=self._agenda,
            executor=effect or InlineExecutor(),
            status=Status(service=rules.name),
            partitions=PARTITIONS,
        )
        return machine, effect

    def _worker(self, name: str, number: int) -> tuple[ReactorMachine | WorkerMachine, TimedExecutor | None]:
        topic, version, state = WORKERS[name]
        seconds = {
            "synthesizer": self._seconds.synthesis,
            "leakage-gate": self._seconds.gate,
            "rollout": self._seconds.group,
            "judge": self._seconds.judge,
            "evaluator": self._seconds.evaluation,
        }[name]
        effect = TimedExecutor(self._agenda, lambda _: seconds)
        machine = WorkerMachine(
            handler=StatingHandler(name=name, version=version, topic=topic, plan=self._plan, state=state),
            log=MemoryWorkerLog(self.broker, service=name, topic=topic, instance=str(number)),
            codec=self._codec,
            clock=self._agenda,
            executor=effect,
            status=Status(service=name),
            partitions=PARTITIONS,
        )
        return machine, effect

    def _training_s(self, drafts: Sequence[Draft]) -> float:
        kinds = {type(draft.event) for draft in drafts}
        if ColdStartCompleted in kinds:
            return self._seconds.cold_start
        return self._seconds.step if TrainingStepCompleted in kinds else 0.0
