"""This system in simulated time: its deciders and service machines, and workers whose effects take the stated seconds."""

import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bat_events.codec import Codec
from bat_events.deciders.interface import Draft
from bat_events.deciders.versions import NEWEST, newest_logic
from bat_events.events.bank import LeakageVerdict, StateSynthesized
from bat_events.events.boundary import EvaluationReported
from bat_events.events.campaign import CampaignStarted
from bat_events.events.ids import ROOT_CAUSE
from bat_events.events.plan import CampaignPlan
from bat_events.events.rollouts import RewardScored, RolloutCompleted
from bat_events.events.training import ColdStartCompleted, TrainingStepCompleted
from bat_events.log.interface import Outgoing, Record
from bat_events.log.topics import TOPICS
from bat_events.service.emit import outgoing
from bat_events.service.reactor import DeciderRules, ReactorMachine
from bat_events.service.runtime import InlineExecutor, Status
from bat_events.service.worker import WorkerMachine

from .durations import Durations
from .memory import MemoryBroker, MemoryReactorLog, MemoryWorkerLog
from .spans import Span
from .workers import WORKERS, StatingHandler, StatingTrainer

CAMPAIGN = "asynchrony"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How many processes of each worker, and partitions of each parallel topic."""

    samplers: int = 32
    judges: int = 8
    synthesizers: int = 1
    partitions: int = 64
    hashed: bool = False
    """Groups and rollouts go to workers by the hash of their key, not by turns: a what-if, see memory.MemoryBroker."""

    def processes(self, name: str) -> int:
        """Of one kind of worker."""
        return {"rollout": self.samplers, "judge": self.judges, "synthesizer": self.synthesizers}.get(name, 1)

    def counts(self) -> dict[str, int]:
        """Partitions by topic."""
        return {spec.name: self.partitions if spec.parallel else 1 for spec in TOPICS}


def work_of(drafts: Sequence[Draft], durations: Durations) -> tuple[str, float, int | None]:
    """What kind of work came to these drafts, how many seconds it takes, and its training step."""
    first = drafts[0].event
    if isinstance(first, RolloutCompleted):
        rollouts = [draft.event.rollout for draft in drafts if isinstance(draft.event, RolloutCompleted)]
        return "sample", durations.of_group(rollouts), first.step
    if isinstance(first, RewardScored):
        return "judge", durations.of_judgement(first.rollout), first.step
    if isinstance(first, TrainingStepCompleted):
        return "train", durations.step, first.step
    if isinstance(first, StateSynthesized):
        return "synthesis", durations.synthesis, None
    if isinstance(first, LeakageVerdict):
        return "gate", durations.gate, None
    if isinstance(first, EvaluationReported):
        return "evaluate", durations.evaluation, None
    return ("cold start", durations.cold_start, None) if isinstance(first, ColdStartCompleted) else ("", 0.0, None)


class Agenda:
    """The clock, and the effects that are going on, by their ends."""

    def __init__(self) -> None:
        self.at = 0.0
        self._going: list[tuple[float, int, Future[Any], Any]] = []
        self._count = itertools.count()

    def now(self) -> datetime:
        """See Clock."""
        return BEGIN + timedelta(seconds=self.at)

    def sleep(self, seconds: float) -> None:
        """See Clock. Nothing fails here, so nothing is tried again."""
        raise AssertionError(f"a service wants to wait {seconds} s before it tries again")

    def begin(self, seconds: float, future: "Future[Any]", result: object) -> None:
        """An effect that ends in so many seconds."""
        heapq.heappush(self._going, (self.at + seconds, next(self._count), future, result))

    def go_on(self) -> bool:
        """To the end of the next effect, and of all that end at the same moment; False where nothing is going on."""
        if not self._going:
            return False
        self.at = self._going[0][0]
        while self._going and self._going[0][0] == self.at:
            _, _, future, result = heapq.heappop(self._going)
            future.set_result(result)
        return True


class TimedExecutor:
    """Runs an effect at once and hands its result over when its time has passed."""

    def __init__(self, lane: str, agenda: Agenda, durations: Durations, spans: list[Span]) -> None:
        self._lane, self._agenda, self._durations, self._spans = lane, agenda, durations, spans
        self._current: Future[Any] | None = None

    @property
    def busy(self) -> bool:
        """Whether an effect is going on."""
        return self._current is not None and not self._current.done()

    def submit(self, call: Callable[[], Any]) -> "Future[Any]":
        """See Executor."""
        future: Future[Any] = Future()
        result = call()
        kind, seconds, step = work_of(result, self._durations)
        if kind:
            self._spans.append(Span(self._lane, kind, self._agenda.at, self._agenda.at + seconds, step))
        self._agenda.begin(seconds, future, result)
        self._current = future
        return future


def campaign_start(plan: CampaignPlan, counts: Mapping[str, int], now: datetime) -> Outgoing:
    """What begins it."""
    event = CampaignStarted(plan=plan, package_version="0", logic=newest_logic(), benchmark_version=1)
    draft = Draft(event=event, campaign=CAMPAIGN, cause=ROOT_CAUSE, ordinal=0, key=CAMPAIGN)
    return outgoing(draft, source="bat/campaign", logic="campaign/1", time=now, partitions=counts)


class TimedCampaign:
    """One campaign, run to its end by `run`."""

    def __init__(self, plan: CampaignPlan, durations: Durations, shape: Shape) -> None:
        self._plan, self._durations, self._shape = plan, durations, shape
        self._counts = shape.counts()
        self._agenda, self._codec = Agenda(), Codec()
        hashed = ("group", "rollout") if shape.hashed else ()
        self._broker = MemoryBroker(self._counts, lambda: round(1000 * (BEGIN.timestamp() + self._agenda.at)), hashed)
        self.spans: list[Span] = []

    def run(self) -> list[Record]:
        """Every record, by partition, once nothing is going on and nobody has anything to do."""
        self._broker.append([campaign_start(self._plan, self._counts, self._agenda.now())])
        parts = [
            *((self._reactor(DeciderRules(kind), None)) for kind in NEWEST),
            self._reactor(StatingTrainer(CAMPAIGN), self._executor("trainer")),
            *(self._worker(name, number) for name in WORKERS for number in range(self._shape.processes(name))),
        ]
        going = True
        while going:
            while sum(part.step() for part in parts):
                pass
            going = self._agenda.go_on()
        return [record for where in sorted(self._broker.records) for record in self._broker.records[where]]

    def _executor(self, lane: str) -> TimedExecutor:
        return TimedExecutor(lane, self._agenda, self._durations, self.spans)

    def _reactor(self, rules: Any, effect: TimedExecutor | None) -> "Part":
        log = MemoryReactorLog(self._broker, list(dict.fromkeys((*rules.inputs, *rules.outputs))))
        machine = ReactorMachine(
            rules=rules,
            log=log,
            codec=self._codec,
            clock=self._agenda,
            executor=effect or InlineExecutor(),
            status=Status(service=rules.name),
            partitions=self._counts,
        )
        return Part(machine, log, effect)

    def _worker(self, name: str, number: int) -> "Part":
        topic, state = WORKERS[name]
        lane = {"rollout": "sampler", "synthesizer": "synthesis"}.get(name, name)
        effect = self._executor(lane if self._shape.processes(name) == 1 else f"{lane} {number}")
        log = MemoryWorkerLog(self._broker, group=name, topic=topic)
        machine = WorkerMachine(
            handler=StatingHandler(name=name, topic=topic, plan=self._plan, state=state),
            log=log,
            codec=self._codec,
            clock=self._agenda,
            executor=effect,
            status=Status(service=name),
            partitions=self._counts,
        )
        return Part(machine, log, effect)


class Part:
    """A service: it is stepped where it has something to read, or went on with something when it was last stepped."""

    def __init__(
        self,
        machine: ReactorMachine | WorkerMachine,
        log: MemoryReactorLog | MemoryWorkerLog,
        effect: TimedExecutor | None,
    ) -> None:
        self._machine, self._log, self._effect = machine, log, effect
        self._went_on = True

    def step(self) -> bool:
        """Whether anything happened."""
        if self._effect is not None and self._effect.busy:
            self._went_on = True  # it goes on when the effect ends
            return False
        if not self._went_on and not self._log.fresh:
            return False
        self._went_on = self._machine.step(0.0)
        return self._went_on
