"""Recomputes practice from recorded facts: bank, rollouts, rewards and the rewards and advantages of training steps.

A reward is min(raw, cap), and raw follows from the rubric items; an advantage is a reward minus its group's mean. The
items themselves and the execution cap come from evidence artefacts and are taken as recorded.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from bat_events.codec import Fact
from bat_events.deciders.groups import GroupOutcomes
from bat_events.domain.grouping import TIE, group_advantages, group_id, rollout_id, zero_variance
from bat_events.domain.judging import bounded
from bat_events.domain.scoring import stage_score
from bat_events.domain.stages import agentic_score, overall_score
from bat_events.domain.vocabulary import Focus, Pool, Stage
from bat_events.events.bank import LeakageVerdict, StateSynthesized, SynthesisFailed
from bat_events.events.base import Event
from bat_events.events.campaign import CampaignStarted
from bat_events.events.rollouts import (
    RewardScored,
    RewardShadowed,
    RewardWithheld,
    RolloutCompleted,
    RolloutFailed,
)
from bat_events.events.rounds import PlannedStep, RoundPlanned
from bat_events.events.training import TrainedGroup, TrainingStepCompleted
from bat_events.replay.findings import Findings, Side
from bat_events.replay.index import Index, Known

_CELL = ("state", "focus", "track", "outcome", "ordinal")
_PLACE = ("group", "round", "step", "slot")
_ROLLOUT = (*_PLACE, "rollout", "index")


def check_practice(index: Index, findings: Findings) -> None:
    """Check every practice fact that is compared."""
    judged = _judged(index, findings)
    for fact in judged:
        found = practice_sides(fact, index)
        if found is not None:
            findings.check(found[0], fact, found[1])
    _check_steps(index, findings, judged)


STATES = "states against their requests"
VERDICTS = "leakage verdicts against their checks"
REWARDS = "rewards against their rubric items"
SHADOWED = "shadowed rewards against their rollouts"
WITHHELD = "withheld rewards against their rollouts"
ROLLOUTS = "rollouts against their groups"
STEPS = "training steps against rewards"


SAME: dict[type[Event], tuple[str, tuple[str, ...]]] = {
    StateSynthesized: (STATES, (*_CELL, "seed")),
    SynthesisFailed: (STATES, _CELL),
    LeakageVerdict: (VERDICTS, (*_CELL, "body")),
    RolloutCompleted: (ROLLOUTS, (*_PLACE, "pool", "focus", "state", "body", "weights")),
    RolloutFailed: (ROLLOUTS, _PLACE),
    RewardScored: (REWARDS, (*_ROLLOUT, "pool", "focus", "evidence")),
    RewardShadowed: (SHADOWED, (*_ROLLOUT, "focus")),
    RewardWithheld: (WITHHELD, _ROLLOUT),
}
"""Per type: its check, and the fields that it repeats from its cause."""


def own_sides(fact: Fact) -> Sequence[Side]:
    """What a practice fact says of itself, beside what follows from the rest of it."""
    of_type = OWN.get(type(fact.event))
    return () if of_type is None else of_type(fact)


def practice_sides(fact: Fact, index: Known) -> tuple[str, list[Side]] | None:
    """The check that a practice fact falls under and its sides; None where nothing of it can be recomputed."""
    found = SAME.get(type(fact.event))
    return None if found is None else (found[0], [*_like_cause(fact, index, found[1]), *own_sides(fact)])


def _judged(index: Index, findings: Findings) -> list[Fact]:
    found = []
    for topic in sorted({topic for topic, _ in index.partitions}):
        found += [e.fact for e in index.topic(topic) if e.judged and e.fact is not None and findings.wants(e.fact)]
    return [fact for fact in found if not index.ignores(fact)]


def _like_cause(fact: Fact, index: Known, names: Sequence[str]) -> list[Side]:
    """Fields that an event repeats from its cause."""
    cause = index.fact(fact.envelope.cause)
    if cause is None:
        return [("bat_cause", fact.envelope.cause, "not on the log")]
    sides: list[Side] = []
    for name in names:
        if not hasattr(cause.event, name):
            return [("bat_cause", cause.envelope.type, f"an event with {name}")]
        sides.append((name, getattr(fact.event, name), getattr(cause.event, name)))
    return sides


def _cleared(fact: Fact) -> list[Side]:
    event: LeakageVerdict = fact.event  # type: ignore[assignment]
    return [("cleared", event.cleared, bool(event.checks) and all(check.passed for check in event.checks))]


def _shadowed(fact: Fact) -> list[Side]:
    event: RewardShadowed = fact.event  # type: ignore[assignment]
    return [("reason", event.reward is None, bool(event.reason))]


def _rollout(fact: Fact) -> list[Side]:
    event: RolloutCompleted | RolloutFailed = fact.event  # type: ignore[assignment]
    sides: list[Side] = [
        ("rollout", event.rollout, rollout_id(event.group, event.index)),
        ("bat_ordinal", fact.envelope.ordinal, event.index),
    ]
    if isinstance(event, RolloutCompleted):
        n = event.response_tokens
        sides += [
            ("prompt_ids.bytes", len(event.prompt_ids), 4 * event.prompt_tokens),
            ("response_ids.bytes", len(event.response_ids), 4 * n),
            ("response_mask.bytes", len(event.response_mask), n),
            ("logprobs.bytes", len(event.logprobs), 4 * n),
        ]
    return sides


def _reward(fact: Fact) -> list[Side]:
    event: RewardScored = fact.event  # type: ignore[assignment]
    recorded = {part.stage: part.score for part in event.stages}
    expected: dict[Stage, float] = {}
    for stage in _STAGES[event.focus]:
        items = [item for item in event.items if item.stage is stage]
        score = stage_score(items)
        if score is None and items:
            continue  # the stage does not apply
        # Whether a stage was reached is not on the log: one that was not scores 0 whatever its items say.
        unreached = score is None or recorded.get(stage) == 0.0
        expected[stage] = 0.0 if unreached or score is None else score
    raw = _raw(event.focus, recorded, event.task_score)
    scores = {item.item: item.score for item in event.items} if event.texts else {}
    bounds = [(f"items.{t.item}.score", scores.get(t.item), bounded(t.asked, t.cap)) for t in event.texts]
    return [
        *bounds,
        ("stages", recorded, expected),
        ("raw", event.raw, raw),
        ("reward", event.reward, min(event.raw, event.cap)),
    ]


OWN: dict[type[Event], Callable[[Fact], list[Side]]] = {
    LeakageVerdict: _cleared,
    RewardScored: _reward,
    RewardShadowed: _shadowed,
    RolloutCompleted: _rollout,
    RolloutFailed: _rollout,
}
"""Per type: its sides that follow from the rest of it."""


_STAGES = {focus: focus.stages for focus in Focus}


def _raw(focus: Focus, stages: Mapping[Stage, float], task: float | None) -> float | None:
    if focus is Focus.E2E:
        return overall_score(task, agentic_score(stages, tuple(stages)))
    return stages.get(_STAGES[focus][0])


def _check_steps(index: Index, findings: Findings, judged: Sequence[Fact]) -> None:
    outcomes = GroupOutcomes()
    rollouts: dict[tuple[str, int], str] = {}
    for fact in index.facts():
        if index.ignores(fact):
            continue
        outcomes.apply(fact)
        if isinstance(fact.event, RolloutCompleted):
            rollouts[(fact.event.group, fact.event.index)] = fact.event.rollout
    for fact in judged:
        event = fact.event
        if isinstance(event, TrainingStepCompleted):
            planned = index.fact(fact.envelope.cause)
            sides = step_sides(event, None if planned is None else planned.event, index, outcomes, rollouts)
            findings.check(STEPS, fact, sides)


def step_sides(
    event: TrainingStepCompleted,
    planned: Event | None,
    index: Known,
    outcomes: GroupOutcomes,
    rollouts: Mapping[tuple[str, int], str],
) -> list[Side]:
    """What an update says of its groups, beside what the plan and the rewards give."""
    step = None
    if isinstance(planned, RoundPlanned) and planned.round == event.round:
        step = next((part for part in planned.steps if part.step == event.step), None)
    if step is None:
        return [("bat_cause", "no plan of this step", f"RoundPlanned of round {event.round} with step {event.step}")]
    sides: list[Side] = [("groups.length", len(event.groups), len(step.slots))]
    for number, (group, expected) in enumerate(zip(event.groups, _groups(event, step, index, outcomes), strict=False)):
        at = f"groups[{number}]"
        sides += [(f"{at}.{name}", getattr(group, name), expected[name]) for name in ("slot", "pool", "group")]
        sides += _rows(at, group, outcomes.rewards(group.group, _plan_size(index)), rollouts)
    return [*sides, *_means(event)]


def _plan_size(index: Known) -> int:
    started = index.started.event
    assert isinstance(started, CampaignStarted)
    return started.plan.group_size


def _groups(
    event: TrainingStepCompleted, step: PlannedStep, index: Known, outcomes: GroupOutcomes
) -> Iterator[dict[str, object]]:
    """Slot by slot: the first try that could be trained."""
    started = index.started.event
    assert isinstance(started, CampaignStarted)
    for slot in step.slots:
        tries = (
            group_id(index.campaign, event.round, event.step, slot.slot, attempt)
            for attempt in range(started.plan.group_attempts)
        )
        size = started.plan.group_size
        group = next((g for g in tries if not outcomes.untrainable(g, size)), "none that could be trained")
        yield {"slot": slot.slot, "pool": slot.pool, "group": group}


def _rows(
    at: str, group: TrainedGroup, rewards: Sequence[float | None] | None, rollouts: Mapping[tuple[str, int], str]
) -> Iterator[Side]:
    if rewards is None:
        yield (f"{at}.rollouts", "trained", "not all rollouts of the group are settled")
        return
    advantages = group_advantages(rewards)
    present = [number for number, reward in enumerate(rewards) if reward is not None]
    yield (
        f"{at}.rollouts",
        [row.rollout for row in group.rollouts],
        [rollouts.get((group.group, n)) for n in present],
    )
    for place, (row, number) in enumerate(zip(group.rollouts, present, strict=False)):
        yield (f"{at}.rollouts[{place}].reward", row.reward, rewards[number])
        yield (f"{at}.rollouts[{place}].advantage", row.advantage, advantages[number])


def _means(event: TrainingStepCompleted) -> Iterator[Side]:
    def rewards(groups: Sequence[TrainedGroup]) -> list[float]:
        return [row.reward for group in groups for row in group.rollouts]

    everything = rewards(event.groups)
    flat = [zero_variance([row.reward for row in group.rollouts]) for group in event.groups]
    yield _near("reward", event.reward, everything)
    yield _near("zero_variance", event.zero_variance, [float(same) for same in flat])
    pools = [pool for pool in Pool if any(group.pool is pool for group in event.groups)]
    yield ("pools", [part.pool for part in event.pools], pools)
    for part in event.pools:
        yield _near(f"pools.{part.pool}.reward", part.reward, rewards([g for g in event.groups if g.pool is part.pool]))


def _near(name: str, recorded: float, values: Sequence[float]) -> Side:
    """A mean; sums of the same numbers in another order differ by rounding only."""
    mean = math.fsum(values) / len(values) if values else None
    if mean is not None and abs(recorded - mean) <= TIE:
        return (name, recorded, recorded)
    return (name, recorded, mean)
