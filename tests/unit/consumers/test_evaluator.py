"""The held-out plane's workers: what crosses the boundary is rounded numbers and keyed hashes, and missing is not zero."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from fake_runtime import FakeEngines, FakeLogContext, FakePool

from bat_events.benchmark.interface import Evidence, Grade, TaskKey
from bat_events.benchmark.mini import MiniBenchmark
from bat_events.codec import Fact
from bat_events.consumers.evaluator import Evaluator, heldout_tasks
from bat_events.deciders.report import cell_of, make_report
from bat_events.domain.minimum import TooFewCells
from bat_events.domain.rubric import NEWEST
from bat_events.domain.vocabulary import FailureCode, Stage, Track
from bat_events.events.boundary import EvaluationReported
from bat_events.events.heldout import CellStage, EvaluationCellFailed, EvaluationCellScored
from bat_events.events.plan import EpisodeLimits, EvaluationPlan
from bat_events.events.rounds import EvaluationRequested
from bat_events.service.engines import Engines
from bat_events.service.runtime import Retryable
from tests.support.campaigns import CAMPAIGN, PLAN, cells, name, started, told
from tests.support.samples import fact as fact_of
from tests.support.samples import sample

SMALL = PLAN.model_copy(
    update={"evaluation": EvaluationPlan(repeats=5), "limits": EpisodeLimits(max_response_tokens=100_000)}
)


def request(checkpoint: str = "base", *comparators: str, repeats: int = 5) -> Fact:
    return told(
        EvaluationRequested,
        round=len(comparators),
        checkpoint=name(checkpoint),
        comparators=tuple(name(word) for word in comparators),
        tracks=(Track.SEGMENTATION,),
        repeats=repeats,
    )


def evaluate(
    context: FakeLogContext, pool: FakePool, asked: Fact
) -> tuple[list[EvaluationCellScored | EvaluationCellFailed], EvaluationReported]:
    """The events of one evaluation; its cells are then on the fake log."""
    drafts = Evaluator(context, cast(Engines, FakeEngines(pool))).handle(asked)
    assert len({draft.id for draft in drafts}) == len(drafts)
    found: Any = [draft.event for draft in drafts]
    context.facts += [fact_of(d.event, ordinal=d.ordinal, cause=d.cause, campaign=d.campaign) for d in drafts]
    return found[:-1], found[-1]


def numbers(value: object) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from numbers(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from numbers(part)


def report(own: list[Any], others: dict[str, list[Any]] | None = None, repeats: int = 4) -> EvaluationReported:
    return make_report(request(repeats=repeats).event, own, others or {})  # type: ignore[arg-type]


def test_every_number_that_crosses_is_rounded_to_four_digits() -> None:
    own, other = cells(1 / 3, stages={Stage.S2: 2 / 7}), cells(1 / 7)
    made = report(own, {name("b"): other})
    found = list(numbers(json.loads(made.model_dump_json())))
    assert len(found) > 20
    assert [number for number in found if number != round(number, 4)] == []
    assert made.task == 0.3333
    assert made.comparators[0].task.mean == 0.1905


def test_cells_that_are_not_there_are_counted_as_missing() -> None:
    made = report(cells(0.5, SMALL)[:4], repeats=5)
    assert (made.cells, made.missing, made.overall) == (4, 1, 0.5)


def test_a_comparator_without_any_cell_is_left_out() -> None:
    assert report(cells(0.5), {name("b"): []}).comparators == ()


def test_a_comparator_with_other_cells_is_no_complete_pairing() -> None:
    made = report(cells(0.5, SMALL), {name("b"): cells(0.5, SMALL)[:4]}, repeats=5)
    assert [(part.complete, part.overall.n) for part in made.comparators] == [(False, 4)]


def test_a_comparator_that_shares_too_few_cells_to_tell_of_is_left_out() -> None:
    for few in (1, 3):
        assert report(cells(0.5), {name("b"): cells(0.5)[:few]}).comparators == ()
    two = PLAN.model_copy(update={"tracks": (Track.SEGMENTATION, Track.VQA)})
    one_in_a_track = cells(0.5, two)[:5]
    made = make_report(
        request().event.model_copy(update={"tracks": two.tracks, "repeats": 4}),  # type: ignore[arg-type]
        cells(0.5, two),
        {name("b"): one_in_a_track, name("c"): cells(0.5, two)[:6]},
    )
    assert [part.comparator for part in made.comparators] == [name("c")]


def test_comparing_with_cells_of_another_matrix_is_an_error() -> None:
    others = [replace(cell, task="another") for cell in cells(0.5)]
    with pytest.raises(ValueError, match="share no cell"):
        report(cells(0.5), {name("b"): others})


@pytest.mark.parametrize("few", [1, 2, 3])
def test_a_report_of_too_few_cells_is_refused(few: int) -> None:
    with pytest.raises(TooFewCells, match=f"there are {few} in all, and 4 are needed"):
        report(cells(0.5)[:few])


def test_a_report_in_which_a_track_has_a_single_cell_is_refused() -> None:
    two = PLAN.model_copy(update={"tracks": (Track.SEGMENTATION, Track.VQA)})
    asked: Any = request().event.model_copy(update={"tracks": two.tracks, "repeats": 4})
    with pytest.raises(TooFewCells, match="vqa has 1, and each track needs 2"):
        make_report(asked, cells(0.5, two)[:5], {})


def test_an_evaluation_that_lost_too_many_cells_is_tried_again_and_not_reported(tmp_path: Path) -> None:
    context = FakeLogContext.on(tmp_path, started(SMALL))
    with pytest.raises(Retryable, match="there are 3 in all, and 4 are needed"):
        evaluate(context, FakePool(None, None, "exited"), request())


def test_an_evaluation_without_any_cell_is_an_error_and_no_zero() -> None:
    with pytest.raises(ValueError, match="without a scored cell"):
        report([])


def test_a_cells_event_is_read_with_exactly_its_stages() -> None:
    event = sample(EvaluationCellScored).model_copy(
        update={
            "stages": (
                CellStage(stage=Stage.S1, score=0.5, reached=True),
                CellStage(stage=Stage.S2, score=0.0, reached=False),
            ),
            "failures": ("S1:E5", "S2:E3"),
        }
    )
    cell = cell_of(event)
    assert cell.applicable == {Stage.S1, Stage.S2}
    assert cell.reached == {Stage.S1}
    assert dict(cell.stages) == {Stage.S1: 0.5, Stage.S2: 0.0}
    assert cell.failed == {(Stage.S1, FailureCode.E5), (Stage.S2, FailureCode.E3)}


def test_failures_are_reported_as_counts_of_cells_in_closed_categories() -> None:
    first, second, *rest = cells(0.5)
    failing = [
        replace(first, failures=("S4:E2", "S1:E5", "S1:E5")),
        replace(second, failures=("S1:E5", "S1:E1")),
    ]
    counts = [(part.stage, part.code, part.cells) for part in report([*failing, *rest]).failures or ()]
    assert counts == [("S1", "E1", 1), ("S1", "E5", 2), ("S4", "E2", 1)]


def test_an_evaluation_without_failures_says_none_and_not_unknown() -> None:
    assert report(cells(0.5)).failures == ()


def test_a_failure_of_no_closed_category_stops_the_report_and_is_named() -> None:
    event = sample(EvaluationCellScored).model_copy(update={"failures": ("S1:E8",)})
    with pytest.raises(ValueError, match=r"'S1:E8': write STAGE:CODE, .* a code of E1, E2, E3, E4, E5"):
        cell_of(event)


def test_every_cell_is_measured_and_one_report_follows(tmp_path: Path) -> None:
    found, made = evaluate(FakeLogContext.on(tmp_path, started(SMALL)), FakePool("exited"), request())
    assert [type(event) for event in found] == [EvaluationCellScored] * 5
    assert [event.repeat for event in found] == [0, 1, 2, 3, 4]
    assert made.failures is not None
    recorded = Counter(text for event in found if isinstance(event, EvaluationCellScored) for text in event.failures)
    assert {f"{part.stage}:{part.code}": part.cells for part in made.failures} == recorded
    assert (made.checkpoint, made.cells, made.missing) == (name("base"), 5, 0)
    assert made.overall > 0.5  # the scripted actor always chooses right


def test_a_cell_that_the_sandbox_broke_is_missing_and_not_zero(tmp_path: Path) -> None:
    context = FakeLogContext.on(tmp_path, started(SMALL))
    found, made = evaluate(context, FakePool(None, "exited"), request())
    failed = [event for event in found if isinstance(event, EvaluationCellFailed)]
    assert [(event.reason, event.detail) for event in failed] == [("sandbox", "the disk is away")]
    assert (made.cells, made.missing) == (4, 1)


class ForgivingBenchmark(MiniBenchmark):
    """A benchmark whose grader does not look at breaches."""

    def grade(self, key: TaskKey, evidence: Evidence, *, rubric: int = NEWEST) -> Grade:
        return super().grade(key, replace(evidence, end="final"), rubric=rubric)


@pytest.mark.parametrize("kind", [MiniBenchmark, ForgivingBenchmark])
def test_a_breach_zeroes_the_whole_cell_whatever_the_grader_says(
    tmp_path: Path, kind: type[MiniBenchmark], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bat_events.consumers.evaluator.benchmark", lambda _: kind())
    pool = FakePool("breach", good_calls=3)
    found, made = evaluate(FakeLogContext.on(tmp_path, started(SMALL)), pool, request())
    for event in found:
        assert isinstance(event, EvaluationCellScored)
        assert event.end == "breach"
        assert event.task_score == 0.0
        assert {part.score for part in event.stages} == {0.0}
    assert (made.overall, made.task, made.agentic, made.missing) == (0.0, 0.0, 0.0, 0)
    assert made.failures  # what the grader saw is counted, also of cells that are worth nothing


def test_a_candidate_is_paired_with_the_comparators_first_cells_of_this_campaign(tmp_path: Path) -> None:
    context = FakeLogContext.on(tmp_path, started(SMALL))
    evaluate(context, FakePool("exited"), request("base"))
    first = [fact for fact in context.facts if isinstance(fact.event, EvaluationCellScored)]
    others = [fact.event.model_copy(update={"task_score": 0.0}) for fact in first]
    elsewhere = [fact_of(event, ordinal=number, campaign="another") for number, event in enumerate(others)]
    later = [fact_of(event, ordinal=100 + number, campaign=CAMPAIGN) for number, event in enumerate(others)]
    context.facts = [*elsewhere, *context.facts, *later]
    _, made = evaluate(context, FakePool("exited"), request("one", "base"))
    (pairing,) = made.comparators
    assert (pairing.comparator, pairing.complete, pairing.overall.n) == (name("base"), True, 5)
    assert pairing.task.mean == 0.0
    assert made.task > 0.5  # so that other cells would have given a difference


def test_held_out_evidence_stays_in_its_own_plane(tmp_path: Path) -> None:
    context = FakeLogContext.on(tmp_path, started(SMALL))
    (event, *_), _ = evaluate(context, FakePool("exited"), request())
    assert isinstance(event, EvaluationCellScored)
    assert context.heldout_store.has(event.evidence)
    assert not context.store.has(event.evidence)


def test_held_out_instances_follow_from_a_secret_of_this_home(tmp_path: Path) -> None:
    def seeds(home: str) -> list[int]:
        return [t.key.seed for t in heldout_tasks(FakeLogContext.on(tmp_path / home), SMALL, Track.SEGMENTATION, 2)]

    assert seeds("a") == seeds("a")
    assert not set(seeds("a")) & set(seeds("b"))
