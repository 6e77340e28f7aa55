"""Given poison and impossible events among a campaign's, every order of work decides the same, and so does replay."""

import dataclasses
import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest

from bat_events.codec import Codec, Fact
from bat_events.deciders.dead_letters import DeadLetters
from bat_events.domain.grouping import group_id, rollout_id
from bat_events.domain.sealing import content_bytes
from bat_events.errors import BadBody
from bat_events.events.bank import LeakageVerdict
from bat_events.events.dead_letters import DeadLettered, Discarded, Redriven
from bat_events.events.rollouts import RewardScored
from bat_events.log.interface import Outgoing, Record
from bat_events.log.topics import partition_of
from bat_events.replay import render, replay_campaign
from bat_events.replay.replayer import _streamed
from bat_events.replay.self_check import faults
from bat_events.replay.stream_walk import Mismatch
from tests.replay.loop import CAMPAIGN, PARTITIONS, Loop, Store
from tests.replay.memory import MemorySource
from tests.support.parking import decide
from tests.support.samples import sample, written

CODEC = Codec()


def facts(records: Sequence[Record], topics: Callable[[str], bool] = lambda _: True) -> list[Fact]:
    found = []
    for record in records:
        if topics(record.topic):
            try:
                found.append(CODEC.decode(record))
            except BadBody:
                continue
    return found


def decisions(records: Sequence[Record]) -> set[tuple[str, str]]:
    """What was decided: ids and bodies, without when and on which cut."""
    decided = ("round", "group", "bank.request", "bank.ready", "curriculum", "promotion", "training")
    return {(fact.id, fact.envelope.body_digest) for fact in facts(records, lambda topic: topic in decided)}


@cache
def undisturbed() -> set[tuple[str, str]]:
    """What is decided where nothing goes wrong."""
    return decisions(Loop(seed=100).run())


def letters(records: Sequence[Record]) -> DeadLetters:
    fold = DeadLetters()
    for fact in facts(records, lambda topic: topic == "dead-letter"):
        fold.apply(fact.id, fact.event, key=fact.envelope.subject, campaign=fact.envelope.campaign)
    return fold


def placed(out: Outgoing) -> Outgoing:
    """The record on a partition that this log has."""
    return dataclasses.replace(out, partition=out.partition % PARTITIONS[out.topic])


class Junk:
    """Puts bytes that are no event on topics, and a person who decides about each once.

    The key is one in use on that topic; with `ahead_of` one of that topic, so that what comes of it will be behind the junk.
    """

    def __init__(
        self,
        topics: Sequence[str],
        word: type[Redriven] | type[Discarded],
        count: int = 4,
        ahead_of: str | None = None,
    ) -> None:
        self.topics, self.word, self.left, self.ahead_of = topics, word, count, ahead_of
        self.decided: set[Any] = set()

    def __call__(self, store: Store, rng: random.Random, idle: int) -> bool:
        if self.left and rng.random() < 0.2:
            wanted = self.topics if self.ahead_of is None else (self.ahead_of,)
            there = [r for (topic, _), rows in store.records.items() if topic in wanted for r in rows]
            if there:
                self.left -= 1
                like = rng.choice(there) if self.ahead_of is None else there[-1]
                topic = like.topic if self.ahead_of is None else self.topics[0]
                place = partition_of(like.key, PARTITIONS[topic])
                store.append([Outgoing(topic=topic, partition=place, key=like.key, value=b"\0", headers=like.headers)])
                return True
        if rng.random() < 0.03 or idle > 20:
            for letter in letters(store.all()).open():
                if letter.event.waits and letter.state == "parked" and letter.reference not in self.decided:
                    self.decided.add(letter.reference)
                    store.append([decide(self.word, letter)])
                    return True
        return False


