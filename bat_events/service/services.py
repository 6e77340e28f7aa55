"""The services by name: what each one reads and how it is built. `serve NAME` runs one of these."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from bat_events.deciders.interface import Decider
from bat_events.deciders.versions import versions_of
from bat_events.log.access import BY_PRINCIPAL
from bat_events.log.kafka import KafkaReactorLog, KafkaReader, KafkaWorkerLog
from bat_events.log.topics import DEAD_LETTERS
from bat_events.service.context import Context
from bat_events.service.dead_letters import DeadLetterBox
from bat_events.service.metrics_log import MeteredExecutor, metered
from bat_events.service.reactor import DeciderRules, ReactorMachine, Rules
from bat_events.service.runtime import InlineExecutor, RetryPolicy, SystemClock, ThreadExecutor
from bat_events.service.worker import Handler, WorkerMachine


class Machine(Protocol):
    """Something that is driven by steps."""

    def step(self, timeout_s: float) -> bool: ...


@dataclass
class Service:
    """One running service: its machines, and what is to be closed at its end."""

    machines: list[Machine]
    closers: list[Callable[[], None]] = field(default_factory=list)


Builder = Callable[[Context], Service]


def reactor(context: Context, rules: Rules) -> Service:
    """A service that folds all partitions of its inputs."""
    topics = list(dict.fromkeys((*rules.inputs, *rules.outputs)))
    log = KafkaReactorLog(
        bootstrap=context.bootstrap, namespace=context.settings.namespace, service=rules.name, topics=topics
    )
    box = dead_letters(context, rules.name)
    executor = InlineExecutor() if rules.is_decision else ThreadExecutor()
    machine = ReactorMachine(
        rules=rules,
        log=metered(log, context.metrics, rules.name, lambda: len(box.open())),
        codec=context.codec,
        clock=SystemClock(),
        executor=MeteredExecutor(executor, context.metrics, rules.name),
        status=context.status,
        partitions=context.partitions,
        box=box,
    )
    return Service(machines=[machine], closers=[log.close, box.close])


def dead_letters(context: Context, principal: str, group: str | None = None) -> DeadLetterBox:
    """The dead letters of a consumer group: on its principal's plane, which no other plane reads."""
    topic = DEAD_LETTERS[BY_PRINCIPAL[principal].plane]
    reader = KafkaReader(
        bootstrap=context.bootstrap, namespace=context.settings.namespace, topics=[topic], group="letters"
    )
    return DeadLetterBox(service=group or principal, topic=topic, reader=reader, codec=context.codec)


def worker(context: Context, handler: Handler, *, instance: str, group: str | None = None) -> Service:
    """A service that shares one topic with its like."""
    box = dead_letters(context, handler.name, group)
    name = group or handler.name
    log = KafkaWorkerLog(
        bootstrap=context.bootstrap,
        namespace=context.settings.namespace,
        service=name,
        topic=handler.topic,
        instance=instance,
    )
    machine = WorkerMachine(
        handler=handler,
        log=metered(log, context.metrics, name, lambda: len(box.open())),
        codec=context.codec,
        clock=SystemClock(),
        executor=MeteredExecutor(ThreadExecutor(), context.metrics, name),
        status=context.status,
        partitions=context.partitions,
        retry=RetryPolicy(deaths=context.settings.service.deaths),
        box=box,
    )
    return Service(machines=[machine], closers=[log.close, box.close])


def decider(kind: type[Decider]) -> Builder:
    """A builder for a decider, with all its versions: each campaign is decided by the one that it pins."""
    return lambda context: reactor(context, DeciderRules(*versions_of(kind.name)))


def join(*services: Service) -> Service:
    """Several machines in one process."""
    return Service(
        machines=[machine for service in services for machine in service.machines],
        closers=[closer for service in services for closer in service.closers],
    )
