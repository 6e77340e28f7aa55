"""The items of the mini benchmark that a text must settle: whether a plan says what the protocol asks for, and whether the
reasons of a declared failure are reasons. Everything else in it is measured."""

from collections.abc import Iterator, Sequence

from bat_events.benchmark.formats import MAX_BYTES
from bat_events.benchmark.interface import Evidence, TaskKey, TextItem
from bat_events.domain.vocabulary import Focus, Outcome

_PLAN = (
    "Does the plan name the cleaning method and level that the task's protocol prescribes for its card? "
    "1: both. 0.35: the method, at another level. 0: another method, or no plan."
)
_REASONS = (
    "The file declares cases as failed, with a reason for each. Which share of the reasons says that, or why, its case "
    "cannot be read? 1: all of them. 0: none, or there is no reason at all."
)


def mini_texts(key: TaskKey, evidence: Evidence) -> Sequence[TextItem]:
    """See Benchmark.texts."""
    return tuple(_texts(key, evidence))


def _texts(key: TaskKey, evidence: Evidence) -> Iterator[TextItem]:
    if key.focus in (Focus.S1, Focus.E2E):
        plan = _text(evidence, "plan/plan.json")
        if plan:
            yield TextItem(item="plan_choice", question=_PLAN, text=plan)
    if key.outcome is Outcome.FAILURE:
        reasons = _text(evidence, "failed.csv")
        if reasons:
            yield TextItem(item="failure_declared", question=_REASONS, text=reasons)


def _text(evidence: Evidence, path: str) -> str:
    """A small file of the workspace as text; empty where it is not there, too large or no UTF-8."""
    content = evidence.files.get(path, b"")
    try:
        return "" if len(content) > MAX_BYTES else content.decode().strip()
    except UnicodeDecodeError:
        return ""