JUNK: dict[str, dict[str, Any]] = {
    "practice": {"topics": ("rollout", "reward", "bank.state")},
    "campaign": {"topics": ("training", "promotion", "campaign")},
    "verdicts wait": {"topics": ("bank.verdict",), "ahead_of": "bank.state", "count": 12},
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("what", JUNK)
def test_discarded_junk_leaves_every_decision_as_it_was_and_replay_reproduces_it(what: str, seed: int) -> None:
    records = Loop(seed=seed, restarts=0.03, poison=Junk(word=Discarded, **JUNK[what])).run()
    assert decisions(records) == undisturbed()
    parked = [fact.event for fact in facts(records) if isinstance(fact.event, DeadLettered)]
    assert {event.cause for event in parked} <= {"bad_body", "unknown_schema", "bad_envelope"}
    assert parked
    assert letters(records).open() == []
    result = replay_campaign(MemorySource(records))
    assert result.reproduced, render(result)
    assert "records that are no events" in {part.what for part in result.taken}


def test_junk_on_a_campaigns_topic_halts_the_campaign_until_somebody_decides() -> None:
    junk = Junk(("training",), Discarded, count=1)
    junk.decided = type("Never", (set,), {"__contains__": lambda *_: True})()
    records = Loop(seed=1, poison=junk).run()
    assert decisions(records) < undisturbed()
    services = {letter.event.service for letter in letters(records).open()}
    assert services == {"planner", "gate"}
    assert replay_campaign(MemorySource(records)).reproduced


def test_redriven_junk_is_junk_again_and_still_holds_its_key() -> None:
    records = Loop(seed=2, poison=Junk(("reward",), Redriven, count=1)).run()
    found = [letter for letter in letters(records).all() if letter.event.service == "planner"]
    (letter,) = found
    again = [event for _, event in letter.history if isinstance(event, DeadLettered)]
    assert len(again) == 2
    assert letter.state == "parked"
    assert len({letter_id for letter_id, event in letter.history if isinstance(event, DeadLettered)}) == len(again)
    assert replay_campaign(MemorySource(records)).reproduced


def test_a_record_that_nobody_parked_is_still_refused() -> None:
    records = Loop(seed=3).run()
    number = next(n for n, record in enumerate(records) if record.topic == "reward")
    records[number] = dataclasses.replace(records[number], value=b"\0")
    with pytest.raises(BadBody, match="reward"):
        replay_campaign(MemorySource(records))


class Impossible:
    """Strays: a reward of an unknown rollout, one of another campaign's group, a verdict before any state."""

    def __init__(self) -> None:
        self.left = [self._unknown_rollout, self._foreign_group, self._verdict_without_state, self._settled_twice]

    def __call__(self, store: Store, rng: random.Random, idle: int) -> bool:  # noqa: ARG002
        there = [r for (topic, _), rows in store.records.items() if topic == "group" for r in rows]
        if not self.left or not there or rng.random() > 0.2:
            return False
        group: Any = CODEC.decode(rng.choice(there)).event
        store.append([placed(self.left.pop(0)(group))])
        return True

    def _reward(self, **fields: Any) -> Outgoing:
        event = sample(RewardScored).model_copy(update=fields)
        return written(event, campaign=CAMPAIGN, key=event.group, ordinal=len(self.left))

    def _unknown_rollout(self, group: Any) -> Outgoing:
        place = {name: getattr(group, name) for name in ("group", "round", "step", "slot")}
        return self._reward(**place, index=77, rollout=rollout_id(group.group, 77), reward=1.0)

    def _foreign_group(self, group: Any) -> Outgoing:
        place = {name: getattr(group, name) for name in ("round", "step", "slot")}
        other = group_id("another", group.round, group.step, group.slot, 0)
        return self._reward(**place, group=other, index=0, rollout=rollout_id(other, 0), reward=1.0)

    def _settled_twice(self, group: Any) -> Outgoing:
        """A rollout's id that is not the one of its index: it would fill the place of the true one."""
        place = {name: getattr(group, name) for name in ("group", "round", "step", "slot")}
        return self._reward(**place, index=0, rollout=rollout_id(group.group, 1), reward=1.0)

    def _verdict_without_state(self, _: Any) -> Outgoing:
        from bat_events.domain.grouping import state_id

        event = sample(LeakageVerdict)
        cell = (event.focus, event.track, event.outcome, 10**6)
        state = state_id(CAMPAIGN, *cell)
        event = event.model_copy(update={"state": state, "ordinal": 10**6, "cleared": False})
        return written(event, campaign=CAMPAIGN, key=state, ordinal=9)


@pytest.mark.parametrize("seed", range(3))
def test_impossible_events_change_no_decision_and_are_recorded_once(seed: int) -> None:
    records = Loop(seed=seed, restarts=0.03, poison=Impossible()).run()
    assert decisions(records) == undisturbed()
    found = letters(records).open()
    said = {(letter.event.service, letter.event.cause, letter.event.topic) for letter in found}
    assert said == {
        ("planner", "unfounded", "reward"),
        ("planner", "impossible", "reward"),
        ("trainer", "unfounded", "reward"),
        ("trainer", "impossible", "reward"),
        ("bank", "unfounded", "bank.verdict"),
    }
    assert not any(letter.event.waits for letter in found)
    assert len(found) == 2 * 3 + 1
    result = replay_campaign(MemorySource(records))
    assert result.reproduced, render(result)
    for r in (r for r in records if r.topic == "dead-letter"):  # of several writers, and each fits itself
        assert faults(r.topic, r.partition, content_bytes(r.key, r.value, r.headers, r.timestamp_ms)) == []
    with pytest.raises(Mismatch, match="dead letters"):  # one pass leaves these to memory
        _streamed(MemorySource(records), None, None)
