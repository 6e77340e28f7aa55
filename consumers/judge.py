"""Scores rollouts on evidence: RolloutCompleted -> RewardScored | RewardWithheld.

The evidence judge grades again from the recorded workspace and receipts, with the truth made from the state's key. What
it cannot score is withheld, never zero.
"""

from collections.abc import Sequence

from bat_events.artifacts import ArtifactError
from bat_events.benchmark.body import evidence_from_body, key_from_json
from bat_events.benchmark.judging import scored, withheld
from bat_events.benchmark.registry import benchmark
from bat_events.codec import Fact
from bat_events.deciders.interface import Draft
from bat_events.events.envelope import Cost
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted
from bat_events.service.context import Context
from bat_events.service.measure import stopwatch


class Judge:
    """See the module."""

    name = "judge"
    version = 1
    topic = "rollout"
    outputs: tuple[str, ...] = ("reward",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, RolloutCompleted)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """Grade and score."""
        rollout: RolloutCompleted = fact.event  # type: ignore[assignment]
        campaign = fact.envelope.campaign
        known = benchmark(self._context.campaign(campaign).plan.benchmark)
        self._context.status.say(
            f"round {rollout.round} step {rollout.step} slot {rollout.slot} rollout {rollout.index}"
        )
        watch = stopwatch()
        event: RewardScored | RewardWithheld
        try:
            body = self._context.store.get_json(rollout.body)
            evidence = evidence_from_body(self._context.store.get_json(rollout.evidence))
            event = scored(rollout, known.grade(key_from_json(body["key"]), evidence), evidence)
        except (ArtifactError, ValueError) as error:
            event = withheld(rollout, type(error).__name__, str(error))
        cost = Cost(wall_s=watch())
        return [
            Draft(
                event=event,
                campaign=campaign,
                cause=fact.id,
                ordinal=0,
                key=rollout.group,
                round=rollout.round,
                cost=cost,
            )
        ]
