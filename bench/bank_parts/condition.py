"""Whether a state's outcome is really there to be found: seen in its files, earned by an expert, lost by who overlooks it."""

import csv
import io

from bat_events.benchmark import bounds
from bat_events.benchmark.formats import DECLARED, REPAIRED, found
from bat_events.benchmark.interface import Task
from bat_events.domain.vocabulary import Focus, Outcome

_EARNED = 0.9
_EXPERT = 0.9


def condition_fault(task: Task) -> str | None:
    """What is wrong with the condition of a mini-benchmark state; None where it is there and can be found."""
    return _visible_fault(task) or _played_fault(task)


def _visible_fault(task: Task) -> str | None:
    """From what the policy sees alone."""
    key = task.key
    if task.prompt.splitlines()[-1] != found(key.focus, key.outcome):
        return "the prompt's last line does not say what was found"
    sizes = [len(content) for path, content in task.inputs.items() if path.startswith("input/cases/")]
    short = sum(size < max(sizes) for size in sizes)
    if short != (key.outcome is Outcome.FAILURE):
        return f"{short} case files are cut short"
    listed = [row[0] for row in csv.reader(io.StringIO(task.files["worklist.csv"].decode()))][1:]
    doubled = len(listed) != len(set(listed))
    if doubled != (key.outcome is Outcome.RECOVERY and key.focus in (Focus.S1, Focus.E2E)):
        return "the worklist is doubled where it should not be, or whole where it should not be"
    return None


def _played_fault(task: Task) -> str | None:
    """From rewards: the expert's, and those of an expert who overlooks the condition."""
    key = task.key
    codes = bounds.expert(key)
    reward, grade = bounds.played(task, codes)
    if reward < _EXPERT:
        return f"the expert's reward is {reward:.2f}"
    earned = {item.item: item.score for item in grade.items if item.applicable}
    own = {Outcome.RECOVERY: REPAIRED[key.focus][0], Outcome.FAILURE: DECLARED[0]}
    for outcome, item in own.items():
        if (item in earned) != (outcome is key.outcome):
            return f"item {item} {'applies' if item in earned else 'does not apply'}"
    if key.outcome is Outcome.SUCCESS:
        return None
    item = own[key.outcome]
    if earned[item] < _EARNED:
        return f"the expert earns {earned[item]:.2f} for {item}"
    blind, blind_grade = bounds.played(task, codes[1:])
    if any(part.item == item and part.score > 0 for part in blind_grade.items):
        return f"who overlooks the condition earns {item} as well"
    return None if blind < reward else f"overlooking the condition costs nothing: {blind:.2f}"
