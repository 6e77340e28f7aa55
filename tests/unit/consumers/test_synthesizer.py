"""The synthesizer: given a request, then exactly this state, with digests of what is its own."""

from pathlib import Path

import pytest
from fake_runtime import FakeLogContext

from bat_events.benchmark.body import task_from_body
from bat_events.benchmark.interface import Task, TaskKey
from bat_events.benchmark.registry import benchmark
from bat_events.codec import Fact
from bat_events.consumers.synthesizer import Synthesizer
from bat_events.domain.vocabulary import Focus, Outcome, Split, Track
from bat_events.events.bank import StateSynthesized, SynthesisFailed, SynthesisRequested
from tests.support.campaigns import name, started, told

SAME = {"focus": Focus.S1, "track": Track.VQA, "outcome": Outcome.SUCCESS}


@pytest.fixture
def context(tmp_path: Path) -> FakeLogContext:
    """A campaign has begun."""
    return FakeLogContext.on(tmp_path, started())


def request(seed: int, **changes: object) -> Fact:
    return told(SynthesisRequested, **{**SAME, "state": name(f"state {seed}")[:32], "seed": seed, **changes})


def made(context: FakeLogContext, asked: Fact) -> StateSynthesized:
    (draft,) = Synthesizer(context).handle(asked)
    assert isinstance(draft.event, StateSynthesized)
    assert (draft.cause, draft.key) == (asked.id, draft.event.state)
    return draft.event


def test_a_state_is_what_its_request_asks_for(context: FakeLogContext) -> None:
    asked = request(5)
    event = made(context, asked)
    task = task_from_body(context.store.get_json(event.body))
    assert task.key == TaskKey(**SAME, seed=5, split=Split.PRACTICE)  # type: ignore[arg-type]
    assert (event.benchmark, event.benchmark_version) == ("mini", benchmark("mini").version)
    assert made(context, asked) == event


def test_states_of_other_seeds_differ_in_prompt_and_workspace(context: FakeLogContext) -> None:
    one, other = made(context, request(5)), made(context, request(6))
    assert one.own_prompt != other.own_prompt
    assert one.own_workspace != other.own_workspace


def test_the_same_instance_asked_for_again_is_a_copy_by_its_digests(context: FakeLogContext) -> None:
    one, other = made(context, request(5)), made(context, request(5, state=name("another")[:32]))
    assert one.state != other.state
    assert (one.own_prompt, one.own_workspace, one.condition) == (
        other.own_prompt,
        other.own_workspace,
        other.condition,
    )


def test_the_outcome_is_a_condition_of_its_own(context: FakeLogContext) -> None:
    events = [made(context, request(5, outcome=outcome)) for outcome in Outcome]
    assert len({event.condition for event in events}) == len({event.own_prompt for event in events}) == 3


@pytest.mark.parametrize("focus", [Focus.S1, Focus.E2E])
@pytest.mark.parametrize("track", [Track.SEGMENTATION, Track.VQA])
def test_only_the_instances_own_lines_are_not_published(track: Track, focus: Focus) -> None:
    mini = benchmark("mini")
    published = mini.published(track, focus)
    for outcome in Outcome:
        key = TaskKey(track=track, focus=focus, outcome=outcome, seed=9, split=Split.PRACTICE)
        task: Task = mini.build(key)
        own = [line.partition(":")[0] for line in task.prompt.splitlines() if line not in published]
        assert own == ["seen", "card", "found"]
        assert {line for line in task.inputs["input/TASK.md"].decode().splitlines() if line} <= published


def test_an_instance_that_cannot_be_made_is_a_failure_of_its_own(
    context: FakeLogContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impossible(key: TaskKey) -> Task:
        raise ValueError(f"no lesion fits seed {key.seed}")

    monkeypatch.setattr(type(benchmark("mini")), "build", staticmethod(impossible))
    (draft,) = Synthesizer(context).handle(request(5))
    assert isinstance(draft.event, SynthesisFailed)
    assert draft.event.reason == "no lesion fits seed 5"
