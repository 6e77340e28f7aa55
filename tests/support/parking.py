"""Machines with a box for dead letters on the in-memory log, and a person who decides about what they park."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from bat_events.codec import Codec, Fact
from bat_events.deciders.dead_letters import DeadLetters, Letter
from bat_events.deciders.interface import Draft
from bat_events.errors import ImpossibleEvent
from bat_events.events.bank import SynthesisFailed, SynthesisRequested
from bat_events.events.base import Event
from bat_events.events.dead_letters import DeadLettered, Discarded, Redriven
from bat_events.log.interface import Outgoing
from bat_events.log.topics import BY_NAME
from bat_events.service.dead_letters import DeadLetterBox
from bat_events.service.emit import outgoing
from bat_events.service.runtime import InlineExecutor, Retryable, RetryPolicy, Status
from bat_events.service.worker import WorkerMachine
from tests.simulation.memory_log import Broker, MemoryReader, MemoryWorkerLog
from tests.support.samples import NOW, PARTITIONS, draft, sample, written

CODEC = Codec()
TOPIC = "bank.request"


class Death(BaseException):
    """The process ends here, without a word."""


class StillClock:
    """A clock that only moves when it is slept on."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        """See Clock."""
        return NOW + timedelta(seconds=sum(self.slept))

    def sleep(self, seconds: float) -> None:
        """See Clock."""
        self.slept.append(seconds)


class Answering:
    """Answers each request once; `behaviour` says by the request's ordinal what happens instead."""

    name, version, topic = "synthesizer", 1, TOPIC
    outputs: tuple[str, ...] = ("bank.state",)

    def __init__(self, behaviour: dict[int, str] | None = None) -> None:
        self.behaviour = behaviour or {}
        self.handled: list[int] = []

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, SynthesisRequested)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """See Handler."""
        request: SynthesisRequested = fact.event  # type: ignore[assignment]
        self.handled.append(request.ordinal)
        what = self.behaviour.get(request.ordinal)
        if what == "fails":
            raise Retryable("the disk is away")
        if what == "breaks":
            raise KeyError("a bug")
        if what == "contradicts":
            raise ImpossibleEvent("no such campaign")
        if what == "kills":
            raise Death
        same = {name: getattr(request, name) for name in ("state", "focus", "track", "outcome", "ordinal")}
        reason = "x" * (9 << 20) if what == "grows" else "echo"
        return [draft(SynthesisFailed(**same, reason=reason), cause=fact.id, key=request.state)]


def request(ordinal: int, key: str) -> Outgoing:
    """A request of a key; ordinals tell them apart."""
    event = sample(SynthesisRequested).model_copy(update={"ordinal": ordinal})
    return written(event, ordinal=ordinal, key=key)


def undecodable(out: Outgoing) -> Outgoing:
    """The same place in the log, and no event."""
    return Outgoing(**{**vars(out), "value": b"\0junk"})


def box(broker: Broker, service: str = "synthesizer", topic: str = "dead-letter") -> DeadLetterBox:
    """A box that reads the topic from its start."""
    return DeadLetterBox(service=service, topic=topic, reader=MemoryReader(broker, [topic]), codec=CODEC)


def worker(
    broker: Broker,
    handler: Any,
    instance: str = "a",
    *,
    crash: Callable[[str], None] = lambda _: None,
    possible: Callable[[Fact], str | None] = lambda _: None,
) -> WorkerMachine:
    """A worker with a box."""
    return WorkerMachine(
        handler=handler,
        log=MemoryWorkerLog(broker, service=handler.name, topic=handler.topic, instance=instance),
        codec=CODEC,
        clock=StillClock(),
        executor=InlineExecutor(),
        status=Status(service=handler.name),
        partitions=PARTITIONS,
        retry=RetryPolicy(waits_s=(1.0, 2.0), deaths=3),
        crash=crash,
        box=box(broker, handler.name),
        possible=possible,
    )


def run(machine: Any) -> None:
    """Until nothing is left to do."""
    while machine.step(0.0):
        pass


def facts(broker: Broker, topic: str) -> list[Fact]:
    """The facts of a topic, partition by partition, each id once."""
    found: dict[str, Fact] = {}
    for (name, _), rows in sorted(broker.records.items()):
        if name == topic:
            for record in rows:
                fact = CODEC.decode(record)
                found.setdefault(fact.id, fact)
    return list(found.values())


def letters(broker: Broker, topic: str = "dead-letter") -> DeadLetters:
    """What stands on the dead-letter topic."""
    fold = DeadLetters()
    for fact in facts(broker, topic):
        fold.apply(fact.id, fact.event, key=fact.envelope.subject, campaign=fact.envelope.campaign)
    return fold


def causes(broker: Broker) -> list[str]:
    """The causes of all letters, in the order in which they were written."""
    return [fact.event.cause for fact in facts(broker, "dead-letter") if isinstance(fact.event, DeadLettered)]


def decide(kind: type[Redriven] | type[Discarded], letter: Letter) -> Outgoing:
    """A person's word about a letter."""
    event: Event = kind(
        dead_letter=letter.id,
        service=letter.event.service,
        topic=letter.event.topic,
        partition=letter.event.partition,
        offset=letter.event.offset,
        reason="a test",
    )
    topic = "dead-letter" if BY_NAME[letter.event.topic].plane != "heldout" else "heldout.dead-letter"
    word = Draft(event=event, campaign=letter.campaign, cause=letter.id, ordinal=0, key=letter.key, topic=topic)
    return outgoing(word, source="bat/dlq", logic="dlq/1", time=NOW, partitions=PARTITIONS)
