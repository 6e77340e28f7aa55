"""What the policy is shown: everything that is graded, and nothing that varies but what was seen, card and finding."""

import pytest

from bat_events.benchmark import formats
from bat_events.benchmark.card import choices, right_choice
from bat_events.benchmark.instance import Instance
from bat_events.benchmark.interface import Evidence, Task, TaskKey
from bat_events.benchmark.mini import MiniBenchmark
from bat_events.benchmark.skills.medskills.answers import SMALLEST
from bat_events.domain.vocabulary import Focus, Outcome, Split, Stage, Track

MINI = MiniBenchmark()


def key(track: Track, focus: Focus, outcome: Outcome, seed: int = 5) -> TaskKey:
    return TaskKey(track=track, focus=focus, outcome=outcome, seed=seed, split=Split.PRACTICE)


def nothing(task: Task) -> Evidence:
    return Evidence(receipts=(), files=task.files, inputs_intact=True, end="final")


@pytest.mark.parametrize("track", MINI.tracks())
@pytest.mark.parametrize("focus", list(Focus))
@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_graded_item_is_stated_in_the_prompt(track: Track, focus: Focus, outcome: Outcome) -> None:
    task = MINI.build(key(track, focus, outcome))
    graded = MINI.grade(task.key, nothing(task)).items
    assert {item.stage for item in graded} == set(focus.stages)
    for item in graded:
        assert f"check {item.item}" in task.prompt, item.item


@pytest.mark.parametrize("track", MINI.tracks())
def test_every_field_column_and_word_is_stated_where_it_is_graded(track: Track) -> None:
    for focus, words in {
        Focus.S1: formats.PLAN_FIELDS,
        Focus.S2: formats.SETUP_FIELDS,
        Focus.S3: formats.PILOT_FIELDS | {"ok", "poor"},
        Focus.S4: formats.RUN_FIELDS | {"outputs/CASE.npy"},
        Focus.S5: {*formats.SUBMISSION_COLUMNS, *formats.FAILED_COLUMNS, "px", "mm", "pct", "done", "failed"},
    }.items():
        for outcome in (focus, Focus.E2E):
            prompt = MINI.build(key(track, outcome, Outcome.SUCCESS)).prompt
            assert all(word in prompt for word in words), (focus, [word for word in words if word not in prompt])


def test_what_rubric_2_asks_is_stated_in_every_prompt() -> None:
    line = "a stage counts as the call left it that exited 0; flat or copied images are none; earlier records must stay"
    for track in MINI.tracks():
        for focus in Focus:
            assert line in MINI.build(key(track, focus, Outcome.SUCCESS)).prompt.splitlines()


def test_the_smallest_lesion_is_stated_where_answers_count_lesions() -> None:
    for track in (Track.CLASSIFICATION, Track.DETECTION, Track.VQA, Track.REPORT):
        for focus in Focus:
            assert f"under {SMALLEST} pixels" in MINI.build(key(track, focus, Outcome.SUCCESS)).prompt


@pytest.mark.parametrize("focus", list(Focus))
def test_every_choice_and_its_protocol_are_stated(focus: Focus) -> None:
    prompt = MINI.build(key(Track.SEGMENTATION, focus, Outcome.SUCCESS)).prompt
    for stage in focus.stages:
        assert all(f"m.{choice.method}(level)" in prompt for choice in choices(stage))
        assert all(line in prompt for line in formats.protocol_lines(stage))


def test_the_printed_protocol_is_the_one_that_is_graded() -> None:
    instance = Instance(key(Track.SEGMENTATION, Focus.E2E, Outcome.SUCCESS))
    card = instance.card
    for stage in Stage:
        said: dict[str, str] = {}
        for line in formats.protocol_lines(stage):
            head, _, cells = line.partition(": ")
            what, attribute = head.split(" ", 1)[1].split(" by ")
            said[what] = dict(cell.split(" ") for cell in cells.split(", "))[getattr(card, attribute)]
        assert said == {"method": right_choice(card, stage).method, "level": str(right_choice(card, stage).level)}


def test_prompts_differ_only_by_what_was_seen_card_and_finding() -> None:
    for focus in Focus:
        tasks = [MINI.build(key(Track.ENHANCEMENT, focus, outcome, seed)) for outcome in Outcome for seed in range(4)]
        assert len({task.prompt.rsplit("\n", 3)[0] for task in tasks}) == 1
        assert len({task.prompt.rsplit("\n", 3)[1] for task in tasks}) == 4  # the seeds
        assert len({task.prompt.rsplit("\n", 1)[1] for task in tasks}) == 3
        assert all(len(task.prompt.splitlines()[-2].split()) == 5 for task in tasks)
        assert len({task.system for task in tasks}) == 1


def test_all_focuses_of_a_seed_show_the_same_card() -> None:
    cards = {tuple(MINI.build(key(Track.VQA, f, o)).prompt.splitlines()[-3:-1]) for f in Focus for o in Outcome}
    assert len(cards) == 1
