"""A model judges texts below the evidence, behind a server that misbehaves: no reward is made up, none is another judge's."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from judge_scene import KEY, JudgeScene, item, stage

from bat_events.domain.vocabulary import Focus, Outcome, Stage
from bat_events.errors import ConfigurationError
from bat_events.service.runtime import Retryable
from tests.support.chat_server import (
    Behaviour,
    Call,
    ChatServer,
    chat_server,
    cut_off,
    drips,
    fails,
    gives,
    hangs,
    html,
    other_json,
    refuses,
    scores,
    slowly,
    talks,
)

Make = Callable[..., tuple[JudgeScene, ChatServer]]
BOTH = {"focus": Focus.E2E, "outcome": Outcome.FAILURE}  # a state with two texts


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Make]:
    """scene(behaviours…, setting=value…) -> a JudgeScene and its server."""
    closers: list[Callable[[], object]] = []

    def make(*behaviours: Behaviour, **settings: Any) -> tuple[JudgeScene, ChatServer]:
        serving = chat_server(*behaviours)
        server = serving.__enter__()
        closers.append(lambda: serving.__exit__(None, None, None))
        made = JudgeScene(tmp_path / str(len(closers)), server, **settings)
        closers.append(made.close)
        return made, server

    yield make
    for close in reversed(closers):
        close()


def test_a_models_score_counts_where_it_is_below_the_evidence(scene: Make, tmp_path: Path) -> None:
    own = JudgeScene(tmp_path / "own").scored()
    made, server = scene(gives(0.4))
    event = made.scored()
    assert (item(own, "plan_choice"), item(event, "plan_choice")) == (1.0, 0.4)
    assert [(one.item, one.score) for one in event.items if one.item != "plan_choice"] == [
        (one.item, one.score) for one in own.items if one.item != "plan_choice"
    ]
    assert event.reward == pytest.approx(stage(event, Stage.S1)) == pytest.approx(0.8)
    assert (own.judge, own.model, own.texts) == ("evidence", None, ())
    assert (event.judge, event.model, event.rubric_version) == ("evidence+text-1", "tiny", own.rubric_version)
    (text,) = event.texts
    assert (text.item, text.asked, text.cap) == ("plan_choice", 0.4, 1.0)
    kept = made.context.store.get_json(text.judgement)
    assert kept["question"]["item"] == "plan_choice"
    assert kept["answer"] == {"item": "plan_choice", "score": 0.4, "rationale": "read"}
    assert len(server.raw) == 1


def test_each_text_is_asked_about_in_a_call_of_its_own(scene: Make) -> None:
    made, server = scene(scores(lambda call: 0.5 if call.question["item"] == "plan_choice" else 0.25), **BOTH)
    draft = made.draft()
    assert {text.item: text.asked for text in draft.event.texts} == {"plan_choice": 0.5, "failure_declared": 0.25}
    assert len(server.raw) == 2
    assert (draft.cost.tokens_in, draft.cost.tokens_out) == (200, 100)
    assert draft.cost.wall_s > 0
    sent = json.loads(server.raw[0])
    assert sent["response_format"]["json_schema"]["strict"] is True
    assert "maximum" not in json.dumps(sent["response_format"])


def test_what_no_text_must_settle_is_not_asked(scene: Make) -> None:
    made, server = scene(gives(0.0), focus=Focus.S3)
    event = made.scored()
    assert (event.reward, event.judge, event.model, event.texts) == (1.0, "evidence+text-1", "tiny", ())
    assert server.raw == []


def test_what_the_evidence_gives_nothing_is_not_asked(scene: Make) -> None:
    made, server = scene(gives(1.0), extra=["m.steps.store.write('plan/plan.json', b'{}')"])
    event = made.scored()
    assert (item(event, "plan_choice"), event.texts) == (0.0, ())
    assert server.raw == []


def test_a_message_that_comes_again_gives_the_same_reward_and_costs_nothing(scene: Make) -> None:
    made, server = scene(gives(0.4), **BOTH)
    first = made.draft()
    server.behaviours = [gives(0.9)]  # the model would now say something else
    second = made.draft()
    assert second.event == first.event
    assert len(server.raw) == 2
    assert (second.cost.tokens_in, second.cost.tokens_out) == (0, 0)


def test_an_answer_that_is_gone_from_the_store_is_asked_for_anew(scene: Make) -> None:
    made, server = scene(gives(0.4))
    (text,) = made.scored().texts
    path = made.context.settings.home / "artifacts" / text.judgement[:2] / text.judgement
    path.unlink()
    assert made.scored().texts[0].asked == 0.4
    assert len(server.raw) == 2


@pytest.mark.parametrize("change", [{"model": "other"}, {"temperature": 0.5}, {"max_chars": 1000}])
def test_another_judge_is_asked_anew(scene: Make, tmp_path: Path, change: dict[str, object]) -> None:
    made, server = scene(gives(0.4))
    made.scored()
    other = JudgeScene(tmp_path / "1", server, **change, extra=["print('x' * 3000)"] if "max_chars" in change else [])
    other.scored()
    other.close()
    assert len(server.raw) == 2


NAN = talks('{"scores": [{"item": "plan_choice", "score": NaN, "rationale": ""}]}')
MALFORMED: dict[str, Behaviour] = {
    "truncated JSON": talks('{"scores": [{"item": "plan_choice", "sco'),
    "prose": talks("I give it full marks."),
    "HTML": html,
    "other JSON": other_json,
    "wrong item": scores(lambda _: 0.4, item="plan_made"),
    "twice": scores(lambda _: 0.4, times=2),
    "missing item": scores(lambda _: 0.4, times=0),
    "NaN": NAN,
    "infinite": talks('{"scores": [{"item": "plan_choice", "score": Infinity, "rationale": ""}]}'),
    "above 1": gives(1.01),
    "below 0": gives(-0.01),
    "a word": talks('{"scores": [{"item": "plan_choice", "score": "1.0", "rationale": ""}]}'),
    "true": talks('{"scores": [{"item": "plan_choice", "score": true, "rationale": ""}]}'),
    "no rationale": talks('{"scores": [{"item": "plan_choice", "score": 0.4}]}'),
    "more fields": talks('{"scores": [{"item": "plan_choice", "score": 0.4, "rationale": "", "cap": 1}]}'),
    "cut short": lambda call: call.complete('{"scores": []}', finish="length"),
}


@pytest.mark.parametrize("misbehaves", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_score_is_asked_for_again_and_never_read_as_a_number(scene: Make, misbehaves: Behaviour) -> None:
    made, server = scene(misbehaves, gives(0.4))
    assert made.scored().texts[0].asked == 0.4
    assert len(server.raw) == 2


@pytest.mark.parametrize(
    "misbehaves", [fails(500), fails(429), fails(503), cut_off], ids=["500", "429", "503", "cut off"]
)
def test_an_answer_that_failed_is_asked_for_again(scene: Make, misbehaves: Behaviour) -> None:
    made, server = scene(misbehaves, gives(0.4))
    assert made.scored().texts[0].asked == 0.4
    assert len(server.raw) == 2


@pytest.mark.parametrize(
    ("misbehaves", "reason", "words"),
    [
        (fails(500), "judge_unavailable", "status 500"),
        (NAN, "judge_malformed", "not the JSON that was asked for"),
        (scores(lambda _: 1.0, item="plan_made"), "judge_malformed", "another item"),
        (refuses, "judge_refused", "refused"),
    ],
    ids=["500", "NaN", "wrong item", "refusal"],
)
def test_after_the_last_try_the_reward_is_withheld_and_no_other_judge_steps_in(
    scene: Make, misbehaves: Behaviour, reason: str, words: str
) -> None:
    made, server = scene(misbehaves, retries=1)
    draft = made.draft()
    event = draft.event
    assert made.withheld().reason == reason
    assert words in event.detail
    assert "model tiny, 2 tries" in event.detail
    assert draft.cost.wall_s > 0
    assert len(server.raw) == 4  # two of each time: the failure is not kept
    server.behaviours = [gives(0.4)]
    assert made.scored().texts[0].asked == 0.4


@pytest.mark.parametrize("misbehaves", [hangs, drips])
def test_an_answer_that_does_not_come_ends_with_its_time(scene: Make, misbehaves: Behaviour) -> None:
    made, server = scene(misbehaves, gives(0.4), timeout_s=0.3)
    began = time.monotonic()
    made.scored()
    assert time.monotonic() - began < 4.0
    assert len(server.raw) == 2


def test_a_server_that_asks_to_wait_is_waited_for(scene: Make) -> None:
    made, server = scene(fails(429, Retry_After="1"), gives(0.4))
    began = time.monotonic()
    made.scored()
    assert time.monotonic() - began >= 1.0
    assert len(server.raw) == 2


def test_no_more_calls_go_on_at_once_than_are_allowed_and_no_faster(scene: Make) -> None:
    made, server = scene(slowly(gives(0.4), 0.1), **BOTH, concurrency=1, requests_per_minute=120)
    began = time.monotonic()
    made.scored()
    assert server.most_at_once == 1
    assert time.monotonic() - began >= 0.5  # two calls, half a second apart
    both, other = scene(slowly(gives(0.4), 0.2), **BOTH, concurrency=2)
    both.scored()
    assert other.most_at_once == 2


@pytest.mark.parametrize("status", [401, 404])
def test_what_a_person_must_mend_halts_and_shows_no_key(scene: Make, status: int) -> None:
    made, _ = scene(fails(status), api_key=KEY)
    with pytest.raises(ConfigurationError, match=rf"judge.endpoint .* answers {status} for model tiny") as error:
        made.draft()
    assert KEY not in str(error.value)


def test_who_is_asked_to_stop_meanwhile_withholds_nothing(scene: Make) -> None:
    made, _ = scene(hangs, timeout_s=60.0)
    stopper = threading.Timer(0.3, made.context.stop.set)
    stopper.start()
    with pytest.raises(Retryable, match="stopped while waiting"):
        made.draft()


def test_a_model_without_token_counts_costs_what_is_not_known(scene: Make) -> None:
    def uncounted(call: Call) -> None:
        text = json.dumps({"scores": [{"item": call.question["item"], "score": 0.4, "rationale": ""}]})
        reply = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
        call.send(200, json.dumps(reply).encode())

    made, _ = scene(uncounted)
    cost = made.draft().cost
    assert (cost.tokens_in, cost.tokens_out) == (None, None)
