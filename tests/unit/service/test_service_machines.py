"""The step machines of service/: given these records, when a pass is made (or dies), then exactly these come out."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bat_events.codec import Codec, Fact
from bat_events.deciders.interface import Draft
from bat_events.errors import BadBody, FencedError, HandlerFailed
from bat_events.events.bank import SynthesisFailed, SynthesisRequested
from bat_events.events.rounds import CampaignFinished, GroupRequested
from bat_events.log.interface import Outgoing
from bat_events.service.reactor import DeciderRules, ReactorMachine
from bat_events.service.runtime import GivenUp, InlineExecutor, Retryable, Status
from bat_events.service.worker import WorkerMachine
from tests.simulation.memory_log import Broker, MemoryReactorLog, MemoryWorkerLog
from tests.support.samples import NOW, PARTITIONS, draft, sample, written

POINTS = ("begun", "produced", "offsets-sent", "committed")


class Crash(Exception):
    """The process dies here."""


class FixedClock:
    """A clock that only moves when it is slept on."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        return NOW + timedelta(seconds=sum(self.slept))

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Echo:
    """A worker that answers each request with a failure event, and may fail first."""

    name, version, topic = "synthesizer", 1, "bank.request"
    outputs: tuple[str, ...] = ("bank.state",)

    def __init__(self, failures: int = 0) -> None:
        self.handled: list[str] = []
        self.failures = failures

    def wants(self, fact: Fact) -> bool:
        return isinstance(fact.event, SynthesisRequested)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        self.handled.append(fact.id)
        if self.failures:
            self.failures -= 1
            raise Retryable("the disk is away")
        request: SynthesisRequested = fact.event  # type: ignore[assignment]
        event = SynthesisFailed(
            state=request.state,
            focus=request.focus,
            track=request.track,
            outcome=request.outcome,
            ordinal=request.ordinal,
            reason="echo",
        )
        return [draft(event, cause=fact.id, key=request.state)]


class Count:
    """A decider that wants one CampaignFinished per GroupRequested it has seen, in order of step."""

    name, version = "planner", 3
    inputs: tuple[str, ...] = ("group",)
    outputs: tuple[str, ...] = ("round",)

    def __init__(self, campaign: str) -> None:
        self.campaign = campaign
        self.steps: dict[int, str] = {}

    def apply(self, fact: Fact) -> None:
        if isinstance(fact.event, GroupRequested):
            self.steps.setdefault(fact.event.step, fact.id)

    def required(self) -> Sequence[Draft]:
        return [
            draft(CampaignFinished(outcome="x", rounds=step, best_checkpoint=None), cause=cause, key=self.campaign)
            for step, cause in sorted(self.steps.items())
        ]

    def state(self) -> Any:
        return self.steps


def request(number: int) -> Outgoing:
    return written(sample(SynthesisRequested, number), ordinal=number, key=f"s{number}")


def group(step: int, ordinal: int | None = None) -> Outgoing:
    event = sample(GroupRequested).model_copy(update={"step": step})
    return written(event, ordinal=step if ordinal is None else ordinal, key=f"g{step}")


def worker(broker: Broker, handler: Echo, instance: str = "a", crash: Callable[[str], None] = lambda _: None) -> Any:
    return WorkerMachine(
        handler=handler,
        log=MemoryWorkerLog(broker, service=handler.name, topic=handler.topic, instance=instance),
        codec=Codec(),
        clock=FixedClock(),
        executor=InlineExecutor(),
        status=Status(service=handler.name),
        partitions=PARTITIONS,
        crash=crash,
    )


def reactor(broker: Broker, crash: Callable[[str], None] = lambda _: None) -> ReactorMachine:
    return ReactorMachine(
        rules=DeciderRules(Count),
        log=MemoryReactorLog(broker, service="planner", topics=["group", "round"]),
        codec=Codec(),
        clock=FixedClock(),
        executor=InlineExecutor(),
        status=Status(service="planner"),
        partitions=PARTITIONS,
        crash=crash,
    )


def dies_at(point: str, at: int = 0) -> Callable[[str], None]:
    """A crash point that dies at the `at`-th passing of `point`."""
    left = [at]

    def crash(name: str) -> None:
        if name == point:
            if left[0] == 0:
                raise Crash(point)
            left[0] -= 1

    return crash


def run(machine: Any) -> None:
    while machine.step(0.0):
        pass


def facts(broker: Broker, topic: str) -> list[Fact]:
    found = [r for (name, _), rows in broker.records.items() if name == topic for r in rows]
    return [Codec().decode(record) for record in found]


def test_a_worker_answers_each_request_once() -> None:
    broker = Broker(PARTITIONS)
    broker.append([request(number) for number in range(9)])
    handler = Echo()
    run(worker(broker, handler))
    assert len(facts(broker, "bank.state")) == len(handler.handled) == 9
    assert sum(broker.offsets.values()) == 9


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_dies_anywhere_loses_nothing_and_doubles_nothing(point: str, at: int) -> None:
    broker = Broker(PARTITIONS)
    broker.append([request(number) for number in range(6)])
    first = worker(broker, Echo(), crash=dies_at(point, at))
    with pytest.raises(Crash):
        run(first)
    broker.members["synthesizer"].clear()
    run(worker(broker, Echo(), instance="b"))
    answers = facts(broker, "bank.state")
    assert len({fact.id for fact in answers}) == len(answers) == 6


