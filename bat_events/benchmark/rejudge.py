"""Recorded rollouts scored again, from their recorded evidence, under another version of the rubric. Nothing is written.

The grader is the benchmark's of today: where the campaign was run with another version of it, a change may be the grader's, and
the result says so. What cannot be scored again, because its evidence is not there, is listed and counts as nothing.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from bat_events.artifacts import ArtifactError
from bat_events.benchmark.body import codes_from_body, evidence_from_body, key_from_json
from bat_events.benchmark.interface import Benchmark, Grade
from bat_events.benchmark.judging import check_receipts, scored, withheld
from bat_events.codec import Fact
from bat_events.domain.grouping import group_advantages
from bat_events.domain.judging import EVIDENCE, bounded
from bat_events.domain.rubric import NEWEST, VERSIONS
from bat_events.errors import ConfigurationError
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted

LOST = "their evidence or their state is not in the store"

Score = Callable[[RolloutCompleted, RewardScored], RewardScored | RewardWithheld | str]
"""As replay.scores has it."""

Fetch = Callable[[str], Any]
"""The JSON of an artefact by its digest. Raises ArtifactError where it is not there or not what the digest says."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One rollout whose reward is another one now; None stands for a withheld reward."""

    rollout: str
    group: str
    index: int
    round: int
    step: int
    slot: int
    pool: str
    focus: str
    reward: float | None
    would: float | None
    why: str


@dataclass(kw_only=True)
class PoolScores:
    """Rewards of one pool, before and after, over the rollouts that have both."""

    rollouts: int = 0
    changed: int = 0
    mean: float | None = None
    would_mean: float | None = None


@dataclass(kw_only=True)
class Rejudged:
    """What came of it. `advantage_shift` is the mean absolute change of an advantage in the reward's unit."""

    rubric: int
    judge: str
    recorded_rubrics: tuple[int, ...] = ()
    benchmark_recorded: int = 0
    benchmark_here: int = 0
    rollouts: int = 0
    changes: list[Change] = field(default_factory=list)
    pools: dict[str, PoolScores] = field(default_factory=dict)
    advantage_shift: float | None = None
    not_rejudged: dict[str, int] = field(default_factory=dict)  # why -> how many rollouts

    @property
    def exit_code(self) -> int:
        """0: every recorded rollout was scored again. 3: of some the evidence is not there."""
        return 3 if self.not_rejudged else 0


def rubric_of(version: int | None) -> int:
    """A rubric version; None means the newest. Raises ConfigurationError for one that is not here."""
    wanted = NEWEST if version is None else version
    if wanted not in VERSIONS:
        raise ConfigurationError(f"no rubric version {wanted} here; here are {', '.join(map(str, VERSIONS))}")
    return wanted


def rejudge(
    facts: Iterable[Fact], benchmark: Benchmark, fetch: Fetch, rubric: int, *, recorded_version: int
) -> Rejudged:
    """Score every RolloutCompleted among the facts again and compare with its recorded reward, if it has one."""
    result = Rejudged(
        rubric=rubric, judge=EVIDENCE, benchmark_recorded=recorded_version, benchmark_here=benchmark.version
    )
    rollouts: list[RolloutCompleted] = []
    recorded: dict[str, RewardScored | RewardWithheld] = {}
    for fact in facts:
        if isinstance(fact.event, RolloutCompleted):
            rollouts.append(fact.event)
        elif isinstance(fact.event, RewardScored | RewardWithheld):
            recorded.setdefault(fact.event.rollout, fact.event)
    pairs: list[tuple[RolloutCompleted, float | None, float | None]] = []
    for rollout in sorted(rollouts, key=lambda r: (r.round, r.step, r.slot, r.group, r.index)):
        before = recorded.get(rollout.rollout)
        if before is not None:
            _one(rollout, before, benchmark, fetch, rubric, result, pairs)
    rubrics = {event.rubric_version for event in recorded.values() if isinstance(event, RewardScored)}
    result.recorded_rubrics = tuple(sorted(rubrics))
    _summarise(result, pairs)
    return result


def _one(
    rollout: RolloutCompleted,
    before: RewardScored | RewardWithheld,
    benchmark: Benchmark,
    fetch: Fetch,
    rubric: int,
    result: Rejudged,
    pairs: list[tuple[RolloutCompleted, float | None, float | None]],
) -> None:
    try:
        after = again(rollout, before, benchmark, fetch, rubric)
    except ArtifactError:
        result.not_rejudged[LOST] = result.not_rejudged.get(LOST, 0) + 1
        return
    old = before.reward if isinstance(before, RewardScored) else None
    new = after.reward if isinstance(after, RewardScored) else None
    pairs.append((rollout, old, new))
    why = _difference(before, after)
    if why:
        result.changes.append(
            Change(
                rollout=rollout.rollout,
                group=rollout.group,
                index=rollout.index,
                round=rollout.round,
                step=rollout.step,
                slot=rollout.slot,
                pool=rollout.pool.value,
                focus=rollout.focus.value,
                reward=old,
                would=new,
                why=why,
            )
        )


