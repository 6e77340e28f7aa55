"""What is wrong with a fork is found and named, and what cannot be forked is refused."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bat_events.deciders.in_force import SettingRefused, plan_for, rubric_for
from bat_events.domain.lineage import ancestors, fork_of, is_fork, root
from bat_events.errors import ConfigurationError, LogError
from bat_events.events.boundary import EvaluationReported
from bat_events.events.campaign import CampaignForked, CampaignStarted, SettingChanged
from bat_events.events.dead_letters import Discarded
from bat_events.events.rollouts import RewardScored
from bat_events.log.copies import copy_of, is_copy, original_of
from bat_events.log.interface import Record
from bat_events.producers import campaigns
from bat_events.producers.fork_cut import Cutting
from bat_events.replay import ArchiveReader, ReplayError, replay_campaign, what_if, with_origin
from tests.archive.logs import export
from tests.fork.forking import FOUR, Fork
from tests.replay.loop import CAMPAIGN, PLAN, Loop, decode
from tests.replay.memory import MemorySource, falsify, pick, swapped
from tests.replay.test_replay_dead_letters import Impossible, Junk
from tests.support.samples import sample


@pytest.fixture(scope="module")
def fork(four: list[Record], tmp_path_factory: pytest.TempPathFactory) -> Fork:
    """A fork at round 2 that has ended."""
    made = Fork(four, tmp_path_factory.mktemp("fork") / "a", at=2, values={"target_rule": "raw"}, plan=FOUR)
    made.run()
    return made


def _changed(records: list[Record]) -> tuple[list[Record], str]:
    number, fact = pick(records, lambda f: f.envelope.origin is not None and isinstance(f.event, RewardScored))
    assert isinstance(fact.event, RewardScored)
    other = falsify(records[number], body={"reward": round(1.0 - fact.event.reward, 4) / 2})
    return swapped(records, number, other), "copied.reward"


def _left_out(records: list[Record]) -> tuple[list[Record], str]:
    copied = [n for n, record in enumerate(records) if is_copy(record) and record.topic == "boundary.report"]
    return swapped(records, copied[-1], None), "copied.boundary.report[0].count"


def _other_settings(records: list[Record]) -> tuple[list[Record], str]:
    number, fact = pick(records, lambda f: isinstance(f.event, CampaignForked))
    assert isinstance(fact.event, CampaignForked)
    return swapped(records, number, falsify(records[number], event=fact.event.model_copy(update={"settings": ()}))), ""


@pytest.mark.parametrize("plant", [_changed, _left_out, _other_settings], ids=lambda plant: plant.__name__)
def test_a_changed_copy_and_changed_settings_are_found(
    fork: Fork, plant: Callable[[list[Record]], tuple[list[Record], str]]
) -> None:
    records, field = plant(fork.loop.store.all())
    result = replay_campaign(MemorySource(records), log_only=True)
    assert result.exit_code == 1
    assert any(difference.field.startswith(field) for difference in result.differences)


def test_a_copy_that_stands_there_twice_is_no_log(fork: Fork) -> None:
    records = fork.loop.store.all()
    number = max(n for n, record in enumerate(records) if is_copy(record) and record.topic == "group")
    twice = dataclasses.replace(records[number], offset=records[number].offset + 1)
    with pytest.raises(ReplayError, match=r"group\[\d\]: offset \d+ follows \d+: not a log's order"):
        replay_campaign(MemorySource([*records[: number + 1], twice, *records[number + 1 :]]))


def test_one_round_of_a_fork_is_replayed_on_the_side_of_the_cut_where_it_stands(fork: Fork) -> None:
    source = MemorySource(fork.loop.store.all())
    before, after = (replay_campaign(source, round=number, log_only=True) for number in (1, 4))
    assert before.exit_code == after.exit_code == 0
    assert before.origin is not None
    assert before.origin.decisions > 0
    assert after.origin is None
    assert after.decisions > 0


def test_copies_are_held_against_the_origins_archive(fork: Fork, four: list[Record], tmp_path: Path) -> None:
    source = MemorySource(fork.loop.store.all())
    result = replay_campaign(source, log_only=True)
    assert with_origin(result, source, fork.archive).exit_code == 0
    number, fact = pick(four, lambda f: isinstance(f.event, EvaluationReported) and f.event.round == 1)
    export(swapped(four, number, falsify(four[number], traceparent=None)), tmp_path / "other", CAMPAIGN)
    found = with_origin(result, source, ArchiveReader(tmp_path / "other"))
    assert [difference.field for difference in found.differences] == ["copied.boundary.report[0].digest"]
    with pytest.raises(ReplayError, match="was not forked"):
        with_origin(dataclasses.replace(result, campaign=CAMPAIGN), MemorySource(four), fork.archive)
    assert fact is not None


def test_a_half_copy_is_not_replayed_and_a_fork_is_not_asked_what_if(fork: Fork) -> None:
    records = fork.loop.store.all()
    half = [record for record in records if is_copy(record)]
    with pytest.raises(ReplayError, match="not whole"):
        replay_campaign(MemorySource(half))
    with pytest.raises(ReplayError, match="is a fork"):
        what_if(MemorySource(records), {"target_rule": "raw"})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"group_size": 4}, "group_size cannot be set: it shapes what is copied"),
        ({"gate.mode": "generous"}, "gate.mode='generous'"),
        ({"rounds": 0}, "rounds=0"),
        ({"rubric": 9}, "rubric 9 is not here"),
        ({"evaluation.repeats": 5}, "cannot be set"),
    ],
)
def test_settings_that_shape_the_copy_or_have_no_meaning_are_refused(
    fork: Fork, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingRefused, match=words):
        Fork([], fork.archive.folder, at=2, values=values)


def test_a_fork_begins_where_there_is_a_report_and_not_before_its_origin_went_its_own_way(
    fork: Fork, tmp_path: Path
) -> None:
    with pytest.raises(LogError, match=r"no report of round 7 .* rounds with one: 0, 1, 2, 3, 4"):
        Cutting(fork.archive, 7).cut()
    with pytest.raises(LogError, match=f"goes its own way from a later round on: to fork at round 1, fork {CAMPAIGN}"):
        Fork(fork.loop.store.all(), tmp_path / "b", at=1, origin=fork.campaign)


def test_settings_hold_from_the_cut_on() -> None:
    started = sample(CampaignStarted).model_copy(update={"plan": PLAN, "logic": ()})
    changed = [("gate.mode", "paired", "reference"), ("rubric", 1, 2)]
    told = tuple(SettingChanged(name=n, before=json.dumps(b), after=json.dumps(a)) for n, b, a in changed)
    fork = sample(CampaignForked).model_copy(update={"round": 2, "settings": told})
    assert [plan_for(started, [fork], number).gate.mode for number in (1, 2, 3)] == ["paired", "reference", "reference"]
    assert [rubric_for(started, [fork], number) for number in (2, 3)] == [1, 2], "rewards of round 2 are copies"
    assert plan_for(started, [fork], 3).model_copy(update={"gate": PLAN.gate}) == PLAN


def test_a_name_says_where_a_fork_comes_from() -> None:
    deep = fork_of(fork_of("c1", "a"), "b")
    assert (deep, root(deep), ancestors(deep)) == ("c1~a~b", "c1", ["c1", "c1~a"])
    assert (root("c1"), ancestors("c1"), is_fork("c1"), is_fork(deep)) == ("c1", [], False, True)
    for name in ("", "a~b", "a b", "-a"):
        with pytest.raises(ValueError, match="name"):
            fork_of("c1", name)
    with pytest.raises(ConfigurationError, match="ids of forks only"):
        campaigns.start(None, "c1~a", PLAN, benchmark_version=1)  # type: ignore[arg-type]


@settings(max_examples=20, deadline=None)
@given(number=st.integers(0, 10_000), names=st.lists(st.sampled_from("abc"), min_size=1, max_size=3))
def test_a_copy_is_its_origin_turned_round(four: list[Record], number: int, names: list[str]) -> None:
    record = four[number % len(four)]
    chain, campaign = [record], CAMPAIGN
    for name in names:
        child = fork_of(campaign, name)
        chain.append(dataclasses.replace(copy_of(chain[-1], campaign, child), offset=chain[-1].offset + 5))
        campaign = child
    fact = decode([chain[-1]])[0]
    assert (fact.envelope.campaign, fact.envelope.maker) == (campaign, CAMPAIGN)
    assert [place.campaign for place in fact.envelope.origin or ()] == ancestors(campaign)
    for copy, before in zip(chain[:0:-1], chain[-2::-1], strict=True):
        assert original_of(copy) == before


def test_what_is_no_event_and_what_a_decider_left_out_cannot_be_copied(tmp_path: Path) -> None:
    junk = Loop(seed=3, poison=Junk(("reward",), Discarded, count=1)).run()
    export(junk, tmp_path / "junk", CAMPAIGN)
    with pytest.raises(LogError, match=r"reward\[.*is no event"):
        Cutting(ArchiveReader(tmp_path / "junk"), 1).cut()
    strange = Loop(seed=3, poison=Impossible()).run()
    export(strange, tmp_path / "strange", CAMPAIGN)
    with pytest.raises(LogError, match="left out"):
        Cutting(ArchiveReader(tmp_path / "strange"), 1).cut()
