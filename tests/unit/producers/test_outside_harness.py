"""The command contract, with real scripts as harnesses: what they may do, and what becomes of what they do."""

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from harness_scripts import command, seen

from bat_events.benchmark.harness import MARK
from bat_events.codec import Fact
from bat_events.consumers.evaluator import Evaluator
from bat_events.deciders.interface import Draft
from bat_events.domain.external import FAILURE_CODES, Asked, MeasuredCell
from bat_events.domain.external_reply import read_reply
from bat_events.domain.vocabulary import Stage, Track
from bat_events.events.boundary import EvaluationReported
from bat_events.events.heldout import EvaluationCellFailed, EvaluationCellScored
from bat_events.events.rounds import EvaluationRequested
from bat_events.producers.external_evaluation import OutsideHarness
from bat_events.producers.harness_attempts import Attempts, request_folder
from bat_events.service.context import Context
from bat_events.service.engines import Engines
from bat_events.service.runtime import GivenUp, Retryable, Status
from bat_events.settings import EvaluationSettings, load_settings
from tests.support.campaigns import CAMPAIGN, started, told
from tests.support.samples import fact as fact_of


class ListContext(Context):
    """A real context (settings, stores) whose log is the list `facts`."""

    facts: list[Fact]
    said: list[str]

    def read_all(self, topic: str) -> list[Fact]:
        return [fact for fact in self.facts if fact.topic == topic]


