"""The held-out plane: EvaluationRequested -> a cell per track and repeat, and one report that crosses the boundary.

Cells come from this service's own episodes, or from an outside harness where the settings name one. Held-out seeds derive
from a secret that only this service reads; cells, evidence and bodies stay in this plane. The same service publishes the
fingerprints that the leakage gate needs before it admits anything: consumers.fingerprinter.
"""

from collections.abc import Callable, Sequence
from typing import Any

from bat_events.benchmark.body import evidence_body
from bat_events.benchmark.interface import Task
from bat_events.benchmark.registry import benchmark
from bat_events.codec import Fact
from bat_events.deciders.interface import Draft
from bat_events.deciders.report import cell_of, make_report
from bat_events.deciders.versions import pinned_rubric
from bat_events.domain.canonical import seed63
from bat_events.domain.evaluation import Cell
from bat_events.domain.minimum import TooFewCells
from bat_events.domain.scoring import GradeSummary, grade_summary
from bat_events.domain.vocabulary import Track
from bat_events.events.envelope import Cost
from bat_events.events.heldout import CellStage, EvaluationCellFailed, EvaluationCellScored
from bat_events.events.plan import CampaignPlan
from bat_events.events.rounds import EvaluationRequested
from bat_events.policy.episode import Episode, EpisodeFault, run_episodes
from bat_events.service.context import Context
from bat_events.service.engines import Engines
from bat_events.service.measure import stopwatch
from bat_events.service.runtime import Retryable

Measured = list[tuple[EvaluationCellScored | EvaluationCellFailed, Cost]]
"""Every cell that was asked for, in the order of tracks and repeats."""

HELDOUT_KEY = "heldout.key"


class Evaluator:
    """See the module."""

    name = "evaluator"
    version = 1
    topic = "round"
    outputs: tuple[str, ...] = ("heldout.cell", "boundary.report")

    def __init__(self, context: Context, engines: Engines, outside: Callable[[Fact], Measured] | None = None) -> None:
        self._context, self._engines = context, engines
        self._measure = outside or self._episodes

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, EvaluationRequested)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """Measure every cell, then report. Raises Retryable where too few were scored for that: faults may pass."""
        request: EvaluationRequested = fact.event  # type: ignore[assignment]
        campaign = fact.envelope.campaign
        watch = stopwatch()
        measured = self._measure(fact)
        drafts = [
            Draft(
                event=event,
                campaign=campaign,
                cause=fact.id,
                ordinal=place,
                key=campaign,
                round=request.round,
                cost=cost,
            )
            for place, (event, cost) in enumerate(measured)
        ]
        cells = [cell_of(event) for event, _ in measured if isinstance(event, EvaluationCellScored)]
        try:
            report = make_report(request, cells, self._comparators(campaign, request))
        except TooFewCells as error:
            raise Retryable(str(error)) from error
        drafts.append(
            Draft(
                event=report,
                campaign=campaign,
                cause=fact.id,
                ordinal=0,
                key=campaign,
                round=request.round,
                cost=Cost(wall_s=watch()),
            )
        )
        return drafts

    def _episodes(self, fact: Fact) -> Measured:
        request: EvaluationRequested = fact.event  # type: ignore[assignment]
        started = self._context.campaign(fact.envelope.campaign)
        plan, rubric = started.plan, pinned_rubric(started)
        measured: Measured = []
        for track in request.tracks:
            self._context.status.say(f"round {request.round}: {track}, {request.repeats} cells")
            for repeat, (task, result, cost) in enumerate(self._run(track, request, plan)):
                measured.append((self._cell(request, plan, rubric, track, repeat, task, result), cost))
        return measured

    def _run(
        self, track: Track, request: EvaluationRequested, plan: CampaignPlan
    ) -> list[tuple[Task, Episode | EpisodeFault, Cost]]:
        tasks = heldout_tasks(self._context, plan, track, request.repeats)
        watch = stopwatch()
        results = run_episodes(
            tasks=tasks,
            actor=self._engines.actor(plan, request.checkpoint),
            pool=self._engines.pool(plan),
            limits=plan.limits,
            temperature=request.temperature,
            seed=seed63("evaluation", request.seed, track),
            parallel=self._context.settings.sandbox.parallel,
        )
        share = watch() / len(results)
        costs = [
            Cost(wall_s=share, sandbox_s=r.sandbox_s, tokens_out=sum(r.response_mask))
            if isinstance(r, Episode)
            else Cost(wall_s=share)
            for r in results
        ]
        return list(zip(tasks, results, costs, strict=True))

    def _cell(
        self,
        request: EvaluationRequested,
        plan: CampaignPlan,
        rubric: int,
        track: Track,
        repeat: int,
        task: Task,
        result: Episode | EpisodeFault,
    ) -> EvaluationCellScored | EvaluationCellFailed:
        same: dict[str, Any] = {
            "checkpoint": request.checkpoint,
            "round": request.round,
            "track": track,
            "task": task_name(track),
            "repeat": repeat,
        }
        if isinstance(result, EpisodeFault):
            return EvaluationCellFailed(**same, reason=result.reason, detail=result.detail)
        grade = benchmark(plan.benchmark).grade(task.key, result.evidence, rubric=rubric)
        summary: GradeSummary = grade_summary(grade)
        if summary.task_score is None:
            return EvaluationCellFailed(**same, reason="grade", detail="the grader gave no task score")
        worth = 0.0 if result.evidence.end == "breach" else 1.0  # an isolation breach zeroes stages and task
        return EvaluationCellScored(
            **same,
            task_score=worth * summary.task_score,
            stages=tuple(
                CellStage(stage=s.stage, score=worth * s.score, reached=s.reached)
                for s in summary.stages
                if s.score is not None
            ),
            failures=grade.failures,
            turns=result.turns,
            end=result.evidence.end,
            evidence=self._context.heldout_store.put(evidence_body(result.evidence, result.codes)),
        )

    def _comparators(self, campaign: str, request: EvaluationRequested) -> dict[str, list[Cell]]:
        """Cells of each comparator's first evaluation in this campaign."""
        found: dict[str, dict[tuple[Track, str, int], Cell]] = {}
        if request.comparators:
            for fact in self._context.read_all("heldout.cell"):
                event = fact.event
                if fact.envelope.campaign == campaign and isinstance(event, EvaluationCellScored):
                    cell = cell_of(event)
                    found.setdefault(event.checkpoint, {}).setdefault(cell.key, cell)
        return {digest: list(found.get(digest, {}).values()) for digest in request.comparators}


def task_name(track: Track) -> str:
    """The held-out task of a track; its repeats are different instances."""
    return f"{track}-e2e"


def heldout_tasks(context: Context, plan: CampaignPlan, track: Track, repeats: int) -> list[Task]:
    """The held-out instances of a track: the same for every checkpoint of a campaign, so that cells can be paired."""
    from bat_events.benchmark.interface import TaskKey
    from bat_events.domain.vocabulary import Focus, Outcome, Split

    known = benchmark(plan.benchmark)
    secret = context.secret(HELDOUT_KEY).hex()
    outcomes = list(Outcome)
    return [
        known.build(
            TaskKey(
                track=track,
                focus=Focus.E2E,
                outcome=outcomes[repeat % len(outcomes)],
                seed=seed63("heldout", secret, plan.benchmark, track, repeat),
                split=Split.HELDOUT,
            )
        )
        for repeat in range(repeats)
    ]
