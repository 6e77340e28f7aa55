"""Measures one checkpoint on given instances: sandboxed episodes, the benchmark's grader, numbers per cell.

Scored as the services score: whole tasks as consumers/evaluator.py does, practice states as consumers/judge.py does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from bat_events.benchmark.interface import Benchmark, TaskKey
from bat_events.benchmark.proofs import calls_of
from bat_events.domain.canonical import seed63
from bat_events.domain.scoring import grade_summary, rollout_reward
from bat_events.events.plan import EpisodeLimits
from bat_events.policy.actor import Actor
from bat_events.policy.episode import Episode, EpisodeFault, run_episodes
from bat_events.sandbox.interface import SandboxPool

from .cells import AGENTIC, OVERALL, REWARD, TASK, Cell, CellName, Lost, Measured

BATCH = 10  # episodes side by side; part of what a sample depends on, so it is the same for both checkpoints


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What is measured how. `kind` says which instances and which number is the main one."""

    name: str
    kind: Literal["confirmation", "probe"]
    temperature: float  # 0 is greedy

    @property
    def main(self) -> str:
        """The value that the verdict is about."""
        return OVERALL if self.kind == "confirmation" else REWARD


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What an episode needs."""

    benchmark: Benchmark
    actor: Actor
    pool: SandboxPool
    limits: EpisodeLimits
    parallel: int = 2


def cell_names(keys: Sequence[TaskKey]) -> list[CellName]:
    """A name per key: track, focus, outcome, and which of those it is."""
    seen: dict[tuple[str, str, str], int] = {}
    names = []
    for key in keys:
        number = seen.get((key.track, key.focus, key.outcome), 0)
        seen[key.track, key.focus, key.outcome] = number + 1
        names.append(CellName(track=key.track, focus=key.focus, outcome=key.outcome, number=number))
    return names


def measure(
    bench: Bench,
    measure: Measure,
    keys: Sequence[TaskKey],
    *,
    checkpoint: str,
    seed: int,
    progress: Callable[[int], None] = lambda _: None,
) -> Measured:
    """One episode per key. `progress` is told how many are done.

    Equal `keys` and `seed` give two checkpoints the same instances and sampling seeds. Raises SandboxUnavailable where
    nothing can be isolated.
    """
    cells: dict[CellName, Cell] = {}
    lost: dict[CellName, Lost] = {}
    named = list(zip(keys, cell_names(keys), strict=True))
    for start in range(0, len(named), BATCH):
        batch = named[start : start + BATCH]
        results = run_episodes(
            tasks=[bench.benchmark.build(key) for key, _ in batch],
            actor=bench.actor,
            pool=bench.pool,
            limits=bench.limits,
            temperature=measure.temperature,
            seed=seed63("learning", measure.name, seed, start),
            parallel=bench.parallel,
        )
        for (key, name), result in zip(batch, results, strict=True):
            found = score(bench.benchmark, key, name, result)
            if isinstance(found, Cell):
                cells[name] = found
            else:
                lost[name] = found
        progress(len(cells) + len(lost))
    return Measured(checkpoint=checkpoint, cells=cells, lost=lost)


def score(benchmark: Benchmark, key: TaskKey, name: CellName, result: Episode | EpisodeFault) -> Cell | Lost:
    """What an episode is worth; missing where the infrastructure broke it or its grade lacks a score."""
    if isinstance(result, EpisodeFault):
        return Lost(name=name, reason=f"{result.reason}: {result.detail}")
    grade = benchmark.grade(key, result.evidence)
    breach = result.evidence.end == "breach"  # an isolation breach is worth nothing, whatever was made before it
    summary = grade_summary(grade, key.focus)
    values: dict[str, float]
    if _is_practice(key):
        reward = rollout_reward(summary, key.focus, [] if breach else calls_of(result.evidence.receipts))
        if reward is None:
            return Lost(name=name, reason="grade: a score that the reward needs is missing")
        values = {REWARD: reward}
    else:
        overall, agentic, task = summary.overall, summary.agentic, summary.task_score
        if overall is None or agentic is None or task is None:
            return Lost(name=name, reason="grade: the grader gave no task score or no stage score")
        worth = 0.0 if breach else 1.0
        values = {OVERALL: worth * overall, TASK: worth * task, AGENTIC: worth * agentic}
        values |= {stage.value: worth * value for stage, value in summary.scores.items()}
    return Cell(name=name, values=values, valid=result.valid_actions, turns=result.turns, end=result.evidence.end)


def _is_practice(key: TaskKey) -> bool:
    """Whether a key is scored by its practice reward."""
    return key.split.value == "practice"
