"""Replay in one pass finds what replay in memory finds, to the byte; and reads archives' lines as decoding would."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from bat_events.codec import Codec, Fact
from bat_events.deciders.interface import Draft
from bat_events.domain.compact import IdSet
from bat_events.events.plan import CampaignPlan
from bat_events.events.rollouts import RewardScored, RewardShadowed
from bat_events.log.interface import Record
from bat_events.replay import ArchiveSource, to_json
from bat_events.replay.lines import Line, line_of
from bat_events.replay.practice import SHADOWED
from bat_events.replay.replayer import _streamed, replay_in_memory
from bat_events.replay.stream_walk import Mismatch
from tests.archive.logs import export
from tests.replay.loop import CAMPAIGN, VERSION_1, Loop
from tests.replay.memory import MemorySource, falsify
from tests.replay.workers import WORKERS

GOLDEN = Path(__file__).parents[1] / "golden"


def both(source: MemorySource | ArchiveSource) -> None:
    """One pass and memory give the same bytes, for every round too."""
    whole = replay_in_memory(source)
    assert whole.reproduced
    assert to_json(_streamed(source, None, None)) == to_json(whole)
    for number in (1, 2):
        if any(True for line in source.records() if dict(line.headers).get("bat_round") == b"%d" % number):  # type: ignore[union-attr]
            assert to_json(_streamed(source, None, number)) == to_json(replay_in_memory(source, round=number))


@pytest.mark.parametrize("seed", range(3))
def test_one_pass_gives_what_memory_gives(seed: int) -> None:
    both(MemorySource(Loop(seed=seed, restarts=0.03).run()))
    both(MemorySource(Loop(seed=seed).run(records=60 + 97 * seed)))


def test_one_pass_follows_version_1_and_the_golden_log() -> None:
    both(MemorySource(Loop(seed=3, pins=VERSION_1).run()))
    both(ArchiveSource(GOLDEN / "mini-scripted-two-rounds"))


def test_what_is_newer_than_what_is_compared_is_input_only(records: list[Record]) -> None:
    for seed in range(4):
        rng = random.Random(seed)
        ends = {(r.topic, r.partition): r.offset + 1 for r in records}
        judged = {where: rng.choice((end, end, end // 2)) for where, end in ends.items()}
        source = MemorySource(records, judged=judged)
        whole = replay_in_memory(source)
        try:
            assert to_json(_streamed(source, None, None)) == to_json(whole)
        except Mismatch:
            assert whole.exit_code == 1


def test_repeated_ids_are_left_out(records: list[Record]) -> None:
    for number in (5, 60, 200, 400):
        ends = max(
            r.offset for r in records if (r.topic, r.partition) == (records[number].topic, records[number].partition)
        )
        twice = sorted(
            [*records, replace(records[number], offset=ends + 5)], key=lambda r: (r.topic, r.partition, r.offset)
        )
        whole = replay_in_memory(MemorySource(twice))
        assert whole.duplicates == 1
        assert to_json(_streamed(MemorySource(twice), None, None)) == to_json(whole)


def test_any_changed_event_is_a_mismatch(records: list[Record]) -> None:
    """One pass finds what memory finds, whatever is changed; that memory then names it is tested with planted differences."""
    rng = random.Random(1)
    for number in rng.sample(range(len(records)), 6):
        record = records[number]
        fact = Codec().decode(record)
        ways = {
            "lost": records[:number] + records[number + 1 :],
            "cause": [*records[:number], falsify(record, cause="ab" * 16), *records[number + 1 :]],
            "logic": [*records[:number], falsify(record, logic=fact.envelope.logic + "0"), *records[number + 1 :]],
        }
        for changed in ways.values():
            try:
                whole = replay_in_memory(MemorySource(changed), campaign=CAMPAIGN)
            except Exception:  # noqa: BLE001  (no CampaignStarted)
                continue
            try:
                found = _streamed(MemorySource(changed), CAMPAIGN, None)
            except Mismatch:
                assert not whole.reproduced
            else:
                assert to_json(found) == to_json(whole)


def test_lines_of_an_archive_are_what_decoding_gives(records: list[Record], tmp_path: Path) -> None:
    odd = [
        replace(record, headers=(*record.headers, ("x-tool", b"1"))) if number % 7 == 0 else record
        for number, record in enumerate(records)
    ]
    odd = [replace(r, headers=tuple(reversed(r.headers))) if number % 11 == 0 else r for number, r in enumerate(odd)]
    export(odd, tmp_path / "log", CAMPAIGN)
    source = ArchiveSource(tmp_path / "log")
    found = {(line.topic, line.partition, line.offset): line for lines in source.lines().values() for line in lines}
    assert len(found) == len(records)
    for record in odd:
        assert _all(found[(record.topic, record.partition, record.offset)]) == _all(line_of(record))
    both(source)


def _all(line: Line) -> list[object]:
    return [getattr(line, name) for name in Line.__slots__]


def test_a_set_of_ids_is_a_set() -> None:
    rng = random.Random(2)
    ids = [f"{rng.getrandbits(128):032x}" for _ in range(40_000)]  # more than are kept as a Python set
    few = [f"{number << 64 | 5:032x}" for number in range(1, 40)]  # that begin at one place
    found = IdSet()
    assert all(found.add(id_) for id_ in (*ids, *few))
    assert not any(found.add(id_) for id_ in (*ids, *few))
    assert all(id_ in found for id_ in ids)
    assert f"{7:032x}" not in found
    assert "0" * 32 not in found
    assert len(found) == len(ids) + len(few)


def _second_judge(fact: Fact, _: CampaignPlan) -> list[Draft]:
    """Of every second rollout; the fact is a reward, so it comes after the first judge's word."""
    reward = fact.event
    if not isinstance(reward, RewardScored) or int(reward.rollout[0], 16) % 2:
        return []
    place = {name: getattr(reward, name) for name in ("group", "rollout", "index", "round", "step", "slot", "focus")}
    said = {"judge": "text", "model": "second", "rubric_version": 2, "evidence_reward": reward.reward, "texts": ()}
    event = RewardShadowed(**place, **said, reward=0.5, reason="", detail="")
    cause = fact.envelope.cause
    return [Draft(event=event, campaign=CAMPAIGN, cause=cause, ordinal=0, key=reward.group, round=reward.round)]


def test_shadowed_rewards_stream_however_late_they_come() -> None:
    loop = Loop(seed=9, workers={**WORKERS, "judge-shadow": ("reward", 2, _second_judge)})
    records = [_by_judge(record) for record in loop.run()]
    late = [record for record in records if record.topic == "reward" and _is_shadow(record)]
    assert len(late) > 10
    result = _streamed(MemorySource(records), None, None)
    assert to_json(result) == to_json(replay_in_memory(MemorySource(records)))
    assert {check.name: check.checked for check in result.checks}[SHADOWED] == len(late)
    at = next(number for number, record in enumerate(records) if record is late[5])
    other = falsify(records[at], body={"slot": 7})
    with pytest.raises(Mismatch):
        _streamed(MemorySource([*records[:at], other, *records[at + 1 :]]), None, None)


def _is_shadow(record: Record) -> bool:
    return dict(record.headers)["ce_type"].startswith(b"bat.RewardShadowed.")


def _by_judge(record: Record) -> Record:
    """As the real second judge signs: with the name of the service."""
    return (
        falsify(record, logic="judge/2", source="bat/judge")
        if record.topic == "reward" and _is_shadow(record)
        else record
    )
