"""Scores rollouts on evidence: RolloutCompleted -> RewardScored | RewardWithheld.

The evidence judge grades again from the recorded workspace and receipts, with the truth made from the state's key, after it
held them against the signed chain in the event. Where a model is configured (settings.judge) it is asked about the items that
a text must settle, and may lower them (docs/judge.md). What cannot be scored or believed is withheld, never zero, and never
scored by another judge instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bat_events.artifacts import ArtifactError
from bat_events.benchmark.body import codes_from_body, evidence_from_body, key_from_json
from bat_events.benchmark.interface import Evidence, Grade, TextItem
from bat_events.benchmark.judging import Reward, check_receipts, scored, withheld
from bat_events.benchmark.registry import benchmark
from bat_events.codec import Fact
from bat_events.consumers.chat_model import ChatRefused, ChatStopped, ChatUnavailable, ChatUnusable, Spent
from bat_events.deciders.interface import Draft
from bat_events.domain.judging import WITH_TEXT, bounded
from bat_events.events.envelope import Cost
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted, TextScore
from bat_events.service.context import Context
from bat_events.service.measure import stopwatch
from bat_events.service.runtime import Retryable

if TYPE_CHECKING:
    from bat_events.consumers.text_judge import Judged, TextJudge


class Judge:
    """See the module."""

    name = "judge"
    version = 2  # 1 took evidence as it was; the rubric has a version of its own, which campaigns pin
    topic = "rollout"
    outputs: tuple[str, ...] = ("reward",)

    def __init__(self, context: Context, text: "TextJudge | None" = None) -> None:
        self._context, self._text = context, text

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, RolloutCompleted)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """Grade and score. Raises Retryable when asked to end while a model is waited for."""
        rollout: RolloutCompleted = fact.event  # type: ignore[assignment]
        self._context.status.say(
            f"round {rollout.round} step {rollout.step} slot {rollout.slot} rollout {rollout.index}"
        )
        watch, spent = stopwatch(), Spent()
        event = Judging(self._context, fact).judged(self._text, spent)
        tokens_in, tokens_out = (None, None) if self._text is None else spent.tokens
        return [
            Draft(
                event=event,
                campaign=fact.envelope.campaign,
                cause=fact.id,
                ordinal=0,
                key=rollout.group,
                round=rollout.round,
                cost=Cost(wall_s=watch(), tokens_in=tokens_in, tokens_out=tokens_out),
            )
        ]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A rollout as it was graded by the evidence: what a model may be asked about, and what bounds it."""

    evidence: Evidence
    grade: Grade
    task: str
    calls: Sequence[Mapping[str, Any]]
    texts: Sequence[TextItem]


class Judging:
    """One rollout's judging: by the evidence, and by a model below it."""

    def __init__(self, context: Context, fact: Fact) -> None:
        self._context, self._campaign = context, fact.envelope.campaign
        self._rollout: RolloutCompleted = fact.event  # type: ignore[assignment]

    def judged(self, text: "TextJudge | None", spent: Spent) -> Reward:
        """The reward. Raises Retryable when asked to end while a model is waited for."""
        event, case = self.by_evidence()
        if text is None or case is None or isinstance(event, RewardWithheld):
            return event
        return self.by_text(event, case, text, spent)

    def by_evidence(self) -> tuple[Reward, Case | None]:
        """The reward by the evidence alone, and what it was made of, where it could be read."""
        rollout, started = self._rollout, self._context.campaign(self._campaign)
        known, rubric = benchmark(started.plan.benchmark), self._context.rubric(self._campaign, rollout.round)
        try:
            body = self._context.store.get_json(rollout.body)
            seen = self._context.store.get_json(rollout.evidence)
            key, evidence = key_from_json(body["key"]), evidence_from_body(seen)
            if rubric > 1 or rollout.receipts is not None:
                check_receipts(rollout, body, evidence, codes_from_body(seen))
            grade = known.grade(key, evidence, rubric=rubric)
            case = Case(
                evidence=evidence,
                grade=grade,
                task=body["prompt"],
                calls=seen["calls"],
                texts=known.texts(key, evidence),
            )
            return scored(rollout, grade, evidence, rubric), case
        except (ArtifactError, ValueError) as error:
            return withheld(rollout, type(error).__name__, str(error)), None

    def by_text(self, event: RewardScored, case: Case, text: "TextJudge", spent: Spent) -> Reward:
        """The reward with a model's word on the texts. Raises Retryable when asked to end meanwhile."""
        asked = askable(event, case)
        judged: Mapping[str, Judged] = {}
        if asked:
            try:
                judged = text.judge(asked, task=case.task, calls=case.calls, rubric=event.rubric_version, spent=spent)
            except ChatStopped:
                raise Retryable("stopped while waiting for the judge's model") from None
            except ChatUnavailable as error:
                return withheld(self._rollout, "judge_unavailable", str(error))
            except ChatRefused as error:
                return withheld(self._rollout, "judge_refused", str(error))
            except ChatUnusable as error:
                return withheld(self._rollout, "judge_malformed", str(error))
        caps = {item.item: item.score for item in case.grade.items}
        items = tuple(
            replace(item, score=bounded(judged[item.item].score, item.score)) if item.item in judged else item
            for item in case.grade.items
        )
        with_text = scored(self._rollout, replace(case.grade, items=items), case.evidence, event.rubric_version)
        if isinstance(with_text, RewardWithheld):
            return with_text
        texts = tuple(
            TextScore(item=item, asked=found.score, cap=caps[item], judgement=found.judgement)
            for item, found in judged.items()
        )
        return with_text.model_copy(update={"judge": WITH_TEXT, "model": text.model, "texts": texts})


def askable(event: RewardScored, case: Case) -> list[TextItem]:
    """The texts that can change a reward: of items that count and that the evidence gives something."""
    if event.reward == 0.0:
        return []
    counts = {i.item for i in case.grade.items if i.applicable and i.score > 0.0 and i.stage in case.grade.reached}
    return [text for text in case.texts if text.item in counts and text.text]