def test_a_worker_tries_again_and_then_halts_without_skipping() -> None:
    broker = Broker(PARTITIONS)
    broker.append([request(0)])
    recovering = Echo(failures=2)
    run(worker(broker, recovering))
    assert len(recovering.handled) == 3
    assert len(facts(broker, "bank.state")) == 1

    broker.append([request(1)])
    with pytest.raises(HandlerFailed, match="the disk is away"):
        run(worker(broker, Echo(failures=99), instance="b"))
    assert len(facts(broker, "bank.state")) == 1


class GivesUp(Echo):
    """Puts its answer on the log and gives the event up, as often as it is asked."""

    def handle(self, fact: Fact) -> Sequence[Draft]:
        raise GivenUp("somebody must look", super().handle(fact))


def test_a_worker_that_gives_an_event_up_says_so_on_the_log_and_does_not_pass_it_over() -> None:
    broker = Broker(PARTITIONS)
    broker.append([request(0), request(1)])
    with pytest.raises(HandlerFailed, match=r"bank\.request\[\d\]@0 event [0-9a-f]{32}: somebody must look"):
        run(worker(broker, GivesUp()))
    assert len(facts(broker, "bank.state")) == 1
    assert sum(broker.offsets.values()) == 0
    broker.members["synthesizer"].clear()
    handler = Echo()
    run(worker(broker, handler, instance="b"))
    assert len(handler.handled) == 2
    assert len({fact.id for fact in facts(broker, "bank.state")}) == 2


def test_a_worker_stops_at_poison_and_commits_nothing_beyond_it() -> None:
    broker = Broker(PARTITIONS)
    good, bad = request(0), request(0)
    broker.append([good, Outgoing(**{**vars(bad), "value": b"\0junk"}), good])
    with pytest.raises(BadBody, match="@1"):
        run(worker(broker, Echo()))
    assert list(broker.offsets.values()) == [1]


def test_work_on_a_partition_that_was_taken_away_is_dropped() -> None:
    broker = Broker(PARTITIONS)
    broker.append([request(number) for number in range(8)])
    machine = worker(broker, Echo())
    machine.step(0.0)  # work is in flight
    newcomer = worker(broker, Echo(), instance="b")
    run(machine)
    run(newcomer)
    answers = facts(broker, "bank.state")
    assert len({fact.id for fact in answers}) == len(answers) == 8


def test_a_decider_makes_what_is_required_and_records_its_cut() -> None:
    broker = Broker(PARTITIONS)
    broker.append([group(step) for step in range(5)])
    run(reactor(broker))
    made = facts(broker, "round")
    assert [fact.event.rounds for fact in made] == [0, 1, 2, 3, 4]  # type: ignore[attr-defined]
    cut = made[-1].envelope.cut
    assert cut is not None
    assert set(cut) == {"group"}
    assert sum(cut["group"].values()) == 5
    assert made[0].envelope.time == NOW.astimezone(UTC)
    assert made[0].envelope.logic == "planner/3"


def test_a_decider_makes_nothing_twice_for_repeated_events() -> None:
    broker = Broker(PARTITIONS)
    broker.append([group(1), group(1), group(1)])
    run(reactor(broker))
    assert len(facts(broker, "round")) == 1


@pytest.mark.parametrize("at", range(2))
@pytest.mark.parametrize("point", POINTS)
def test_a_decider_that_dies_anywhere_goes_on_from_its_commit(point: str, at: int) -> None:
    broker = Broker(PARTITIONS)
    broker.append([group(0)])
    machine = reactor(broker, crash=dies_at(point, at))
    if at:
        run(machine)
        broker.append([group(1), group(2)])
    with pytest.raises(Crash):
        run(machine)
    if not at:
        broker.append([group(1), group(2)])
    run(reactor(broker))
    made = facts(broker, "round")
    assert len({fact.id for fact in made}) == len(made) == 3


def test_an_old_instance_is_fenced_by_a_new_one() -> None:
    broker = Broker(PARTITIONS)
    old = reactor(broker)
    run(old)
    new = reactor(broker)
    broker.append([group(7)])
    run(new)
    broker.append([group(8)])
    with pytest.raises(FencedError):
        run(old)
    assert len(facts(broker, "round")) == 1


def test_two_campaigns_in_one_namespace_do_not_mix() -> None:
    broker = Broker(PARTITIONS)
    event = sample(GroupRequested)
    broker.append([written(event, campaign=name, key=f"g-{name}") for name in ("c1", "c2")])
    run(reactor(broker))
    assert {fact.envelope.cause for fact in facts(broker, "round")} == {fact.id for fact in facts(broker, "group")}
