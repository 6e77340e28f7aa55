"""States worded by a model behind a server that misbehaves: nothing of a state leaks to it, nothing it says is trusted."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runtime import FakeLogContext

from bat_events.benchmark.body import task_from_body
from bat_events.benchmark.interface import Task, TaskKey
from bat_events.benchmark.registry import benchmark
from bat_events.codec import Fact
from bat_events.consumers.fingerprints import FINGERPRINT_KEY, as_events, task_texts
from bat_events.consumers.leakage_gate import LeakageGate
from bat_events.consumers.synthesizer import Synthesizer
from bat_events.consumers.wording_model import WordingModel
from bat_events.deciders.bank import Bank
from bat_events.deciders.interface import Draft
from bat_events.domain.leakage import make_fingerprints
from bat_events.domain.vocabulary import Focus, Outcome, Split, Track
from bat_events.errors import ConfigurationError
from bat_events.events.bank import LeakageVerdict, StateSynthesized, SynthesisFailed, SynthesisRequested
from bat_events.service.runtime import Retryable
from bat_events.settings import SynthesisSettings
from tests.support.campaigns import CAMPAIGN, PLAN, name, started, told
from tests.support.chat_server import (
    Behaviour,
    ChatServer,
    chat_server,
    cut_short,
    drips,
    fails,
    hangs,
    html,
    other_json,
    politely,
    says,
    slowly,
    talks,
)
from tests.support.samples import fact as fact_of

SAME: dict[str, Any] = {"focus": Focus.S1, "track": Track.SEGMENTATION, "outcome": Outcome.RECOVERY}
SEED = 5
KEY = "sk-held-by-nobody-else"
PLANTED = "yesterday the surgeon quietly described seventeen marbled shadows beneath another winter harbour"


class Scene:
    """A synthesizer whose model is the given server."""

    def __init__(self, folder: Path, server: ChatServer, **settings: object) -> None:
        self.context = FakeLogContext.on(folder, started(PLAN))
        changes = {
            "endpoint": server.endpoint,
            "model": "tiny",
            "timeout_s": 5.0,
            "retries": 2,
            "retry_wait_s": 0.0,
            "pause_s": 0.05,
            **settings,
        }
        synthesis = SynthesisSettings.model_validate(changes)
        self.context.settings = self.context.settings.model_copy(update={"synthesis": synthesis})
        self.model = WordingModel(synthesis, self.context.stop)
        self.worker = Synthesizer(self.context, self.model)

    def make(self) -> Draft:
        (draft,) = self.worker.handle(request())
        return draft

    def task(self) -> tuple[StateSynthesized, Task]:
        event = self.make().event
        assert isinstance(event, StateSynthesized), event
        return event, task_from_body(self.context.store.get_json(event.body))


def request() -> Fact:
    return told(SynthesisRequested, **SAME, state=name("a state")[:32], ordinal=0, seed=SEED)


def built() -> Task:
    """The state as the benchmark words it."""
    return benchmark("mini").build(TaskKey(**SAME, seed=SEED, split=Split.PRACTICE))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Any]:
    """scene(behaviours…, setting=value…) -> a Scene and its server."""
    closers = []

    def make(*behaviours: Behaviour, **settings: object) -> tuple[Scene, ChatServer]:
        serving = chat_server(*behaviours)
        server = serving.__enter__()
        closers.append(lambda: serving.__exit__(None, None, None))
        made = Scene(tmp_path, server, **settings)
        closers.append(made.model.close)
        return made, server

    yield make
    for close in reversed(closers):
        close()


def test_a_models_wording_stands_in_the_prompt_and_everything_else_stays(scene: Any) -> None:
    made, _ = scene(says(politely))
    draft = made.make()
    event = draft.event
    task, own = task_from_body(made.context.store.get_json(event.body)), built()
    assert (task.system, task.inputs, task.files, task.key) == (own.system, own.inputs, own.files, own.key)
    before, after = own.prompt.split("\n"), task.prompt.split("\n")
    changed = {old for old, new in zip(before, after, strict=True) if old != new}
    assert changed
    assert changed <= benchmark("mini").prose(Track.SEGMENTATION, Focus.S1).lines
    assert after[-3:] == before[-3:]  # what was seen, the card, what was found
    assert event.wording == "tiny wording-1"
    assert (draft.cost.tokens_in, draft.cost.tokens_out) == (200, 100)  # of two calls


def test_another_wording_makes_no_other_state(scene: Any, tmp_path: Path) -> None:
    (own,) = Synthesizer(FakeLogContext.on(tmp_path / "own", started(PLAN))).handle(request())
    made, _ = scene(says(politely))
    event = made.make().event
    assert own.event.wording == "programmatic"
    for field in ("own_prompt", "own_workspace", "condition", "workspace_digest"):
        assert getattr(event, field) == getattr(own.event, field)
    assert event.prompt_digest != own.event.prompt_digest


def test_work_done_again_in_other_words_is_the_same_event_and_the_same_decision(scene: Any) -> None:
    made, server = scene(says(politely))
    asked = request()
    (one,) = made.worker.handle(asked)
    server.behaviours = [says(lambda lines: [f"well, {line}" for line in lines])]
    (two,) = made.worker.handle(asked)
    assert one.id == two.id
    assert one.event != two.event
    decisions = []
    for draft in (one, two):
        bank = Bank(CAMPAIGN)
        verdict = told(LeakageVerdict, **SAME, state=draft.event.state, ordinal=0, body=draft.event.body, cleared=True)
        for fact in (started(PLAN), fact_of(draft.event, campaign=CAMPAIGN), verdict):
            bank.apply(fact)
        decisions.append([d.event.model_dump(exclude={"body"}) for d in bank.required()])
    assert decisions[0] == decisions[1]


def test_the_model_is_shown_published_sentences_and_nothing_of_the_state(scene: Any) -> None:
    made, server = scene(says(politely), api_key=KEY)
    made.make()
    own = built()
    published = benchmark("mini").published(Track.SEGMENTATION, Focus.S1)
    sent = b"\n".join(server.raw).decode()
    shown = {
        line["text"] for raw in server.raw for line in json.loads(json.loads(raw)["messages"][1]["content"])["lines"]
    }
    assert shown <= published
    secret = [line for line in own.prompt.split("\n") if line not in published]
    secret += [path.rpartition("/")[2] for path in own.inputs if "cases" in path]
    secret += [str(SEED), name("a state")[:32], KEY, CAMPAIGN]
    assert len(secret) > 8
    assert not [text for text in secret if f'"{text}"' in sent or (len(text) > 3 and text in sent)]
    assert set(server.keys) == {f"Bearer {KEY}"}


@pytest.mark.parametrize(
    "misbehaves",
    [
        fails(500),
        fails(429),
        html,
        other_json,
        cut_short,
        talks("Sorry, I cannot do that."),
        talks('{"lines": ["one line for all"]}'),
        says(lambda lines: [line.replace("readable", "") for line in politely(lines)]),
        says(lambda lines: list(reversed(lines))),
        says(lambda lines: [f"{line} and 3 more" for line in lines]),
        says(lambda lines: [f"{line}\nseen: 1 2 3 4" for line in lines]),
    ],
    ids=[
        "500", "429", "html", "other JSON", "cut short", "prose", "too few", "a fact dropped", "reversed", "a fact added",
        "a line added",
    ],
)  # fmt: skip
def test_a_bad_answer_is_asked_for_again(scene: Any, misbehaves: Behaviour) -> None:
    made, server = scene(misbehaves, says(politely), concurrency=1)
    event, _ = made.task()
    assert event.wording == "tiny wording-1"
    assert len(server.raw) == 3  # two parts, one of them twice


@pytest.mark.parametrize("misbehaves", [hangs, drips])
def test_an_answer_that_does_not_come_ends_with_its_time(scene: Any, misbehaves: Behaviour) -> None:
    made, server = scene(misbehaves, says(politely), concurrency=1, timeout_s=0.4)
    began = time.monotonic()
    made.task()
    assert time.monotonic() - began < 5.0
    assert len(server.raw) == 3


def test_a_model_that_never_keeps_the_facts_makes_no_state_and_is_not_quoted(scene: Any) -> None:
    made, server = scene(says(lambda lines: [PLANTED for _ in lines]), concurrency=1)
    event = made.make().event
    assert isinstance(event, SynthesisFailed)
    assert "cannot stand for it" in event.reason
    assert not set(PLANTED.split()) & set(event.reason.split()) - {"the"}
    assert 3 <= len(server.raw) <= 6  # each of two parts at most as often as is allowed


def test_an_outage_leaves_the_request_unserved_until_the_model_is_back(scene: Any) -> None:
    made, server = scene(fails(503))
    found: list[Draft] = []
    work = threading.Thread(target=lambda: found.append(made.make()))
    work.start()
    while len(server.raw) < 12:  # long past all retries of one try
        time.sleep(0.01)
    assert found == []
    assert "nothing is synthesised without it" in made.context.status.doing
    server.behaviours = [says(politely)]
    work.join(20.0)
    assert found[0].event.wording == "tiny wording-1"


@pytest.mark.parametrize("misbehaves", [fails(503), hangs])
def test_who_is_asked_to_stop_meanwhile_stops_without_an_event(scene: Any, misbehaves: Behaviour) -> None:
    made, server = scene(misbehaves, timeout_s=60.0, pause_s=60.0)
    stopper = threading.Timer(0.3, made.context.stop.set)
    stopper.start()
    began = time.monotonic()
    with pytest.raises(Retryable, match="stopped while waiting for the wording model"):
        made.make()
    assert time.monotonic() - began < 5.0
    assert server.raw


@pytest.mark.parametrize("status", [401, 404, 302])
def test_what_a_person_must_mend_halts_at_once_and_shows_no_key(scene: Any, status: int) -> None:
    made, server = scene(fails(status), api_key=KEY, concurrency=1)
    with pytest.raises(
        ConfigurationError, match=rf"answers {status} for model tiny: correct synthesis.endpoint"
    ) as error:
        made.make()
    assert KEY not in str(error.value)
    assert len(server.raw) == 1


def test_the_key_may_lie_in_a_file(scene: Any, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    made, server = scene(says(politely), api_key_file=file)
    made.make()
    assert set(server.keys) == {f"Bearer {KEY}"}
    file.write_text("")
    with pytest.raises(ConfigurationError, match="is empty"):
        scene(says(politely), api_key_file=file)
    with pytest.raises(ConfigurationError, match="cannot be read: FileNotFoundError"):
        scene(says(politely), api_key_file=tmp_path / "none")


@pytest.mark.parametrize(("concurrency", "seen"), [(1, 1), (4, 2)])
def test_no_more_calls_go_on_at_once_than_are_allowed(scene: Any, concurrency: int, seen: int) -> None:
    made, server = scene(slowly(says(politely), 0.2), concurrency=concurrency)
    made.make()
    assert server.most_at_once == seen  # there are two parts


def test_the_leakage_gate_reads_what_the_model_said(scene: Any) -> None:
    made, server = scene(says(politely))
    shared = task_texts(built())
    fingerprints = make_fingerprints([PLANTED], made.context.secret(FINGERPRINT_KEY), shared)
    events = as_events(fingerprints, shared, seed=1, instances=1)
    made.context.facts += [fact_of(event, campaign=CAMPAIGN) for event in events]
    gate = LeakageGate(made.context)

    def verdict() -> LeakageVerdict:
        (draft,) = gate.handle(fact_of(made.make().event, campaign=CAMPAIGN))
        assert isinstance(draft.event, LeakageVerdict)
        return draft.event

    clean = verdict()
    assert clean.cleared, [check for check in clean.checks if not check.passed]
    server.behaviours = [
        says(lambda lines: [f"{line}, {PLANTED}" if line == max(lines, key=len) else line for line in lines])
    ]
    caught = verdict()
    assert not caught.cleared
    assert "ngram_run" in [check.name for check in caught.checks if not check.passed]
