"""A fork goes on from its cut as its origin would have, but for what was changed; and replays."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from bat_events.codec import Fact
from bat_events.domain.lineage import ancestors
from bat_events.events.bank import SynthesisRequested
from bat_events.events.envelope import Place
from bat_events.events.ids import event_id
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted, TargetStagePrescribed
from bat_events.log.interface import Record
from bat_events.replay import ReplayResult, render, replay_campaign, what_if
from tests.fork.forking import FOUR, Fork
from tests.replay.loop import CAMPAIGN, PLAN, Loop, Store, decode
from tests.replay.memory import MemorySource


def decided(facts: Sequence[Fact]) -> dict[int, CheckpointPromoted | CheckpointHeld]:
    return {f.event.round: f.event for f in facts if isinstance(f.event, CheckpointPromoted | CheckpointHeld)}


def replayed(records: list[Record]) -> ReplayResult:
    """A fork's replay without a difference, its copies' too."""
    result = replay_campaign(MemorySource(records), log_only=True)
    assert result.exit_code == 0, render(result)
    assert result.origin is not None
    assert result.outcome == "completed"
    return result


def bodies(facts: Sequence[Fact]) -> Counter[tuple[str, str]]:
    return Counter((fact.event.type_name(), fact.envelope.body_digest) for fact in facts)


def test_a_fork_that_changes_nothing_repeats_its_origin(four: list[Record], tmp_path: Path) -> None:
    fork = Fork(four, tmp_path / "a", at=2, plan=FOUR)
    result = replayed(fork.run())
    origin = decode(four)
    copied = {fact.id for fact in decode(fork.loop.store.all()) if fact.envelope.origin is not None}
    assert bodies(fork.own) == bodies([fact for fact in origin if fact.id not in copied])
    assert not {fact.id for fact in fork.own} & {fact.id for fact in origin}, "an id is one event's"
    assert result.decisions > 0
    assert result.origin is not None
    assert result.origin.decisions > 0


def test_every_copy_names_its_origin_and_every_id_follows_from_its_maker(four: list[Record], tmp_path: Path) -> None:
    fork = Fork(four, tmp_path / "a", at=1, plan=FOUR)
    there = {(fact.topic, fact.partition, fact.offset): fact for fact in decode(four)}
    for fact in decode(fork.run()):
        envelope = fact.envelope
        made = event_id(
            campaign=envelope.maker, cause=envelope.cause, type_name=fact.event.type_name(), ordinal=envelope.ordinal
        )
        assert (fact.id, envelope.campaign) == (made, fork.campaign)
        if envelope.origin is not None:
            (place,) = envelope.origin
            assert there[(fact.topic, fact.partition, place.offset)].id == fact.id
            assert place.campaign == CAMPAIGN


@pytest.mark.parametrize(
    ("number", "name", "value"),
    [(20, "gate.mode", "reference"), (17, "gate.max_stage_drop", 0.0), (15, "target_rule", "raw")],
)
def test_what_what_if_says_of_its_first_difference_a_fork_really_decides(
    tmp_path: Path, number: int, name: str, value: object
) -> None:
    """The campaigns are such that the setting matters: their names give the facts."""
    campaign, plan = f"synthetic-{number}", PLAN.model_copy(update={"rounds": 3})
    origin = Loop(seed=7, plan=plan, campaign=campaign).run()
    answer = what_if(MemorySource(origin), {name: str(value)})
    first = next(row for row in answer.rounds if row.differs)
    fork = Fork(origin, tmp_path / "a", at=first.round, origin=campaign, values={name: value}, plan=plan)
    records = fork.run()
    replayed(records)
    before, now = decided(decode(origin)), decided(decode(records))
    assert {n: now[n] for n in range(first.round)} == {n: before[n] for n in range(first.round)}
    said = "promoted" if isinstance(now[first.round], CheckpointPromoted) else "held"
    assert (said, now[first.round].reasons) == (first.would_decide, first.would_reasons)
    targets = {f.event.round: f.event.target_stage for f in fork.own if isinstance(f.event, TargetStagePrescribed)}
    assert targets.get(first.round + 1) == first.would_target
    assert (first.decision, first.target) != (first.would_decide, first.would_target)


def test_a_campaign_that_ended_goes_on_for_more_rounds(four: list[Record], tmp_path: Path) -> None:
    fork = Fork(four, tmp_path / "a", at=4, values={"rounds": 5}, plan=FOUR)
    records = fork.run()
    replayed(records)
    assert sorted(decided(decode(records))) == [0, 1, 2, 3, 4, 5]


def test_a_running_campaign_is_forked_and_what_was_in_flight_is_done_by_the_fork(tmp_path: Path) -> None:
    loop = Loop(seed=3, plan=FOUR)
    running = loop.run(records=500)
    last = max(decided(decode(running)))
    fork = Fork(running, tmp_path / "a", at=last, values={"gate.mode": "reference"}, plan=FOUR)
    asked = [f for f in decode(running) if isinstance(f.event, SynthesisRequested)]
    reopened = [f for f in asked if f.id in fork.cut.reopened]
    replayed(fork.run())
    again = {f.event.state for f in fork.own if isinstance(f.event, SynthesisRequested)}
    assert {f.event.state for f in reopened if isinstance(f.event, SynthesisRequested)} <= again


def test_a_fork_of_a_fork(four: list[Record], tmp_path: Path) -> None:
    one = Fork(four, tmp_path / "a", at=1, values={"gate.mode": "reference"}, plan=FOUR)
    records = one.run()
    two = Fork(
        records, tmp_path / "b", at=3, origin=one.campaign, name="deep", values={"target_rule": "raw"}, plan=FOUR
    )
    result = replayed(two.run())
    assert result.origin is not None
    assert result.origin.origin is not None
    assert [result.origin.campaign, result.origin.origin.campaign] == [one.campaign, CAMPAIGN]
    assert ancestors(two.campaign) == [CAMPAIGN, one.campaign]
    places = {tuple(place.campaign for place in fact.envelope.origin or ()) for fact in decode(two.loop.store.all())}
    assert places == {(CAMPAIGN, one.campaign), (one.campaign,), ()}
    assert {f.event.mode for f in two.own if isinstance(f.event, CheckpointPromoted | CheckpointHeld)} == {"reference"}


def test_the_origin_shared_its_log_with_an_earlier_campaign(tmp_path: Path) -> None:
    store = Store()
    Loop(seed=5, campaign="earlier", store=store).run()
    both = Loop(seed=6, store=store).run()
    fork = Fork(both, tmp_path / "a", at=1, values={"target_rule": "raw"})
    assert fork.cut.beside
    records = fork.run()
    replayed(records)
    assert all(fact.envelope.origin != (Place(campaign="earlier", offset=0),) for fact in decode(records))


def test_before_its_copy_is_whole_nothing_is_decided(four: list[Record], tmp_path: Path) -> None:
    fork = Fork(four, tmp_path / "a", at=1, plan=FOUR)
    fork.copy()
    fork.loop.go_on(fork.draft)
    assert fork.own == []
    said = {name: machine._status.doing for name, machine in fork.loop._machines.items()}
    assert all("is not whole" in text for text in said.values()), said
    fork.finish()
    replayed(fork.loop.go_on(fork.draft))
