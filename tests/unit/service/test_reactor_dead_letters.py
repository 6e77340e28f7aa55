"""Given poison among its inputs, a decider folds neither it nor what is behind it until a person decides, and cuts say so."""

from collections.abc import Sequence
from typing import Any

import pytest

from bat_events.codec import Fact
from bat_events.deciders.interface import Draft
from bat_events.events.dead_letters import Discarded, Redriven
from bat_events.events.rounds import CampaignFinished, GroupRequested
from bat_events.log.interface import Outgoing
from bat_events.log.topics import partition_of
from bat_events.service.reactor import DeciderRules, ReactorMachine
from bat_events.service.runtime import InlineExecutor, Status
from tests.simulation.memory_log import Broker, MemoryReactorLog
from tests.support.parking import CODEC, StillClock, box, causes, decide, facts, letters, run, undecodable
from tests.support.samples import PARTITIONS, draft, sample, written


class Count:
    """A decider that wants one CampaignFinished per GroupRequested it has seen, and breaks on step 13."""

    name, version = "planner", 3
    inputs: tuple[str, ...] = ("group",)
    outputs: tuple[str, ...] = ("round",)

    def __init__(self, campaign: str) -> None:
        self.campaign = campaign
        self.steps: dict[int, str] = {}

    def apply(self, fact: Fact) -> None:
        if isinstance(fact.event, GroupRequested):
            self.steps.setdefault(fact.event.step, fact.id)
            if fact.event.step == 13:
                raise ZeroDivisionError("a bug")

    def required(self) -> Sequence[Draft]:
        return [
            draft(CampaignFinished(outcome="x", rounds=step, best_checkpoint=None), cause=cause, key=self.campaign)
            for step, cause in sorted(self.steps.items())
        ]

    def state(self) -> Any:
        return self.steps


def group(step: int, key: str) -> Outgoing:
    made = written(sample(GroupRequested).model_copy(update={"step": step}), ordinal=step, key=key)
    place = partition_of(key.encode(), PARTITIONS["group"])  # by key alone: here one key has several steps
    return Outgoing(**{name: getattr(made, name) for name in ("topic", "key", "value", "headers")}, partition=place)


def reactor(broker: Broker) -> ReactorMachine:
    return ReactorMachine(
        rules=DeciderRules(Count),
        log=MemoryReactorLog(broker, service="planner", topics=["group", "round"]),
        codec=CODEC,
        clock=StillClock(),
        executor=InlineExecutor(),
        status=Status(service="planner"),
        partitions=PARTITIONS,
        box=box(broker, "planner"),
    )


def decided(broker: Broker) -> list[int]:
    return [fact.event.rounds for fact in facts(broker, "round")]  # type: ignore[attr-defined]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_key_waits_behind_poison_and_goes_on_in_order_when_that_is_discarded(restarts: bool) -> None:
    broker = Broker(PARTITIONS)
    broker.append([group(1, "k"), undecodable(group(2, "k")), group(3, "k"), group(4, "z"), group(5, "k")])
    machine = reactor(broker)
    run(machine)
    assert sorted(decided(broker)) == [1, 4]
    assert causes(broker) == ["bad_body"]
    assert all("dead-letter" not in (fact.envelope.cut or {}) for fact in facts(broker, "round"))
    if restarts:
        machine = reactor(broker)
        run(machine)
        assert causes(broker) == ["bad_body"]
    broker.append([decide(Discarded, letters(broker).open()[0])])
    run(reactor(broker) if restarts else machine)
    run(reactor(broker))
    assert sorted(decided(broker)) == [1, 3, 4, 5]
    last = facts(broker, "round")[-1].envelope.cut
    assert last is not None
    assert last["dead-letter"] == {0: 3}, "the letter, the marker of its transaction, the word"
    assert letters(broker).open() == []


def test_redriven_poison_that_is_still_poison_waits_again() -> None:
    broker = Broker(PARTITIONS)
    broker.append([undecodable(group(2, "k")), group(3, "k")])
    machine = reactor(broker)
    run(machine)
    broker.append([decide(Redriven, letters(broker).open()[0])])
    run(machine)
    run(reactor(broker))
    assert decided(broker) == []
    assert causes(broker) == ["bad_body", "bad_body"]
    broker.append([decide(Discarded, letters(broker).open()[0])])
    run(reactor(broker))
    assert decided(broker) == [3]


def test_a_fact_on_which_the_rules_break_is_parked_and_the_next_start_goes_on_without_it() -> None:
    broker = Broker(PARTITIONS)
    broker.append([group(1, "k")])
    machine = reactor(broker)
    run(machine)
    broker.append([group(13, "k"), group(14, "k"), group(15, "z")])
    with pytest.raises(ZeroDivisionError):
        run(machine)
    run(reactor(broker))
    assert sorted(decided(broker)) == [1, 15]
    assert causes(broker) == ["handler_failed"]
    broker.append([decide(Discarded, letters(broker).open()[0])])
    run(reactor(broker))
    assert sorted(decided(broker)) == [1, 14, 15]


def test_a_fact_that_waited_behind_another_and_breaks_the_rules_is_parked_as_well() -> None:
    broker = Broker(PARTITIONS)
    broker.append([undecodable(group(1, "k")), group(13, "k"), group(14, "k"), group(15, "z")])
    machine = reactor(broker)
    run(machine)
    assert decided(broker) == [15]
    broker.append([decide(Discarded, letters(broker).open()[0])])
    with pytest.raises(ZeroDivisionError):
        run(machine)
    run(reactor(broker))
    assert causes(broker) == ["bad_body", "handler_failed"]
    assert decided(broker) == [15]
    broker.append([decide(Discarded, letters(broker).open()[0])])
    run(reactor(broker))
    assert sorted(decided(broker)) == [14, 15]
