"""A second judge on a sample: RolloutCompleted -> RewardShadowed. It has no say: nothing is trained or decided by it.

It reads the log by itself, so it delays no reward, and what it cannot do costs none. Whom it agrees with is for the audit.
"""

from collections.abc import Sequence

from bat_events.benchmark.judging import Reward
from bat_events.codec import Fact
from bat_events.consumers.chat_model import Spent
from bat_events.consumers.judge import Judging, askable
from bat_events.consumers.text_judge import TextJudge
from bat_events.deciders.interface import Draft
from bat_events.domain.judging import WITH_TEXT, in_sample
from bat_events.events.envelope import Cost
from bat_events.events.rollouts import RewardScored, RewardShadowed, RewardWithheld, RolloutCompleted
from bat_events.service.context import Context
from bat_events.service.measure import stopwatch


class ShadowJudge:
    """See the module."""

    name = "judge"
    version = 2
    topic = "rollout"
    outputs: tuple[str, ...] = ("reward",)

    def __init__(self, context: Context, text: TextJudge) -> None:
        self._context, self._text = context, text
        self._share = context.settings.judge.shadow.share

    def wants(self, fact: Fact) -> bool:
        """See Handler: the sample's rollouts."""
        return isinstance(fact.event, RolloutCompleted) and in_sample(fact.event.rollout, self._share)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """Judge anew, where there is a text to ask about. Raises Retryable when asked to end meanwhile."""
        watch, spent, judging = stopwatch(), Spent(), Judging(self._context, fact)
        event, case = judging.by_evidence()
        if isinstance(event, RewardWithheld) or case is None or not askable(event, case):
            return []
        found = judging.by_text(event, case, self._text, spent)
        tokens_in, tokens_out = spent.tokens
        rollout: RolloutCompleted = fact.event  # type: ignore[assignment]
        return [
            Draft(
                event=self._shadowed(rollout, event, found),
                campaign=fact.envelope.campaign,
                cause=fact.id,
                ordinal=0,
                key=rollout.group,
                round=rollout.round,
                cost=Cost(wall_s=watch(), tokens_in=tokens_in, tokens_out=tokens_out),
            )
        ]

    def _shadowed(self, rollout: RolloutCompleted, evidence: RewardScored, found: Reward) -> RewardShadowed:
        withheld = found if isinstance(found, RewardWithheld) else None
        return RewardShadowed(
            group=rollout.group,
            rollout=rollout.rollout,
            index=rollout.index,
            round=rollout.round,
            step=rollout.step,
            slot=rollout.slot,
            focus=rollout.focus,
            judge=WITH_TEXT,
            model=self._text.model,
            rubric_version=evidence.rubric_version,
            reward=None if isinstance(found, RewardWithheld) else found.reward,
            evidence_reward=evidence.reward,
            texts=() if isinstance(found, RewardWithheld) else found.texts,
            reason="" if withheld is None else withheld.reason,
            detail="" if withheld is None else withheld.detail,
        )
