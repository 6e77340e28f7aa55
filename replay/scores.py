"""Rewards made again from recorded evidence, by means that replay is lent: it has no grader and reads no artefact itself.

Without those means, or where a rollout's evidence is not there, its rubric items are taken as recorded, and counted.
"""

from collections import Counter
from collections.abc import Callable

from bat_events.codec import Fact
from bat_events.events.campaign import CampaignStarted
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted
from bat_events.replay.differences import first_field
from bat_events.replay.findings import Findings, Side
from bat_events.replay.index import Index
from bat_events.replay.result import NotRecomputed

NAME = "rubric items and task scores against evidence"
NO_MEANS = "no evidence was handed to replay"

Score = Callable[[RolloutCompleted, RewardScored], RewardScored | RewardWithheld | str]
"""A rollout scored again from its evidence, under the rubric and with what a model said of texts when it was scored; in words,
why it cannot be."""

ScoreOf = Callable[[CampaignStarted], Score]
"""How a campaign's rollouts are scored: its plan names the benchmark."""

_NOT_MADE_AGAIN = ("judge", "model", "texts")
"""Who judged, and what a model said: no model is asked again."""


class Scores:
    """Scores rewards again and counts, by reason, those that it could not."""

    def __init__(self, score_of: ScoreOf | None, started: Fact) -> None:
        event = started.event
        assert isinstance(event, CampaignStarted)
        self._score: Score = _no_means if score_of is None else score_of(event)
        self._lacking: Counter[str] = Counter()

    def sides(self, event: RewardScored, rollout: Fact | None) -> list[Side] | None:
        """What differs from the recorded reward; None where it could not be scored again."""
        if rollout is None or not isinstance(rollout.event, RolloutCompleted):
            return None  # that is a difference already
        again = self._score(rollout.event, event)
        if isinstance(again, str):
            self._lacking[again] += 1
            return None
        if isinstance(again, RewardWithheld):
            return [("reward", event.reward, f"withheld, {again.reason}: {again.detail}")]
        left, right = (one.model_dump(mode="json", exclude=set(_NOT_MADE_AGAIN)) for one in (event, again))
        found = first_field(left, right)
        return [] if found is None else [found]

    def lacking(self) -> list[NotRecomputed]:
        """What could not be scored again, by reason."""
        return [NotRecomputed(what=NAME, count=count, why=why) for why, count in sorted(self._lacking.items())]


def _no_means(_: RolloutCompleted, __: RewardScored) -> str:
    return NO_MEANS


def check_scores(index: Index, findings: Findings, scores: Scores) -> None:
    """Check every reward that is compared."""
    for entry in index.topic("reward"):
        fact = entry.fact
        if fact is None or not entry.judged or not findings.wants(fact) or index.ignores(fact):
            continue
        if isinstance(fact.event, RewardScored):
            sides = scores.sides(fact.event, index.fact(fact.envelope.cause))
            if sides is not None:
                findings.check(NAME, fact, sides)