def again(
    rollout: RolloutCompleted, before: RewardScored | RewardWithheld, benchmark: Benchmark, fetch: Fetch, rubric: int
) -> RewardScored | RewardWithheld:
    """What the judge says of a rollout from its evidence. Raises ArtifactError where that, or the state, is not there."""
    body, seen = fetch(rollout.body), fetch(rollout.evidence)
    try:
        evidence = evidence_from_body(seen)
        if rubric > 1 or rollout.receipts is not None:
            check_receipts(rollout, body, evidence, codes_from_body(seen))
        grade = benchmark.grade(key_from_json(body["key"]), evidence, rubric=rubric)
        return scored(rollout, _with_texts(grade, before), evidence, rubric)
    except ValueError as error:
        return withheld(rollout, "cannot_be_scored", str(error))


def score_again(benchmark: Benchmark, fetch: Fetch, *, recorded_version: int) -> Score:
    """How replay scores recorded rollouts: by the rubric that did, or in words why that cannot be."""

    def score(rollout: RolloutCompleted, before: RewardScored) -> RewardScored | RewardWithheld | str:
        if recorded_version != benchmark.version:
            return f"version {recorded_version} of the benchmark graded them, and here is {benchmark.version}"
        if before.rubric_version not in VERSIONS:
            return f"rubric {before.rubric_version} is not here"
        try:
            return again(rollout, before, benchmark, fetch, before.rubric_version)
        except ArtifactError:
            return LOST

    return score


def _with_texts(grade: Grade, before: RewardScored | RewardWithheld) -> Grade:
    """With what a model said of texts then, which is not asked again: it still only lowers an item."""
    asked = {text.item: text.asked for text in before.texts} if isinstance(before, RewardScored) else {}
    items = (replace(i, score=bounded(asked[i.item], i.score)) if i.item in asked else i for i in grade.items)
    return replace(grade, items=tuple(items)) if asked else grade


def _difference(before: RewardScored | RewardWithheld, after: RewardScored | RewardWithheld | None) -> str:
    """What differs, in words; empty where nothing does but the version of the rubric."""
    if not isinstance(before, RewardScored) or not isinstance(after, RewardScored):
        if isinstance(before, RewardScored):
            return "cannot be scored"
        return "was withheld, and has a score" if isinstance(after, RewardScored) else ""
    if before.cap != after.cap:
        return f"cap {before.cap:g} -> {after.cap:g}"
    old = {(item.stage.value, item.item): item for item in before.items}
    new = {(item.stage.value, item.item): item for item in after.items}
    parts = [f"{stage}:{item} gone" for stage, item in sorted(set(old) - set(new))]
    parts += [f"{stage}:{item} added" for stage, item in sorted(set(new) - set(old))]
    for stage, item in sorted(set(old) & set(new)):
        left, right = old[(stage, item)], new[(stage, item)]
        if left.applicable != right.applicable:
            parts.append(f"{stage}:{item} {'applies' if right.applicable else 'does not apply'}")
        elif left.score != right.score:
            parts.append(f"{stage}:{item} {left.score:g} -> {right.score:g}")
    if before.task_score != after.task_score:
        parts.append(f"task {before.task_score} -> {after.task_score}")
    if not parts and before.reward != after.reward:
        parts.append("other weights")
    return ", ".join(parts)


def _summarise(result: Rejudged, pairs: list[tuple[RolloutCompleted, float | None, float | None]]) -> None:
    result.rollouts = len(pairs)
    changed = {change.rollout for change in result.changes}
    groups: dict[str, list[tuple[float | None, float | None]]] = {}
    for rollout, old, new in pairs:
        groups.setdefault(rollout.group, []).append((old, new))
        scores = result.pools.setdefault(rollout.pool.value, PoolScores())
        scores.rollouts += 1
        scores.changed += rollout.rollout in changed
    for pool, scores in result.pools.items():
        both = [(o, n) for r, o, n in pairs if r.pool.value == pool and o is not None and n is not None]
        if both:
            scores.mean = math.fsum(o for o, _ in both) / len(both)
            scores.would_mean = math.fsum(n for _, n in both) / len(both)
    shifts = []
    for rows in groups.values():
        before, after = group_advantages([o for o, _ in rows]), group_advantages([n for _, n in rows])
        shifts += [abs(a - b) for a, b in zip(after, before, strict=True) if a is not None and b is not None]
    result.advantage_shift = math.fsum(shifts) / len(shifts) if shifts else None
