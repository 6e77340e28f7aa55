"""What the simulation found in the service loop, each as the shortest case in which it happens."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from bat_events.codec import Fact
from bat_events.events.dead_letters import Redriven
from bat_events.log.interface import Outgoing
from bat_events.service.worker import WorkerMachine
from tests.simulation.chaos import Chaos
from tests.simulation.memory_log import Broker
from tests.simulation.world import World
from tests.support.parking import TOPIC, Answering, decide, facts, letters, request, run, worker
from tests.support.samples import PARTITIONS


class LateExecutor:
    """Does an effect at once and says so when it is told to."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()
        self.result: Any = None

    def submit(self, call: Callable[[], Any]) -> "Future[Any]":
        """See Executor."""
        self.future, self.result = Future(), call()
        return self.future

    def end(self) -> None:
        """The effect is over."""
        self.future.set_result(self.result)


class Picky(Answering):
    """Wants no request with an odd ordinal."""

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return super().wants(fact) and fact.event.ordinal % 2 == 0  # type: ignore[attr-defined]


def moving_key() -> str:
    """A key whose partition goes to the second of two workers."""
    return next(f"k{n}" for n in range(1000) if request(0, f"k{n}").partition == PARTITIONS[TOPIC] - 1)


def test_work_whose_partition_went_and_came_back_is_dropped() -> None:
    key = moving_key()
    place = ("synthesizer", (TOPIC, PARTITIONS[TOPIC] - 1))
    broker = Broker(PARTITIONS)
    broker.append([request(number, key) for number in range(3)])
    slow, executor = worker(broker, Answering()), LateExecutor()
    slow._executor = executor
    slow.step(0.0)  # the first request is in flight
    other = worker(broker, Answering(), "b")
    run(other)
    assert broker.offsets[place] == 3
    other._log.close()  # type: ignore[attr-defined]
    executor.end()
    run(slow)
    assert broker.offsets[place] == 3
    answers = [record for (topic, _), rows in broker.records.items() if topic == "bank.state" for record in rows]
    assert len(answers) == 3


def test_what_was_passed_over_before_a_partition_went_sets_no_offset_back() -> None:
    key = moving_key()
    place = ("synthesizer", (TOPIC, PARTITIONS[TOPIC] - 1))
    broker = Broker(PARTITIONS)
    broker.append([request(1, key), request(2, key)])
    first = worker(broker, Picky())
    first.step(0.0)  # the first is passed over, and that is not committed yet
    other = worker(broker, Picky(), "b")
    run(other)
    assert broker.offsets[place] == 2
    other._log.close()  # type: ignore[attr-defined]
    run(first)
    assert broker.offsets[place] == 2


def test_taking_up_a_dead_letter_sets_no_offset_back() -> None:
    broker = Broker(PARTITIONS)
    marked: list[int] = []
    broker.on_mark.append(lambda _group, _where, offset: marked.append(offset))
    handler = Picky({0: "fails"})
    machine: WorkerMachine = worker(broker, handler)
    broker.append([request(0, "k")])
    run(machine)
    broker.append([request(1, "z" if request(1, "z").partition == request(0, "k").partition else "k")])
    run(machine)
    assert sum(broker.offsets.values()) == 2
    handler.behaviour = {}
    marked.clear()
    broker.append([decide(Redriven, letters(broker).open()[0])])
    run(machine)
    assert marked == [2]
    assert sum(broker.offsets.values()) == 2
    assert len(facts(broker, "bank.state")) == 1


def test_junk_that_looks_like_the_end_of_a_round_ends_no_notary() -> None:
    world = World(Chaos(None))
    world.run()
    for name, topic in (("notary", "seal"), ("heldout-notary", "heldout.seal")):
        spoilt = world.broker.records[(topic, 0)] + world.broker.records[("round", 0)]
        world.broker.append(
            [Outgoing(topic=r.topic, partition=0, key=r.key, value=b"\0junk", headers=r.headers) for r in spoilt]
        )
        before = len(world.machines.heads[name].kept)
        world.machines.heads[name].kept.pop()  # as after a crash between the seal and the file
        world.add(name)
        with world._simulated():
            world._go_on(until=None)
        assert len(world.machines.heads[name].kept) == before
        assert {head.noted for head in world.machines.heads[name].kept} == {"sealing", "later"}
