"""Rewards are made again from evidence by means that replay is lent; without them they are listed, and the code says so."""

from collections.abc import Callable

import pytest

from bat_events.events.campaign import CampaignStarted
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted
from bat_events.log.interface import Record
from bat_events.replay import Score, ScoreOf, render, replay_campaign, to_json
from bat_events.replay.replayer import _streamed, replay_in_memory
from bat_events.replay.scores import NAME, NO_MEANS
from tests.replay.loop import decode
from tests.replay.memory import MemorySource

Again = RewardScored | RewardWithheld | str


def as_recorded(started: CampaignStarted) -> Score:  # noqa: ARG001
    """A grader that always agrees with the record."""
    return lambda _, before: before


def changed(change: Callable[[RewardScored], Again], only: str) -> ScoreOf:
    """One that agrees but for one rollout."""

    def score(rollout: RolloutCompleted, before: RewardScored) -> Again:
        return change(before) if rollout.rollout == only else before

    return lambda _: score


def rewards(records: list[Record]) -> list[RewardScored]:
    return [fact.event for fact in decode(records) if isinstance(fact.event, RewardScored)]


def test_what_evidence_gives_again_is_counted(records: list[Record]) -> None:
    result = replay_campaign(MemorySource(records), score_of=as_recorded)
    (check,) = [check for check in result.checks if check.name == NAME]
    assert check.checked == check.holds == len(rewards(records)) > 40
    assert NAME not in [part.what for part in result.not_recomputed]


def test_without_means_rewards_are_listed_and_the_code_is_3_but_where_only_the_log_was_asked(
    records: list[Record],
) -> None:
    result = replay_campaign(MemorySource(records))
    assert (result.exit_code, result.reproduced) == (3, True)
    assert (NAME, len(rewards(records)), NO_MEANS) in [(p.what, p.count, p.why) for p in result.not_recomputed]
    assert "NOT recomputed, and could be" in render(result)
    only = replay_campaign(MemorySource(records), log_only=True)
    assert (only.exit_code, only.not_recomputed) == (0, result.not_recomputed)
    assert "only the log was asked (--log-only)" in render(only)
    assert '"log_only":true' in to_json(only)


def _other_item(before: RewardScored) -> Again:
    first, *rest = before.items
    return before.model_copy(update={"items": (first.model_copy(update={"score": 0.125}), *rest)})


def _withheld(before: RewardScored) -> Again:
    place = {name: getattr(before, name) for name in ("group", "round", "step", "slot", "rollout", "index")}
    return RewardWithheld(**place, reason="cannot_be_scored", detail="its seal does not fit")


@pytest.mark.parametrize(
    ("change", "field", "recomputed"),
    [
        (_other_item, "items[0].score", 0.125),
        (lambda before: before.model_copy(update={"task_score": 0.5}), "task_score", 0.5),
        (_withheld, "reward", "withheld, cannot_be_scored: its seal does not fit"),
    ],
)
def test_what_evidence_does_not_give_is_named(
    records: list[Record], change: Callable[[RewardScored], Again], field: str, recomputed: object
) -> None:
    victim = rewards(records)[7]
    of = changed(change, victim.rollout)
    result = replay_campaign(MemorySource(records), score_of=of)
    assert result.exit_code == 1
    (found,) = result.differences
    assert (found.type, found.field, found.recomputed) == ("bat.RewardScored.v2", field, recomputed)
    assert found.message == f"{NAME}: {field} does not follow from the log"


def test_what_cannot_be_scored_again_is_listed_by_reason_alike_in_both_ways(records: list[Record]) -> None:
    lost = {event.rollout for event in rewards(records)[::9]}
    of: ScoreOf = lambda _: lambda rollout, before: "it is lost" if rollout.rollout in lost else before  # noqa: E731
    result = replay_campaign(MemorySource(records), score_of=of)
    assert (NAME, len(lost), "it is lost") in [(p.what, p.count, p.why) for p in result.not_recomputed]
    streamed, whole = (
        _streamed(MemorySource(records), None, None, of),
        replay_in_memory(MemorySource(records), score_of=of),
    )
    assert to_json(streamed) == to_json(whole)
