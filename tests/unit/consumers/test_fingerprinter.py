"""What the held-out plane says of its texts: keyed, sealed, without what practice shows, and enough for the gate."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from fake_runtime import FakeLogContext

from bat_events.benchmark.interface import Task, TaskKey
from bat_events.benchmark.registry import benchmark
from bat_events.codec import Fact
from bat_events.consumers.evaluator import heldout_tasks
from bat_events.consumers.fingerprinter import Fingerprinter, shared_texts
from bat_events.consumers.fingerprints import FINGERPRINT_KEY, content_digest, from_log, task_texts
from bat_events.domain.leakage import RULE, Fingerprints, fingerprint
from bat_events.domain.vocabulary import Focus, Outcome, Split, Track
from bat_events.errors import ConfigurationError
from bat_events.events.base import Event
from bat_events.events.boundary import HeldoutFingerprintsPublished
from bat_events.events.fingerprints import HeldoutNgramsPublished, SharedTextDeclared
from bat_events.events.plan import EvaluationPlan
from tests.support.campaigns import CAMPAIGN, PLAN, started
from tests.support.samples import fact as fact_of

SMALL = PLAN.model_copy(update={"evaluation": EvaluationPlan(repeats=3)})


def published(folder: Path) -> list[Event]:
    begun = started(SMALL)
    return [draft.event for draft in Fingerprinter(FakeLogContext.on(folder, begun)).handle(begun)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def events(home: Path) -> list[Event]:
    return published(home)


def facts(events: list[Event], campaign: str = CAMPAIGN) -> list[Fact]:
    return [fact_of(event, campaign=campaign) for event in events]


def key_of(home: Path) -> bytes:
    return FakeLogContext.on(home).secret(FINGERPRINT_KEY)


def test_three_kinds_are_published_and_read_again(home: Path, events: list[Event]) -> None:
    assert [type(event) for event in events] == [
        SharedTextDeclared,
        HeldoutNgramsPublished,
        HeldoutFingerprintsPublished,
    ]
    known = from_log(facts(events), CAMPAIGN, key_of(home))
    assert isinstance(known, Fingerprints)
    assert known.complete


def test_every_image_of_every_held_out_instance_is_fingerprinted(home: Path, events: list[Event]) -> None:
    known = from_log(facts(events), CAMPAIGN, key_of(home))
    assert known is not None
    context = FakeLogContext.on(home)
    for task in heldout_tasks(context, SMALL, Track.SEGMENTATION, 3):
        assert task.key.split is Split.HELDOUT
        images = [c for path, c in task.inputs.items() if path.endswith(".npy")]
        assert images
        assert {fingerprint(content_digest(image), known.key) for image in images} <= known.exact


def test_the_shared_text_is_declared_by_digest_and_can_be_read_again(events: list[Event]) -> None:
    declared = events[0]
    assert isinstance(declared, SharedTextDeclared)
    texts, instances = shared_texts(benchmark("mini"), SMALL)
    assert instances == declared.instances
    assert {hashlib.sha256(text.encode()).hexdigest() for text in texts} == set(declared.texts)


def test_prompts_and_task_files_of_the_built_in_benchmark_are_shared(home: Path, events: list[Event]) -> None:
    declared, ngrams, _ = events
    assert isinstance(declared, SharedTextDeclared)
    assert isinstance(ngrams, HeldoutNgramsPublished)
    task = heldout_tasks(FakeLogContext.on(home), SMALL, Track.SEGMENTATION, 1)[0]
    digest = hashlib.sha256(task.inputs["input/TASK.md"]).hexdigest()
    assert digest in declared.texts
    # an instance differs in its images, in listed words, and in the line of its cases' mean values: runs over that line
    # hold enough digits to be its own
    instances = len(SMALL.tracks) * SMALL.evaluation.repeats
    assert 0 < ngrams.window_count <= 8 * instances


def test_fingerprints_are_the_same_again_keyed_and_in_no_telling_order(
    home: Path, events: list[Event], tmp_path: Path
) -> None:
    assert published(home) == events
    elsewhere = published(tmp_path)
    exact, others = events[2], elsewhere[2]
    assert isinstance(exact, HeldoutFingerprintsPublished)
    assert isinstance(others, HeldoutFingerprintsPublished)
    assert list(exact.fingerprints) == sorted(exact.fingerprints)
    assert not set(exact.fingerprints) & set(others.fingerprints)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_while_one_kind_is_missing_there_are_no_fingerprints(home: Path, events: list[Event], missing: int) -> None:
    left = [event for number, event in enumerate(events) if number != missing]
    assert from_log(facts(left), CAMPAIGN, key_of(home)) is None


def test_another_campaigns_fingerprints_do_not_count(home: Path, events: list[Event]) -> None:
    assert from_log(facts(events, campaign="another"), CAMPAIGN, key_of(home)) is None


def test_fingerprints_of_another_rule_are_refused(home: Path, events: list[Event]) -> None:
    old = [event.model_copy(update={"rule_version": RULE - 1}) for event in events]
    with pytest.raises(ConfigurationError, match=f"rule {RULE - 1}.*nothing is admitted"):
        from_log(facts(old), CAMPAIGN, key_of(home))


def test_fingerprints_under_another_key_are_refused(home: Path, events: list[Event]) -> None:
    with pytest.raises(ConfigurationError, match=r"another key.*nothing is admitted"):
        from_log(facts(events), CAMPAIGN, key_of(home)[::-1])


def test_a_task_is_read_with_its_file_names_and_images_by_digest() -> None:
    key = TaskKey(track=Track.SEGMENTATION, focus=Focus.E2E, outcome=Outcome.SUCCESS, seed=1, split=Split.HELDOUT)
    image = b"\x93\xff image"
    task = Task(
        key=key,
        system="system",
        prompt="prompt",
        inputs={"input/image.npy": image, "input/card.txt": "Größe".encode()},
        files={"plan.json": b"{}"},
        max_turns=1,
    )
    names = ["input/image.npy", "input/card.txt", "plan.json"]
    assert task_texts(task) == ["system", "prompt", *names, content_digest(image), "Größe", "{}"]


def test_practice_instances_are_of_another_split() -> None:
    known = benchmark("mini")
    place: dict[str, Any] = {"track": Track.SEGMENTATION, "focus": Focus.E2E, "outcome": Outcome.SUCCESS, "seed": 3}
    practice = known.build(TaskKey(**place, split=Split.PRACTICE))
    heldout = known.build(TaskKey(**place, split=Split.HELDOUT))
    digests = [{text for text in task_texts(task) if text.startswith("sha256")} for task in (practice, heldout)]
    assert digests[0]
    assert not digests[0] & digests[1]
