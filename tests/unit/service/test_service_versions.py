"""A campaign is decided by the versions that it pins, whatever newer ones a service has."""

from collections.abc import Sequence
from typing import Any

import pytest

from bat_events.codec import Codec, Fact
from bat_events.deciders.interface import Draft
from bat_events.deciders.premises import Premises
from bat_events.deciders.versions import DECIDERS, NEWEST, newest_logic, versions_of
from bat_events.domain import rubric
from bat_events.errors import ConfigurationError
from bat_events.events.campaign import CampaignPaused, CampaignStarted, LogicVersion
from bat_events.events.rounds import CampaignFinished
from bat_events.service.reactor import DeciderRules, ReactorMachine
from bat_events.service.runtime import InlineExecutor, Status, SystemClock
from tests.simulation.memory_log import Broker, MemoryReactorLog
from tests.support.samples import PARTITIONS, draft, fact, sample, written


class One:
    """Wants one CampaignFinished per campaign that began; names its version and what it was told before."""

    name, version = "planner", 1
    inputs: tuple[str, ...] = ("campaign", "group")
    outputs: tuple[str, ...] = ("round",)

    def __init__(self, campaign: str) -> None:
        self.campaign = campaign
        self.told: list[str] = []

    def apply(self, fact: Fact) -> None:
        self.told.append(fact.event.type_name())

    def required(self) -> Sequence[Draft]:
        if "CampaignStarted" not in self.told:
            return []
        event = CampaignFinished(outcome=f"by {self.version}", rounds=len(self.told), best_checkpoint=None)
        return [draft(event, campaign=self.campaign, key=self.campaign)]

    def state(self) -> Any:
        return self.told


class Two(One):
    """The version after it."""

    version = 2


def begun(campaign: str, pins: dict[str, int]) -> Any:
    logic = tuple(LogicVersion(name=name, version=version) for name, version in pins.items())
    return written(sample(CampaignStarted).model_copy(update={"logic": logic}), campaign=campaign, key=campaign)


def started(campaign: str, pins: dict[str, int]) -> Fact:
    logic = tuple(LogicVersion(name=name, version=version) for name, version in pins.items())
    event: Fact = fact(sample(CampaignStarted).model_copy(update={"logic": logic}), campaign=campaign, key=campaign)
    return event


def test_each_campaign_is_decided_and_signed_by_the_version_that_it_pins() -> None:
    broker = Broker(partitions=PARTITIONS)
    broker.append([begun("old", {"planner": 1}), begun("new", {"planner": 2}), begun("unsaid", {"gate": 7})])
    machine = ReactorMachine(
        rules=DeciderRules(Two, One),
        log=MemoryReactorLog(broker, service="planner", topics=["campaign", "group", "round"]),
        codec=Codec(),
        clock=SystemClock(),
        executor=InlineExecutor(),
        status=Status(service="planner"),
        partitions=PARTITIONS,
    )
    while machine.step(0.0):
        pass
    facts = [Codec().decode(record) for record in broker.records[("round", 0)]]
    assert {(f.envelope.campaign, f.envelope.logic, f.event.outcome) for f in facts} == {  # type: ignore[attr-defined]
        ("old", "planner/1", "by 1"),
        ("new", "planner/2", "by 2"),
        ("unsaid", "planner/2", "by 2"),
    }


def test_facts_that_come_before_the_start_are_kept_for_the_pinned_version() -> None:
    rules = DeciderRules(One, Two)
    rules.apply(fact(sample(CampaignPaused), campaign="c1"))
    assert rules.next_work(lambda _: False) is None
    rules.apply(started("c1", {"planner": 1}))
    call = rules.next_work(lambda _: False)
    assert call is not None
    (finished,) = call()
    assert finished.event == CampaignFinished(outcome="by 1", rounds=2, best_checkpoint=None)


def test_a_campaign_of_a_version_that_is_not_here_stops_the_service_and_says_so() -> None:
    with pytest.raises(ConfigurationError, match=r"campaign c1 pins planner/3, and here are only planner/1, planner/2"):
        DeciderRules(One, Two).apply(started("c1", {"planner": 3}))


def test_versions_of_one_decider_share_their_topics() -> None:
    class Elsewhere(One):
        version = 3
        inputs = ("campaign",)

    with pytest.raises(TypeError, match="differ in name, inputs or outputs"):
        DeciderRules(One, Elsewhere)

    class Again(One):
        pass

    with pytest.raises(TypeError, match="have version 1 both"):
        DeciderRules(One, Again)


def test_a_new_campaign_pins_the_newest_version_of_every_decider_and_the_old_ones_are_kept() -> None:
    pins = {part.name: part.version for part in newest_logic()}
    assert pins == {kind.name: kind.version for kind in NEWEST} | {
        Premises.NAME: Premises.VERSION,
        rubric.NAME: rubric.NEWEST,
    }
    for kind in NEWEST:
        rules = DeciderRules(*versions_of(kind.name))
        assert rules.inputs == kind.inputs
        assert [f"{kind.name}/{number}" in DECIDERS for number in range(1, kind.version + 1)] == [True] * kind.version
        assert max(versions_of(kind.name), key=lambda k: k.version) is kind
