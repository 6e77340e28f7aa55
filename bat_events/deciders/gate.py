"""The gate: one promotion decision per candidate, against best-so-far, in the order of rounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bat_events.deciders.controls import Controls
from bat_events.deciders.interface import Draft
from bat_events.deciders.readings import comparison, standing
from bat_events.domain.promotion import Decision, GateSettings, decide
from bat_events.events.boundary import EvaluationReported
from bat_events.events.fact import Fact
from bat_events.events.plan import GateMode
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted, GateCheck
from bat_events.events.training import CheckpointProduced


@dataclass(frozen=True)
class _Chain:
    """Where the chain of decisions stands: what the next round starts from, and the best so far with its Overall."""

    start: str
    best: str
    best_overall: float


class Gate:
    """Folds reports and candidates; promotes or holds. Under the paired rule best-so-far is always the last promoted."""

    name: ClassVar[str] = "gate"
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[str, ...]] = ("campaign", "training", "boundary.report")
    outputs: ClassVar[tuple[str, ...]] = ("promotion",)

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign
        self._controls = Controls()
        self._reports: dict[int, tuple[str, EvaluationReported]] = {}
        self._candidates: dict[int, CheckpointProduced] = {}

    def apply(self, fact: Fact) -> None:
        """See Decider.apply."""
        self._controls.apply(fact)
        if isinstance(fact.event, EvaluationReported):
            self._reports.setdefault(fact.event.round, (fact.id, fact.event))
        elif isinstance(fact.event, CheckpointProduced):
            self._candidates.setdefault(fact.event.round, fact.event)

    def state(self) -> Any:
        """See Decider.state."""
        return (self._controls, sorted(self._reports.items()), sorted(self._candidates.items()))

    def required(self) -> Sequence[Draft]:
        """A decision for every candidate whose report, and those of all rounds before, are there."""
        if self._controls.plan is None:
            return []
        drafts: list[Draft] = []
        chain: _Chain | None = None
        number = 0
        while number in self._reports and number in self._candidates:
            report_id, report = self._reports[number]
            gate = self._controls.plan_for(number).gate
            event: CheckpointPromoted | CheckpointHeld
            if chain is None:
                event = _baseline(report, gate.mode)
            else:
                event = self._decision(number, report, chain, gate.mode, gate.max_stage_drop)
            chain = _follow(event, chain)
            drafts.append(
                Draft(
                    event=event, campaign=self._campaign, cause=report_id, ordinal=0, key=self._campaign, round=number
                )
            )
            number += 1
        return drafts

    def _decision(
        self, number: int, report: EvaluationReported, chain: _Chain, mode: GateMode, max_stage_drop: float
    ) -> CheckpointPromoted | CheckpointHeld:
        against = chain.best if mode is GateMode.PAIRED else chain.start
        baseline = next(r for _, r in self._reports.values() if r.checkpoint == against)
        found = comparison(report, against)
        settings = GateSettings(paired_stage_drop=max_stage_drop)
        if found is None:  # the evaluator was not asked for this pairing: nothing can be said, so nothing is promoted
            missing = GateCheck(name="pairing", passed=False, value=None, threshold=None)
            return _held(report, chain, mode, (missing,), (f"no paired comparison with {against[:12]} was reported",))
        decision: Decision = decide(
            mode.value,
            candidate=standing(report),
            baseline=standing(baseline),
            comparison=found,
            healthy=self._candidates[number].healthy,
            settings=settings,
        )
        checks = tuple(
            GateCheck(name=c.name, passed=c.passed, value=c.value, threshold=c.threshold) for c in decision.checks
        )
        if not decision.promoted:
            return _held(report, chain, mode, checks, decision.reasons)
        better = mode is GateMode.PAIRED or report.overall > chain.best_overall
        return CheckpointPromoted(
            round=number,
            checkpoint=report.checkpoint,
            mode=mode,
            baseline=False,
            overall=report.overall,
            best_so_far=report.checkpoint if better else chain.best,
            best_overall=report.overall if better else chain.best_overall,
            checks=checks,
            reasons=decision.reasons,
        )


def _baseline(report: EvaluationReported, mode: GateMode) -> CheckpointPromoted:
    return CheckpointPromoted(
        round=report.round,
        checkpoint=report.checkpoint,
        mode=mode,
        baseline=True,
        overall=report.overall,
        best_so_far=report.checkpoint,
        best_overall=report.overall,
        checks=(),
        reasons=("the first report is the baseline",),
    )


def _held(
    report: EvaluationReported,
    chain: _Chain,
    mode: GateMode,
    checks: tuple[GateCheck, ...],
    reasons: tuple[str, ...],
) -> CheckpointHeld:
    return CheckpointHeld(
        round=report.round,
        checkpoint=report.checkpoint,
        fallback=chain.start,
        mode=mode,
        overall=report.overall,
        best_so_far=chain.best,
        best_overall=chain.best_overall,
        checks=checks,
        reasons=reasons,
    )


def _follow(event: CheckpointPromoted | CheckpointHeld, chain: _Chain | None) -> _Chain:
    if isinstance(event, CheckpointHeld):
        assert chain is not None
        return chain
    return _Chain(start=event.checkpoint, best=event.best_so_far, best_overall=event.best_overall)
