"""The short actions: one skill call each, spelling out a choice and nothing else (no id, no stage name).

The skill library is bound to `m` before a snippet runs, in the sandbox (registry.py) as in process (runner.py).
"""

from bat_events.benchmark.card import Choice, choices
from bat_events.domain.vocabulary import Stage

SCAN = "m.scan()"
DROP = "m.drop()"


def action(choice: Choice) -> str:
    """The source that makes a choice; method names are unique over the stages, so the call needs no stage."""
    return f"m.{choice.method}({choice.level})"


def actions(stage: Stage) -> tuple[str, ...]:
    """All twelve valid choice actions of a stage."""
    return tuple(action(choice) for choice in choices(stage))


def all_actions() -> tuple[str, ...]:
    """Every valid short action: the 60 choices, and the two that mend a worklist or declare a failure."""
    return (*(source for stage in Stage for source in actions(stage)), SCAN, DROP)
