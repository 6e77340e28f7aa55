"""Given poison among work, when a worker meets it, then it is parked by reference, its key waits in order, the rest goes on."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from bat_events.errors import ConfigurationError
from bat_events.events.dead_letters import DeadLettered, DeadLetterSettled, Discarded, Redriven
from bat_events.log.interface import Outgoing
from bat_events.service.standing import Note
from tests.simulation.memory_log import Broker, MemoryReader
from tests.support.parking import (
    CODEC,
    TOPIC,
    Answering,
    Death,
    causes,
    decide,
    facts,
    letters,
    request,
    run,
    undecodable,
    worker,
)
from tests.support.samples import PARTITIONS

POINTS = ("begun", "produced", "offsets-sent", "committed")


def answered(broker: Broker) -> list[int]:
    return sorted(fact.event.ordinal for fact in facts(broker, "bank.state"))  # type: ignore[attr-defined]


def same_partition(key: str) -> str:
    """Another key whose records stand in the same partition."""
    where = request(0, key).partition
    return next(f"{key}-{n}" for n in range(1000) if request(0, f"{key}-{n}").partition == where)


def dies_at(point: str, at: int) -> Callable[[str], None]:
    left = [at]

    def crash(name: str) -> None:
        if name == point:
            if left[0] == 0:
                raise Death(point)
            left[0] -= 1

    return crash


def too_large(out: Outgoing) -> Outgoing:
    return Outgoing(**{**vars(out), "value": bytes(9 << 20)})


def unknown(out: Outgoing) -> Outgoing:
    headers = [(n, b"bat.SynthesisRequested.v99" if n == "ce_type" else v) for n, v in out.headers]
    return Outgoing(**{**vars(out), "headers": tuple(headers)})


def bare(out: Outgoing) -> Outgoing:
    return Outgoing(**{**vars(out), "headers": ()})


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [(undecodable, "bad_body"), (unknown, "unknown_schema"), (bare, "bad_envelope"), (too_large, "too_large")],
)
def test_a_record_that_is_no_event_is_parked_and_every_other_key_goes_on(
    spoil: Callable[[Outgoing], Outgoing], cause: str
) -> None:
    broker = Broker(PARTITIONS)
    other = same_partition("k")
    broker.append([request(0, "k"), spoil(request(1, "k")), request(2, other), request(3, "k"), request(4, "z")])
    handler = Answering()
    run(worker(broker, handler))
    assert answered(broker) == [0, 2, 4]
    assert causes(broker) == [cause, "behind"]
    (parked, behind) = letters(broker).open()
    assert (parked.event.offset, behind.event.offset) == (1, 3)
    assert (parked.key, parked.event.service, parked.event.topic) == ("k", "synthesizer", TOPIC)
    assert parked.event.value_bytes == len(spoil(request(1, "k")).value)
    assert sum(broker.offsets.values()) == 5, "the offset goes past what is parked, which the log knows of"
    run(worker(broker, handler, "b"))
    assert answered(broker) == [0, 2, 4]


@pytest.mark.parametrize(
    ("what", "cause", "tries"),
    [
        ("fails", "retries_exhausted", 3),
        ("breaks", "handler_failed", 3),
        ("contradicts", "impossible", 1),
        ("grows", "handler_failed", 1),
    ],
)
def test_work_that_fails_for_good_is_parked_and_tried_again_when_a_person_says_so(
    what: str, cause: str, tries: int
) -> None:
    broker = Broker(PARTITIONS)
    broker.append([request(0, "k"), request(1, "k"), request(2, "k"), request(3, "z")])
    handler = Answering({1: what})
    machine = worker(broker, handler)
    run(machine)
    assert answered(broker) == [0, 3]
    assert causes(broker) == [cause, "behind"]
    (parked, _) = letters(broker).open()
    assert parked.event.attempts == tries
    assert parked.event.event == facts(broker, TOPIC)[1].id or parked.event.event is not None

    broker.append([decide(Redriven, parked)])
    run(machine)  # nothing was mended
    assert answered(broker) == [0, 3]
    (again, _) = letters(broker).open()
    assert again.id != parked.id
    assert again.event.cause == cause

    handler.behaviour = {}
    broker.append([request(4, "k")])
    run(machine)
    assert answered(broker) == [0, 3], "redriven once is tried once"
    handler.handled.clear()
    broker.append([decide(Redriven, again)])
    run(machine)
    assert handler.handled == [1, 2, 4], "the record, then what waited behind it, in order"
    assert answered(broker) == [0, 1, 2, 3, 4]
    assert letters(broker).open() == []
    assert sum(isinstance(fact.event, DeadLetterSettled) for fact in facts(broker, "dead-letter")) == 3


def test_what_is_discarded_is_never_handled_and_what_waited_goes_on() -> None:
    broker = Broker(PARTITIONS)
    broker.append([undecodable(request(0, "k")), request(1, "k"), undecodable(request(2, "k")), request(3, "k")])
    handler = Answering()
    machine = worker(broker, handler)
    run(machine)
    assert handler.handled == []
    broker.append([decide(Discarded, letters(broker).open()[0])])
    run(machine)
    assert handler.handled == [1], "the second one holds the key again"
    (second, _) = letters(broker).open()
    broker.append([decide(Discarded, second)])
    machine._log.close()
    run(worker(broker, handler, "b"))
    assert handler.handled == [1, 3]


def test_events_of_another_campaign_are_parked_as_impossible() -> None:
    broker = Broker(PARTITIONS)
    broker.append([request(0, "k"), request(1, "k"), request(2, "z")])
    handler = Answering()
    run(worker(broker, handler, possible=lambda f: "not its ids" if f.event.ordinal == 0 else None))  # type: ignore[attr-defined]
    assert handler.handled == [2]
    assert causes(broker) == ["impossible", "behind"]


def test_a_record_that_kills_its_process_is_parked_after_so_many_deaths() -> None:
    broker = Broker(PARTITIONS)
    other = same_partition("k")
    broker.append([request(0, "k"), request(1, "k"), request(2, other)])
    deaths = 0
    handler = Answering({0: "kills"})
    for instance in "abcdefgh":
        broker.members.get("synthesizer", []).clear()  # the dead say nothing
        try:
            run(worker(broker, handler, instance))
        except Death:
            deaths += 1
    assert deaths == 3
    assert handler.handled == [0, 0, 0, 2]
    assert causes(broker) == ["kills_consumer", "behind"]
    assert letters(broker).open()[0].event.attempts == 3

    handler.behaviour = {}
    broker.append([decide(Redriven, letters(broker).open()[0])])
    broker.members["synthesizer"].clear()
    run(worker(broker, handler, "z"))
    assert handler.handled == [0, 0, 0, 2, 0, 1]


def test_a_redriven_record_that_still_kills_is_parked_again() -> None:
    broker = Broker(PARTITIONS)
    broker.append([request(0, "k")])
    handler = Answering({0: "breaks"})
    run(worker(broker, handler))
    handler.behaviour = {0: "kills"}
    broker.append([decide(Redriven, letters(broker).open()[0])])
    for instance in "bcdefg":
        broker.members["synthesizer"].clear()
        try:
            run(worker(broker, handler, instance))
        except Death:
            continue
    assert causes(broker) == ["handler_failed", "kills_consumer"]
    assert len(handler.handled) == 3 + 3


def test_leaving_in_good_order_is_no_death() -> None:
    class Halts(Answering):
        def handle(self, fact: Any) -> Any:
            super().handle(fact)
            raise ConfigurationError("set something")

    broker = Broker(PARTITIONS)
    broker.append([request(0, "k")])
    handler = Halts()
    for number in range(9):
        machine = worker(broker, handler, f"i{number}")
        with pytest.raises(ConfigurationError):
            run(machine)
        machine._log.close()
    assert len(handler.handled) == 9
    assert causes(broker) == []


def test_a_new_owner_handles_nothing_before_it_has_read_what_the_last_one_parked() -> None:
    class Late(MemoryReader):
        """Shows nothing at first, as while a transaction of another service that began earlier is open."""

        hidden = 5

        def poll(self, max_records: int, timeout_s: float) -> Any:
            self.hidden -= 1
            return [] if self.hidden >= 0 else super().poll(max_records, timeout_s)

    broker = Broker(PARTITIONS)
    broker.append([undecodable(request(0, "k")), request(1, "k")])
    first = worker(broker, Answering())
    first.step(0.0)  # parks the first record and dies
    broker.members["synthesizer"].clear()
    handler = Answering()
    second = worker(broker, handler, "b")
    assert second._box is not None
    second._box._reader = Late(broker, ["dead-letter"])
    run(second)
    assert handler.handled == []
    assert causes(broker) == ["bad_body", "behind"]


def test_an_oversized_or_foreign_note_is_no_note() -> None:
    assert Note.parse("") == Note.parse("letters=1;try=x") == Note.parse("somebody else's") == Note()
    note = Note(letters=3, tried=17, tries=2)
    assert Note.parse(str(note)) == note
    assert Note.parse(str(Note(letters=4))) == Note(letters=4)


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_dies_while_it_parks_or_takes_up_loses_and_doubles_nothing(point: str, at: int) -> None:
    broker = Broker(PARTITIONS)
    broker.append([undecodable(request(0, "k")), request(1, "k"), request(2, "k"), request(3, "z")])
    _run_through_deaths(broker, Answering(), point, at)
    assert causes(broker).count("bad_body") == 1
    broker.append([decide(Discarded, letters(broker).open()[0])])
    handler = Answering()
    _run_through_deaths(broker, handler, point, at)
    assert answered(broker) == [1, 2, 3]
    assert letters(broker).open() == []
    ids = [CODEC.decode(r).id for (topic, _), rows in broker.records.items() if topic == "bank.state" for r in rows]
    assert len(ids) == len(set(ids))


def _run_through_deaths(broker: Broker, handler: Answering, point: str, at: int) -> None:
    for instance in range(9):
        broker.members.get("synthesizer", []).clear()
        try:
            run(
                worker(broker, handler, f"{point}{at}{instance}", crash=dies_at(point, at) if instance == 0 else _lives)
            )
        except Death:
            continue
        return
    raise AssertionError("it never came to rest")


def _lives(_: str) -> None:
    return None


@pytest.mark.parametrize("seed", range(60))
def test_any_order_of_deaths_rebalances_and_decisions_keeps_each_keys_order(seed: int) -> None:
    """Whatever happens: every sound request is answered once, in its key's order; nothing parked is passed over."""
    rng = random.Random(seed)
    broker = Broker(PARTITIONS)
    keys = [f"k{n}" for n in range(4)]
    bad = {n for n in range(24) if rng.random() < 0.2}
    failing = {n: "fails" for n in range(24) if n not in bad and rng.random() < 0.1}
    waiting = [
        undecodable(request(n, rng.choice(keys))) if n in bad else request(n, rng.choice(keys)) for n in range(24)
    ]
    order: list[tuple[str, int]] = []

    class Recording(Answering):
        def handle(self, fact: Any) -> Any:
            drafts = super().handle(fact)
            order.append((fact.envelope.subject, fact.event.ordinal))
            return drafts

    behaviour = dict(failing)
    machines: list[Any] = []
    number = 0
    for turn in range(400):
        if waiting and rng.random() < 0.3:
            broker.append([waiting.pop(0)])
        if not machines or (len(machines) < 3 and rng.random() < 0.03):
            number += 1
            machines.append(worker(broker, Recording(behaviour), f"i{number}", crash=_rarely(rng, turn)))
        machine = rng.choice(machines)
        try:
            machine.step(0.0)
        except Death:
            machines.remove(machine)
            broker.members["synthesizer"].remove(machine._log)
            broker.rebalance("synthesizer", TOPIC)
        if len(machines) > 1 and rng.random() < 0.02:
            machines.pop(0)._log.close()
        if rng.random() < 0.05:
            behaviour.clear()  # somebody mended the disk
        if rng.random() < 0.1:
            decidable = [x for x in letters(broker).open() if x.event.cause != "behind" and x.state == "parked"]
            for letter in decidable and [rng.choice(decidable)]:
                broker.append([decide(Discarded if letter.event.cause == "bad_body" else Redriven, letter)])
    broker.append(waiting)
    behaviour.clear()
    last = worker(broker, Recording(), "last")
    for _ in range(40):
        for machine in [*machines, last]:
            machine._crash = _lives
            run(machine)
        left = [x for x in letters(broker).open() if x.event.cause != "behind" and x.state == "parked"]
        for letter in left:
            broker.append([decide(Discarded if letter.event.cause == "bad_body" else Redriven, letter)])
        if not letters(broker).open():
            break
    assert answered(broker) == [n for n in range(24) if n not in bad]
    assert letters(broker).open() == []
    parked = [f.event.offset for f in facts(broker, "dead-letter") if isinstance(f.event, DeadLettered)]
    assert parked or not bad
    committed = [CODEC.decode(r) for (t, _), rows in broker.records.items() if t == "bank.state" for r in rows]
    assert len({fact.id for fact in committed}) == len(committed)
    for key in keys:
        mine = [fact.event.ordinal for fact in committed if _key_of(fact, broker) == key]  # type: ignore[attr-defined]
        assert mine == sorted(mine), f"seed {seed}: key {key} came out of order"


def _key_of(fact: Any, broker: Broker) -> str:
    for (topic, _), rows in broker.records.items():
        if topic == TOPIC:
            for record in rows:
                if dict(record.headers).get("ce_id") == fact.envelope.cause.encode():
                    return record.key.decode()
    raise LookupError(fact.envelope.cause)


def _rarely(rng: random.Random, turn: int) -> Callable[[str], None]:
    mine = random.Random(rng.random() + turn)

    def crash(_: str) -> None:
        if mine.random() < 0.02:
            raise Death

    return crash