@pytest.fixture(autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    yield
    left = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and MARK in process.environ():
                left.append(process.cmdline())
        except (psutil.Error, OSError):
            continue
    assert left == []


def context(folder: Path, name: str, **changes: Any) -> ListContext:
    """A context whose settings name the harness."""
    evaluation = EvaluationSettings(**{"command": command(folder, name), "timeout_s": 60.0, **changes})
    settings = load_settings(home=folder / "home", namespace="t", evaluation=evaluation)
    made = ListContext(settings=settings, bootstrap="no broker", status=Status(service="evaluator"))
    made.facts, made.said = [started()], []
    made.status.listeners.append(lambda status: made.said.append(status.doing))
    return made


def checkpoint(made: Context) -> str:
    folder = made.settings.home.absolute() / "made"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights.json").write_text('{"layers": 1}')
    return made.store.put_folder(folder)


def request(made: Context, *comparators: str, repeats: int = 2) -> Fact:
    return told(
        EvaluationRequested,
        round=len(comparators),
        checkpoint=checkpoint(made),
        comparators=comparators,
        tracks=(Track.SEGMENTATION, Track.VQA),
        repeats=repeats,
        temperature=0.7,
    )


def measure(made: ListContext, asked: Fact, grace_s: float = 1.0) -> list[Any]:
    return [event for event, _ in OutsideHarness(made, grace_s=grace_s).measure(asked)]


def evaluate(made: ListContext, asked: Fact) -> list[Any]:
    """Through the evaluator itself; its events are then on the log."""
    outside = OutsideHarness(made, grace_s=1.0)
    drafts = Evaluator(made, cast(Engines, None), outside.measure).handle(asked)
    put(made, drafts)
    return [draft.event for draft in drafts]


def put(made: ListContext, drafts: Any) -> None:
    made.facts += [fact_of(d.event, ordinal=d.ordinal, cause=d.cause, campaign=d.campaign, key=d.key) for d in drafts]


def given_up(made: ListContext, asked: Fact) -> tuple[str, list[Draft]]:
    """The message and drafts of the harness's last attempt."""
    for _ in range(made.settings.evaluation.attempts - 1):
        with pytest.raises(Retryable):
            measure(made, asked)
    with pytest.raises(GivenUp) as error:
        measure(made, asked)
    return str(error.value), list(error.value.drafts)


def refused(made: ListContext, asked: Fact) -> tuple[str, list[Draft]]:
    """The same where the first attempt is the last one."""
    with pytest.raises(GivenUp) as error:
        measure(made, asked)
    return str(error.value), list(error.value.drafts)


def test_a_good_harness_gives_cells_and_a_report(tmp_path: Path) -> None:
    made = context(tmp_path, "good")
    asked = request(made)
    *cells, report = evaluate(made, asked)
    assert [(c.track, c.task, c.repeat, c.turns, c.end) for c in cells] == [
        (track, f"{track}-lite", repeat, 3, "external") for track in ("segmentation", "vqa") for repeat in (0, 1)
    ]
    assert isinstance(report, EvaluationReported)
    assert (report.cells, report.missing, report.checkpoint) == (4, 0, checkpoint(made))
    assert report.task == round(((0.25 + 0.26) / 2 + (0.5 + 0.51) / 2) / 2, 4)
    assert [(f.stage, f.code, f.cells) for f in report.failures or ()] == [("S3", "E3", 2)]
    assert [part.stage for part in cells[2].stages] == [Stage.S1, Stage.S2, Stage.S3, Stage.S4]
    assert made.heldout_store.get_json(cells[0].evidence)["request"] == asked.id
    assert not made.store.has(cells[0].evidence)


def test_the_request_says_all_that_is_asked_for(tmp_path: Path) -> None:
    made = context(tmp_path, "good", protocol="lite@8928073d")
    asked = request(made)
    measure(made, asked)
    (attempt,) = Attempts(request_folder(made, asked)).all()
    said = json.loads(attempt.request.read_text())
    folder = said["checkpoint"].pop("folder")
    assert folder.endswith(checkpoint(made))
    assert said == {
        "schema": 1,
        "request": asked.id,
        "protocol": "lite@8928073d",
        "checkpoint": {"digest": checkpoint(made)},
        "tracks": ["segmentation", "vqa"],
        "repeats": 2,
        "seed": asked.event.seed,  # type: ignore[attr-defined]
        "temperature": 0.7,
        "reply": {"schema": 1, "stages": ["S1", "S2", "S3", "S4", "S5"]},
    }


def test_the_command_gets_whole_elements_and_only_the_allowed_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEN", str(tmp_path / "seen.json"))
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    monkeypatch.setenv("BAT_KAFKA_PASSWORD", "hidden")
    more = ("$(touch spoilt)", "{checkpoints}", "a;b", "{output}")
    made = context(
        tmp_path,
        "environment",
        command=(*command(tmp_path, "environment"), *more),
        environment=("PATH", "SEEN", "NOT_SET"),
    )
    asked = request(made)
    measure(made, asked)
    found = seen(tmp_path / "seen.json")
    environment = cast(dict[str, str], found["env"])
    assert set(environment) - {"LC_CTYPE"} == {"PATH", "SEEN", "HOME", "TMPDIR", MARK}
    work = request_folder(made, asked) / "attempt-1" / "work"
    assert (environment["HOME"], found["cwd"]) == (str(work), str(work))
    argv = cast(list[str], found["argv"])
    assert argv[3:6] == list(more[:3])
    assert argv[6] == argv[2] == str(request_folder(made, asked) / "attempt-1" / "reply.json")
    assert found["files"] == ["weights.json"]
    assert not work.exists()


def test_a_harness_that_meddles_with_the_checkpoint_changes_only_its_own_copy(tmp_path: Path) -> None:
    made = context(tmp_path, "meddling")
    asked = request(made)
    measure(made, asked)
    assert (made.store.get_folder(checkpoint(made)) / "weights.json").read_text() == '{"layers": 1}'
    assert not (request_folder(made, asked) / "checkpoint").exists()


def test_progress_is_shown_as_numbers_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "go"
    monkeypatch.setenv("GO", str(go))
    made = context(tmp_path, "telling", environment=("GO",))
    made.status.listeners.append(lambda status: go.touch() if "3 of 70" in status.doing else None)
    assert len(measure(made, request(made))) == 4
    assert any(line.startswith("round 0: outside harness, 4 cells, 0:") for line in made.said)
    assert not any("gold" in line for line in made.said)


def test_an_invalid_cell_is_failed_and_missing_not_zero(tmp_path: Path) -> None:
    made = context(tmp_path, "one_invalid")
    *cells, report = evaluate(made, request(made, repeats=3))
    assert isinstance(cells[1], EvaluationCellFailed)
    assert (cells[1].reason, cells[1].detail, cells[1].task) == ("invalid", "the GPU was lost", "segmentation-lite")
    assert (report.cells, report.missing) == (5, 1)
    assert report.tracks[0].task == round((0.25 + 0.27) / 2, 4)


@pytest.mark.parametrize(
    ("name", "reason", "detail"),
    [
        ("crashing", "exit", "the command ended with exit code 3"),
        ("killed", "exit", "the command ended with signal 9"),
        ("silent", "no_output", "left no reply file"),
        ("pipe", "unreadable", "no plain file"),
        ("link", "unreadable", "cannot be opened"),
        ("folder", "unreadable", ""),
        ("huge_reply", "unreadable", "more than 16777216 bytes"),
        ("most_invalid", "too_few_cells", "segmentation has 1, vqa has 0, and each track needs 2"),
    ],
)
def test_a_run_that_ends_badly_is_tried_again_and_then_every_cell_has_failed(
    name: str, reason: str, detail: str, tmp_path: Path
) -> None:
    made = context(tmp_path, name, attempts=2)
    asked = request(made)
    message, drafts = given_up(made, asked)
    assert f"measured nothing in 2 attempts, the last: {reason}." in message
    assert str(request_folder(made, asked)) in message
    events = [draft.event for draft in drafts]
    assert [type(event) for event in events] == [EvaluationCellFailed] * 4
    assert {event.reason for event in events} == {f"harness_{reason}"}  # type: ignore[attr-defined]
    assert all(detail in event.detail for event in events)  # type: ignore[attr-defined]
    assert len({draft.id for draft in drafts}) == 4
    # Started again, it halts again at once: nothing runs, and nothing is said twice.
    put(made, drafts)
    begun = len(Attempts(request_folder(made, asked)).all())
    message_again, drafts_again = refused(made, asked)
    assert (message_again, drafts_again) == (message, [])
    assert len(Attempts(request_folder(made, asked)).all()) == begun == 2


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("garbage", "not UTF-8"),
        ("not_json", "not JSON"),
        ("empty_list", "must be an object"),
        ("wrong_checkpoint", "checkpoint: must be"),
        ("wrong_request", "request: must be"),
        ("half", "segmentation lacks repeat 0"),
    ],
)
def test_a_reply_that_is_not_what_was_asked_for_is_refused_and_not_tried_again(
    name: str, detail: str, tmp_path: Path
) -> None:
    made = context(tmp_path, name)
    asked = request(made)
    message, drafts = refused(made, asked)
    assert "measured nothing in 1 attempt, the last: refused." in message
    assert len(drafts) == 4
    assert all(detail in draft.event.detail for draft in drafts)  # type: ignore[attr-defined]
    assert refused(made, asked)[0] == message
    assert len(Attempts(request_folder(made, asked)).all()) == 1


