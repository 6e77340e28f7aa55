"""Whether a state's condition is there to be found: real states pass, states whose files say something else do not."""

from dataclasses import replace

import pytest

from bat_events.benchmark.interface import Task, TaskKey
from bat_events.benchmark.registry import benchmark
from bat_events.domain.vocabulary import Focus, Outcome, Split, Track
from bench.bank_parts.condition import condition_fault


def state(focus: Focus, outcome: Outcome) -> Task:
    key = TaskKey(track=Track.ENHANCEMENT, focus=focus, outcome=outcome, seed=8, split=Split.PRACTICE)
    return benchmark("mini").build(key)


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("focus", [Focus.S1, Focus.S3])
def test_the_benchmarks_states_hold_what_they_are_to_hold(focus: Focus, outcome: Outcome) -> None:
    assert condition_fault(state(focus, outcome)) is None


def test_a_recovery_with_nothing_to_recover_from_is_found() -> None:
    mended = state(Focus.S3, Outcome.SUCCESS)
    planted = replace(state(Focus.S3, Outcome.RECOVERY), files=mended.files)
    # A repair is paid only where a call made it, so the expert, who finds nothing to mend, lacks that item.
    assert condition_fault(planted) == "the expert's reward is 0.80"


@pytest.mark.parametrize(
    ("focus", "outcome", "other", "words"),
    [
        (Focus.S1, Outcome.RECOVERY, Outcome.SUCCESS, "worklist"),
        (Focus.S1, Outcome.SUCCESS, Outcome.RECOVERY, "worklist"),
        (Focus.S3, Outcome.FAILURE, Outcome.SUCCESS, "0 case files are cut short"),
        (Focus.S3, Outcome.SUCCESS, Outcome.FAILURE, "1 case files are cut short"),
    ],
)
def test_files_of_another_outcome_are_found(focus: Focus, outcome: Outcome, other: Outcome, words: str) -> None:
    planted = replace(state(focus, outcome), files=state(focus, other).files, inputs=state(focus, other).inputs)
    assert words in str(condition_fault(planted))


def test_a_prompt_that_says_something_else_is_found() -> None:
    planted = replace(state(Focus.S1, Outcome.RECOVERY), prompt=state(Focus.S1, Outcome.SUCCESS).prompt)
    assert "last line" in str(condition_fault(planted))
