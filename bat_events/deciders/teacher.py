"""The curriculum teacher: from each promotion decision, the next round's target stage; and where an upgrade takes effect."""

from collections.abc import Sequence
from typing import Any, ClassVar

from bat_events.deciders.controls import Controls
from bat_events.deciders.interface import Draft
from bat_events.deciders.readings import stage_means
from bat_events.domain.curriculum import choose_target
from bat_events.domain.vocabulary import Stage
from bat_events.events.boundary import EvaluationReported
from bat_events.events.campaign import LogicUpgraded
from bat_events.events.fact import Fact
from bat_events.events.plan import CampaignPlan, TargetRule
from bat_events.events.promotion import (
    CheckpointHeld,
    CheckpointPromoted,
    LogicAdopted,
    StageReading,
    TargetStagePrescribed,
)


class Teacher:
    """Folds reports and promotion decisions; prescribes one target stage per round."""

    name: ClassVar[str] = "teacher"
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[str, ...]] = ("campaign", "boundary.report", "promotion")
    outputs: ClassVar[tuple[str, ...]] = ("curriculum",)

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign
        self._controls = Controls()
        self._reports: dict[int, EvaluationReported] = {}
        self._decisions: dict[int, tuple[str, CheckpointPromoted | CheckpointHeld]] = {}

    def apply(self, fact: Fact) -> None:
        """See Decider.apply."""
        self._controls.apply(fact)
        event = fact.event
        if isinstance(event, EvaluationReported):
            self._reports.setdefault(event.round, event)
        elif isinstance(event, CheckpointPromoted | CheckpointHeld):
            self._decisions.setdefault(event.round, (fact.id, event))

    def state(self) -> Any:
        """See Decider.state."""
        return (self._controls, sorted(self._reports.items()), sorted(self._decisions.items()))

    def required(self) -> Sequence[Draft]:
        """A prescription after every decision whose reports are there, but for the last round's."""
        plan = self._controls.plan
        if plan is None or not self._controls.open:
            return []
        drafts = [self._adoption(upgrade_id, upgrade) for upgrade_id, upgrade in self._controls.upgrades]
        for number, (decision_id, decision) in sorted(self._decisions.items()):
            event = self._prescription(number, decision, self._controls.plan_for(number))
            if event is not None and number < plan.rounds:
                drafts.append(
                    Draft(
                        event=event,
                        campaign=self._campaign,
                        cause=decision_id,
                        ordinal=0,
                        key=self._campaign,
                        round=number + 1,
                    )
                )
        return drafts

    def _adoption(self, upgrade_id: str, upgrade: LogicUpgraded) -> Draft:
        """An upgrade is put among the prescriptions, whose topic has one partition: so all agree on which rounds it holds for."""
        return Draft(
            event=LogicAdopted(decider=upgrade.decider, version=upgrade.version),
            campaign=self._campaign,
            cause=upgrade_id,
            ordinal=0,
            key=self._campaign,
        )

    def _prescription(
        self, number: int, decision: CheckpointPromoted | CheckpointHeld, plan: CampaignPlan
    ) -> TargetStagePrescribed | None:
        report = self._reports.get(number)
        if report is None:
            return None
        held = isinstance(decision, CheckpointHeld)
        start = decision.fallback if isinstance(decision, CheckpointHeld) else decision.checkpoint
        before = next((r for _, r in sorted(self._reports.items()) if r.checkpoint == start), None)
        if held and before is None:
            return None
        target = choose_target(
            standing="held" if held else ("baseline" if number == 0 else "promoted"),
            candidate=stage_means(report),
            baseline=stage_means(before) if held and before is not None else None,
            reading=plan.target_rule.value,
        )
        return TargetStagePrescribed(
            round=number + 1,
            target_stage=target.stage,
            corrective=target.corrective,
            rule=plan.target_rule,
            start_checkpoint=start,
            readings=tuple(_reading(report, stage, plan.target_rule) for stage in Stage),
            reason=target.reason,
        )


def _reading(report: EvaluationReported, stage: Stage, rule: TargetRule) -> StageReading:
    part = next((p for p in report.stages if p.stage is stage), None)
    value = None if part is None else (part.mean if rule is TargetRule.RAW else part.reached_mean)
    return StageReading(stage=stage, value=value)
