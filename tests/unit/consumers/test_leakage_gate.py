"""The leakage gate: nothing is admitted without fingerprints, and held-out content is found wherever it stands."""

import base64
from pathlib import Path

import pytest
from fake_runtime import FakeLogContext

from bat_events.benchmark.body import state_body
from bat_events.benchmark.interface import Task, TaskKey
from bat_events.benchmark.registry import benchmark
from bat_events.consumers.evaluator import heldout_tasks
from bat_events.consumers.fingerprinter import Fingerprinter
from bat_events.consumers.fingerprints import content_digest
from bat_events.consumers.leakage_gate import LeakageGate, document
from bat_events.domain.leakage import CHECKS
from bat_events.domain.vocabulary import Focus, Outcome, Split, Track
from bat_events.errors import ConfigurationError
from bat_events.events.bank import LeakageVerdict, StateSynthesized
from bat_events.events.plan import EvaluationPlan
from bat_events.service.runtime import Retryable
from tests.support.campaigns import CAMPAIGN, PLAN, started, told
from tests.support.samples import fact as fact_of

SMALL = PLAN.model_copy(update={"evaluation": EvaluationPlan(repeats=2)})
IMAGE = bytes(range(128, 256))


def practice(seed: int = 1) -> Task:
    return benchmark("mini").build(
        TaskKey(track=Track.SEGMENTATION, focus=Focus.S3, outcome=Outcome.SUCCESS, seed=seed, split=Split.PRACTICE)
    )


def changed(task: Task, **fields: object) -> Task:
    return Task(**{**vars(task), **fields})


class Scene:
    """A campaign whose held-out fingerprints are published."""

    def __init__(self, folder: Path) -> None:
        begun = started(SMALL)
        self.context = FakeLogContext.on(folder, begun)
        for draft in Fingerprinter(self.context).handle(begun):
            self.context.facts.append(fact_of(draft.event, campaign=CAMPAIGN))
        self.heldout = heldout_tasks(self.context, SMALL, Track.SEGMENTATION, 2)[0]

    def verdict(self, task: Task) -> LeakageVerdict:
        body = self.context.store.put_json(state_body(task, benchmark="mini", version=1))
        (draft,) = LeakageGate(self.context).handle(told(StateSynthesized, body=body))
        event = draft.event
        assert isinstance(event, LeakageVerdict)
        assert event.body == body
        return event


def failed(verdict: LeakageVerdict) -> list[str]:
    return [check.name for check in verdict.checks if not check.passed]


def test_a_practice_state_is_cleared_with_every_checks_evidence(tmp_path: Path) -> None:
    verdict = Scene(tmp_path).verdict(practice())
    assert verdict.cleared
    assert [check.name for check in verdict.checks] == list(CHECKS)
    assert "fingerprints looked for" in next(c for c in verdict.checks if c.name == "exact_match").evidence


def test_a_held_out_image_is_found_in_whatever_file_it_stands(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    image = next(content for content in scene.heldout.inputs.values() if b"\xff" in content or b"\x93" in content)
    task = practice()
    for place in (
        changed(task, inputs={**task.inputs, "input/other.npy": image}),
        changed(task, files={**task.files, "notes.txt": image}),
    ):
        verdict = scene.verdict(place)
        assert not verdict.cleared
        assert failed(verdict) == ["exact_match"]


def test_a_secret_in_a_text_file_is_found_and_not_quoted(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    task = practice()
    verdict = Scene(tmp_path).verdict(changed(task, files={**task.files, "notes.txt": token.encode()}))
    assert failed(verdict) == ["secrets"]
    assert all(token not in check.evidence for check in verdict.checks)


def test_declared_canaries_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = tmp_path / "canaries"
    declared.write_text("# held-out files carry this\nBAT-canary:7f3e-91ac\n\n")
    monkeypatch.setenv("BAT_CANARIES", str(declared))
    scene, task = Scene(tmp_path), practice()
    assert next(c for c in scene.verdict(task).checks if c.name == "canaries").evidence == "1 canaries looked for"
    verdict = scene.verdict(changed(task, prompt=f"{task.prompt}\nbat canary 7F3E 91AC"))
    assert failed(verdict) == ["canaries"]
    declared.unlink()
    with pytest.raises(ConfigurationError, match=r"canaries .* cannot be read"):
        scene.context.settings.canary_strings()


def test_without_fingerprints_nothing_is_admitted_and_the_event_is_not_skipped(tmp_path: Path) -> None:
    context = FakeLogContext.on(tmp_path, started(SMALL))
    context.stop.set()  # asked to end while it waits
    with pytest.raises(Retryable, match="fingerprints"):
        LeakageGate(context).handle(told(StateSynthesized))


def test_another_campaigns_fingerprints_do_not_count(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.context.facts[-1] = fact_of(scene.context.facts[-1].event, campaign="another")
    scene.context.stop.set()
    with pytest.raises(Retryable, match="fingerprints"):
        LeakageGate(scene.context).handle(told(StateSynthesized))


def test_the_checks_read_texts_as_text_and_other_files_by_digest() -> None:
    task = changed(
        practice(), inputs={"input/image.npy": IMAGE}, files={"plan.json": "{} µ".encode()}, system="s", prompt="p"
    )
    read = document(state_body(task, benchmark="mini", version=1))
    assert read == {
        "system": "s",
        "prompt": "p",
        "files": {"input/image.npy": content_digest(IMAGE), "plan.json": "{} µ"},
    }
    assert base64.b64encode(IMAGE).decode() not in str(read)
