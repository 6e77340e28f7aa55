"""What policies that lack something reach: the bounds that make the benchmark worth learning.

A reference policy is a function from a task key to snippets. All play in process, on instances of any split; scores are the
rewards of domain.scoring, so an end-to-end score is an Overall.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from bat_events.benchmark import actions
from bat_events.benchmark.card import ATTRIBUTES, right_choice
from bat_events.benchmark.course import right_steps, source
from bat_events.benchmark.instance import Instance
from bat_events.benchmark.interface import Grade, Task, TaskKey
from bat_events.benchmark.mini import MiniBenchmark
from bat_events.benchmark.play import rollout
from bat_events.benchmark.proofs import calls_of
from bat_events.benchmark.tracks import TRACKS, Output
from bat_events.domain.scoring import grade_summary, rollout_reward
from bat_events.domain.vocabulary import Focus, Outcome, Split, Stage, Track

Policy = Callable[[TaskKey], Sequence[str]]
_PRACTICE_SAMPLE = 40  # practice instances that blind answers are taken from


def score(policy: Policy, key: TaskKey) -> tuple[float, Grade]:
    """The reward of what `policy` does on the instance of `key`, and its grade."""
    return played(MiniBenchmark().build(key), policy(key))


def played(task: Task, codes: Sequence[str]) -> tuple[float, Grade]:
    """The reward of these snippets on a task as it stands there, and its grade."""
    made, focus = rollout(task, codes), task.key.focus
    grade = MiniBenchmark().grade(task.key, made.evidence())
    value = rollout_reward(grade_summary(grade, focus), focus, calls_of(made.receipts))
    assert value is not None  # an in-process rollout misses nothing
    return value, grade


def mean_overall(policy: Policy, track: Track, count: int, *, split: Split = Split.HELDOUT, first: int = 0) -> float:
    """Mean Overall over `count` end-to-end instances, outcomes in turn."""
    return float(np.mean([score(policy, key)[0] for key in e2e_keys(track, count, split, first)]))


def e2e_keys(track: Track, count: int, split: Split, first: int = 0) -> list[TaskKey]:
    """End-to-end keys of the seeds from `first`, outcomes in turn."""
    outcomes = list(Outcome)
    return [
        TaskKey(track=track, focus=Focus.E2E, outcome=outcomes[n % len(outcomes)], seed=first + n, split=split)
        for n in range(count)
    ]


def expert(key: TaskKey) -> list[str]:
    """Knows the protocol and the card."""
    return MiniBenchmark().expert(key)


def random_choices(key: TaskKey) -> list[str]:
    """The right kind of step each turn, every choice blind."""
    return MiniBenchmark().random_actions(key, np.random.default_rng(key.seed))


def random_calls(key: TaskKey) -> list[str]:
    """Any valid action each turn, as many as an expert makes."""
    rng = np.random.default_rng(key.seed)
    return [MiniBenchmark().random_action(rng) for _ in expert(key)]


def assuming(attribute: str, value: str) -> Policy:
    """Knows the protocol, but cannot see `attribute` and always takes it for `value`."""

    def policy(key: TaskKey) -> list[str]:
        instance = Instance(key)
        card = replace(instance.card, **{attribute: value})
        return [
            source(step if isinstance(step, str) else (step[0], right_choice(card, step[0])))
            for step in right_steps(instance)
        ]

    return policy


def hidden(attribute: str, track: Track, count: int) -> float:
    """The best mean Overall that always assuming one value of `attribute` gives."""
    return max(mean_overall(assuming(attribute, value), track, count) for value in ATTRIBUTES[attribute])


def best_constant(track: Track, stage: Stage, count: int) -> tuple[str, float, float]:
    """(best of the twelve choices made regardless of the card, its mean reward, the mean of all twelve) on stage states."""
    focus = Focus(stage.value)
    keys = [
        TaskKey(track=track, focus=focus, outcome=Outcome.SUCCESS, seed=n, split=Split.PRACTICE) for n in range(count)
    ]
    means = {
        code: float(np.mean([score(lambda _, code=code: [code], key)[0] for key in keys]))  # type: ignore[misc]
        for code in actions.actions(stage)
    }
    best = max(means, key=lambda code: means[code])
    return best, means[best], float(np.mean(list(means.values())))


@cache
def _practice(track: Track) -> tuple[Instance, ...]:
    return tuple(Instance(key) for key in e2e_keys(track, _PRACTICE_SAMPLE, Split.PRACTICE, first=10_000))


def majority(track: Track) -> Output:
    """The one output that practice suggests for every case: most frequent answer, mean image, or mask of the likeliest pixels."""
    return _usual(track, None)


def _usual(track: Track, question: str | None) -> Output:
    references = [
        case.reference
        for instance in _practice(track)
        for case in instance.request.cases
        if question is None or case.reference.question == question
    ]
    mean = np.mean([reference.array for reference in references], axis=0)
    rules = TRACKS[track]
    array = mean
    if not rules.permitted(mean):  # a mask: as many of the likeliest pixels as a lesion usually has
        area = round(float(np.mean([reference.array.sum() for reference in references])))
        array = (mean >= np.sort(mean, axis=None)[-area]).astype(float)
    answers = [reference.answer for reference in references]
    if rules.parse is None:
        return Output(array=array)
    usual = Counter(map(repr, answers)).most_common(1)[0][0]
    answer = next(answer for answer in answers if repr(answer) == usual)
    return Output(array=array, answer=answer.lower() if track is Track.VQA else answer)


def blind_task_scores(track: Track, count: int) -> tuple[float, float]:
    """Mean task score on held-out instances of (the majority output, the image-blind one, which knows the question asked)."""
    rules = TRACKS[track]
    scores: tuple[list[float], list[float]] = [], []
    for key in e2e_keys(track, count, Split.HELDOUT):
        cases = Instance(key).readable
        scores[0].append(rules.metric([(majority(track), case.reference) for case in cases]))
        scores[1].append(rules.metric([(_usual(track, case.reference.question), case.reference) for case in cases]))
    return float(np.mean(scores[0])), float(np.mean(scores[1]))