def test_what_other_planes_see_holds_no_text_of_the_harness(tmp_path: Path) -> None:
    made = context(tmp_path, "crashing", attempts=2)
    asked = request(made)
    with pytest.raises(Retryable) as first:
        measure(made, asked)
    with pytest.raises(GivenUp) as last:
        measure(made, asked)
    (attempt, _) = Attempts(request_folder(made, asked)).all()
    assert "gold answer" in attempt.log.read_text()
    assert "gold" not in " ".join([str(first.value), str(last.value), *made.said])
    assert (request_folder(made, asked).stat().st_mode & 0o777, attempt.folder.stat().st_mode & 0o777) == (0o700, 0o700)


def test_once_the_folder_is_removed_it_is_measured_anew(tmp_path: Path) -> None:
    import shutil

    made = context(tmp_path, "silent", attempts=1)
    asked = request(made)
    _, drafts = given_up(made, asked)
    put(made, drafts)
    shutil.rmtree(request_folder(made, asked))
    command(tmp_path, "good")
    (tmp_path / "good.py").rename(tmp_path / "silent.py")
    *cells, report = evaluate(made, asked)
    assert {type(cell) for cell in cells} == {EvaluationCellScored}
    assert report.missing == 0
    ids = [fact.id for fact in made.facts]
    assert len(set(ids)) == len(ids)  # a cell that had failed and one that was scored are two events


def test_a_fault_that_passes_costs_one_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    made = context(tmp_path, "second_time", environment=("COUNT",))
    asked = request(made)
    with pytest.raises(Retryable, match="attempt 1 of 3: exit"):
        measure(made, asked)
    assert len(measure(made, asked)) == 4
    # Its transaction did not come to be: the same reply is read again, the harness is not run.
    assert len(measure(made, asked)) == 4
    assert (tmp_path / "count").read_text() == "xx"


def test_a_hanging_harness_is_ended_with_all_its_children(tmp_path: Path) -> None:
    made = context(tmp_path, "hanging", timeout_s=6.0, attempts=1)
    asked = request(made)
    message, drafts = given_up(made, asked)
    assert "the last: timeout" in message
    assert "ended after 6 s" in drafts[0].event.detail  # type: ignore[attr-defined]
    (attempt,) = Attempts(request_folder(made, asked)).all()
    children = [int(word) for word in attempt.log.read_text().split()]
    assert len(children) == 2
    assert not [pid for pid in children if running(pid)]
    assert any("outside harness, 4 cells, 0:0" in line for line in made.said)


def running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_harness_that_does_not_hear_is_ended_by_force(tmp_path: Path) -> None:
    made = context(tmp_path, "deaf", timeout_s=4.0, attempts=1)
    assert "timeout" in given_up(made, request(made))[0]


def test_what_a_harness_leaves_running_is_ended(tmp_path: Path) -> None:
    made = context(tmp_path, "leaving")
    assert len(measure(made, request(made))) == 4


