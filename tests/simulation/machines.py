"""The real machines of the services, over the log in memory."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from bat_events.codec import Fact
from bat_events.consumers.evaluator import Evaluator
from bat_events.consumers.notary import SEALED
from bat_events.consumers.trainer import Trainer
from bat_events.deciders.versions import versions_of
from bat_events.errors import DecodeError
from bat_events.log.access import HELDOUT_TOPICS
from bat_events.log.topics import DEAD_LETTERS
from bat_events.service.dead_letters import DeadLetterBox
from bat_events.service.reactor import DeciderRules
from bat_events.service.runtime import InlineExecutor, Status
from tests.simulation.clock import SimulatedExecutor, lasting
from tests.simulation.faults import FaultyHandler, FaultyRules
from tests.simulation.memory_log import MemoryReactorLog, MemoryReader, MemoryWorkerLog
from tests.simulation.processes import NOTARIES, WORKERS, Process
from tests.simulation.small_campaign import (
    PARTITIONS,
    SCRIPTED,
    HeadsInMemory,
    ScriptedHandler,
    ScriptedLearner,
    measure,
)

if TYPE_CHECKING:
    from tests.simulation.world import World


@dataclass
class Surroundings:
    """What the real handlers take of a service's Context."""

    world: "World"
    status: Status = field(default_factory=lambda: Status(service="simulated"))

    def read_all(self, topic: str) -> list[Fact]:
        """See Context.read_all."""
        broker, facts = self.world.broker, dict[str, Fact]()
        for where in broker.all_partitions([topic]):
            rows, _ = broker.fetch(where, 0, 1 << 30)
            for record in rows:
                try:
                    fact = self.world.codec.decode(record)
                except DecodeError:
                    continue
                facts.setdefault(fact.id, fact)
        return list(facts.values())


class Machines:
    """Builds them for a world's processes. What outlives a process is kept here: heads of seals, scripted handlers."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._surroundings = Surroundings(world)
        self.handlers = {group: ScriptedHandler(group) for group in SCRIPTED}
        self.heads = {name: HeadsInMemory() for name in NOTARIES}

    def start(self, process: Process) -> None:
        """Give a process that comes up its machine."""
        if process.group in WORKERS:
            self._worker(process)
        elif process.group in NOTARIES:
            self._notary(process)
        else:
            self._reactor(process)

    def handler(self, group: str) -> Any:
        """What a group of workers does with an event."""
        if group == "evaluator":
            return Evaluator(cast(Any, self._surroundings), cast(Any, None), measure)
        return self.handlers[group]

    def _box(self, process: Process, principal: str) -> DeadLetterBox:
        topic = DEAD_LETTERS["heldout" if principal == "evaluator" else "training"]
        reader = MemoryReader(self._world.broker, [topic])
        process.readers = (process.log, reader)
        return DeadLetterBox(service=process.group, topic=topic, reader=reader, codec=self._world.codec)

    def _executor(self, process: Process) -> SimulatedExecutor:
        draw = lasting(self._world.chaos.rng, self._world.chaos.effect_share)

        def told() -> float:
            seconds = draw() if self._world.chaos.on else 0.0
            if seconds:
                self._world.chaos.tell("effect takes time")
            return seconds

        process.effect = SimulatedExecutor(self._world.clock, told)
        return process.effect

    def _worker(self, process: Process) -> None:
        handler = FaultyHandler(self.handler(process.group), process.group, self._world.troubles)
        process.log = MemoryWorkerLog(
            self._world.broker,
            service=process.group,
            topic=handler.topic,
            instance=f"{process.number}-{process.starts}",
        )
        process.machine = self._world.parts.worker(
            handler=handler,
            log=process.log,
            codec=self._world.codec,
            clock=self._world.clock,
            executor=self._executor(process),
            status=Status(service=process.group),
            partitions=PARTITIONS,
            crash=self._world.crash(process),
            box=self._box(process, handler.name),
        )

    def _reactor(self, process: Process) -> None:
        rules: Any
        if process.group == "trainer":
            rules = Trainer(cast(Any, self._surroundings))
            rules._learner = ScriptedLearner()
        else:
            rules = DeciderRules(*versions_of(process.group))
        faulty = FaultyRules(rules, process.group, self._world.troubles)
        topics = list(dict.fromkeys((*rules.inputs, *rules.outputs)))
        process.log = MemoryReactorLog(self._world.broker, service=process.group, topics=topics)
        process.machine = self._world.parts.reactor(
            rules=faulty,
            log=process.log,
            codec=self._world.codec,
            clock=self._world.clock,
            executor=InlineExecutor() if rules.is_decision else self._executor(process),
            status=Status(service=process.group),
            partitions=PARTITIONS,
            crash=self._world.crash(process),
            box=self._box(process, process.group),
        )

    def _notary(self, process: Process) -> None:
        heldout = process.group == "heldout-notary"
        topics = ("round", *HELDOUT_TOPICS) if heldout else SEALED
        process.log = MemoryReactorLog(self._world.broker, service=process.group, topics=topics)
        process.readers = (process.log,)
        process.machine = self._world.parts.notary(
            log=process.log,
            seals=self._surroundings.read_all("heldout.seal" if heldout else "seal"),
            codec=self._world.codec,
            clock=self._world.clock,
            status=Status(service=process.group),
            partitions=PARTITIONS,
            heads=cast(Any, self.heads[process.group]),
            heldout=heldout,
            salt=lambda: bytes(32),
            crash=self._world.crash(process),
        )