def test_a_harness_is_stopped_with_its_service_and_that_is_no_attempt(tmp_path: Path) -> None:
    made = context(tmp_path, "hanging")
    asked = request(made)
    outside = OutsideHarness(made, grace_s=1.0)
    ended: list[BaseException] = []

    def work() -> None:
        try:
            outside.measure(asked)
        except Retryable as error:
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    log = request_folder(made, asked) / "attempt-1" / "log.txt"
    deadline = time.monotonic() + 60
    while not (log.exists() and log.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    outside.close()
    thread.join(30)
    assert "was stopped" in str(ended[0])
    assert not [pid for pid in map(int, log.read_text().split()) if running(pid)]
    assert Attempts(request_folder(made, asked)).used() == []


def test_what_a_killed_evaluator_left_running_is_ended_and_counts_as_tried(tmp_path: Path) -> None:
    import subprocess
    import sys

    made = context(tmp_path, "good", attempts=2)
    asked = request(made)
    attempts = Attempts(request_folder(made, asked))
    attempt = attempts.begin()
    owner = json.loads((attempt.folder / "run.json").read_text())
    (attempt.folder / "run.json").write_text(json.dumps({**owner, "created": 1.0}))  # its process is long gone
    orphan = subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(600)"],
        env={**os.environ, MARK: attempt.mark},
        start_new_session=True,
    )
    assert len(measure(made, asked)) == 4
    assert not running(orphan.pid)
    orphan.wait(10)
    assert [outcome.reason for _, outcome in attempts.used()] == ["interrupted"]


def test_a_run_of_another_evaluator_that_is_alive_is_left_alone(tmp_path: Path) -> None:
    made = context(tmp_path, "good")
    asked = request(made)
    attempt = Attempts(request_folder(made, asked)).begin()
    parent = psutil.Process(os.getppid())
    owner = json.loads((attempt.folder / "run.json").read_text())
    (attempt.folder / "run.json").write_text(json.dumps({**owner, "pid": parent.pid, "created": parent.create_time()}))
    with pytest.raises(Retryable, match="another evaluator"):
        measure(made, asked)


def test_a_log_without_end_is_cut_in_the_middle_and_the_reply_is_read(tmp_path: Path) -> None:
    made = context(tmp_path, "huge_log")
    asked = request(made)
    assert len(measure(made, asked)) == 4
    (attempt,) = Attempts(request_folder(made, asked)).all()
    text = attempt.log.read_text()
    assert len(text) < 1_100_000
    assert "bytes left out" in text
    assert text.endswith("last words")


def test_a_command_that_is_not_there_halts_at_once_and_is_no_attempt(tmp_path: Path) -> None:
    made = context(tmp_path, "good", command=("no-such-harness", "{checkpoint}", "{request}", "{output}"))
    asked = request(made)
    message, drafts = refused(made, asked)
    assert "'no-such-harness' is no program that can be run" in message
    assert drafts == []
    assert Attempts(request_folder(made, asked)).all() == []


def test_a_candidate_is_paired_with_the_comparators_outside_cells(tmp_path: Path) -> None:
    made = context(tmp_path, "good")
    evaluate(made, request(made))
    base = checkpoint(made)
    *_, report = evaluate(made, request(made, base))
    (pairing,) = report.comparators
    assert (pairing.comparator, pairing.complete, pairing.overall.n) == (base, True, 4)
    assert pairing.overall.mean == 0.0


@pytest.mark.parametrize("other", ["protocol", "episodes"])
def test_another_measurement_than_the_comparators_is_refused_before_it_is_made(other: str, tmp_path: Path) -> None:
    made = context(tmp_path, "good")
    asked = request(made)
    evaluate(made, asked)
    if other == "episodes":
        cells = [f for f in made.facts if isinstance(f.event, EvaluationCellScored)]
        made.facts = [fact_of(f.event.model_copy(update={"end": "final"}), campaign=CAMPAIGN) for f in cells]
    else:
        made.settings = load_settings(
            home=made.settings.home,
            namespace="t",
            evaluation=made.settings.evaluation.model_copy(update={"protocol": "lite/2"}),
        )
    again = request(made, checkpoint(made))
    message, drafts = refused(made, again)
    assert "go on as the campaign began, or begin another" in message
    assert drafts == []
    assert Attempts(request_folder(made, again)).all() == []


def test_the_documents_harness_and_its_examples_hold(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "external.md").read_text()
    blocks = [part.split("\n", 1) for part in text.split("```")[1::2]]
    (script,) = [body for kind, body in blocks if kind == "python"]
    asked_for, replied = [json.loads(body) for kind, body in blocks if kind == "json"]
    made = context(tmp_path, "good")
    (tmp_path / "good.py").write_text(script)
    asked = request(made)
    assert len(measure(made, asked)) == 4
    (attempt,) = Attempts(request_folder(made, asked)).all()
    assert set(json.loads(attempt.request.read_text())) == set(asked_for)
    example = Asked(
        request=replied["request"],
        checkpoint=replied["checkpoint"],
        protocol=replied["protocol"],
        tracks=(Track.VQA,),
        repeats=1,
    )
    (cell,) = read_reply(replied, example)
    assert isinstance(cell, MeasuredCell)
    assert cell.cell.failures == ("S3:E3",)
    for code, known in FAILURE_CODES.items():
        assert code in text or code in known, code
