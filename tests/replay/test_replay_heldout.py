"""Reports are made again from held-out cells where an archive holds them; without that right they are taken as recorded."""

from pathlib import Path

import pytest

from bat_events.codec import Fact
from bat_events.deciders.interface import Draft
from bat_events.events.boundary import EvaluationReported
from bat_events.events.heldout import CellStage, EvaluationCellScored
from bat_events.events.rounds import EvaluationRequested
from bat_events.log.interface import Record
from bat_events.replay import ArchiveSource, ReplayError, render, replay_campaign, with_heldout
from bat_events.replay.result import REPORTS
from bat_events.service.emit import outgoing
from tests.archive.logs import export
from tests.replay.loop import CAMPAIGN, PARTITIONS, PLAN, decode
from tests.replay.memory import falsify
from tests.replay.test_replay_scores import as_recorded
from tests.replay.workers import _cells


def cells_of(fact: Fact, offset: int) -> list[Record]:
    """What the evaluator of the synthetic campaign measured."""
    request: EvaluationRequested = fact.event  # type: ignore[assignment]
    found = []
    for number, cell in enumerate(_cells(request.checkpoint, request, PLAN)):
        event = EvaluationCellScored(
            checkpoint=request.checkpoint,
            round=request.round,
            track=cell.track,
            task=cell.task,
            repeat=cell.repeat,
            task_score=cell.task_score,
            stages=tuple(CellStage(stage=s, score=v, reached=s in cell.reached) for s, v in cell.stages.items()),
            failures=(),
            turns=1,
            end="final",
            evidence="ab" * 32,
        )
        draft = Draft(event=event, campaign=CAMPAIGN, cause=fact.id, ordinal=number, key=CAMPAIGN, round=request.round)
        out = outgoing(
            draft, source="bat/evaluator", logic="evaluator/1", time=fact.envelope.time, partitions=PARTITIONS
        )
        found.append(
            Record(
                topic=out.topic,
                partition=0,
                offset=offset + number,
                key=out.key,
                value=out.value,
                headers=out.headers,
                timestamp_ms=0,
            )
        )
    return found


@pytest.fixture
def with_cells(records: list[Record]) -> list[Record]:
    """The synthetic campaign with its held-out cells."""
    cells: list[Record] = []
    for fact in decode(records):
        if isinstance(fact.event, EvaluationRequested):
            cells += cells_of(fact, len(cells))
    return [*records, *cells]


def replay(records: list[Record], folder: Path, *, heldout: bool = True) -> ArchiveSource:
    export(records, folder, CAMPAIGN, heldout=heldout)
    return ArchiveSource(folder)


def test_every_report_is_made_again_from_its_cells(with_cells: list[Record], tmp_path: Path) -> None:
    source = replay(with_cells, tmp_path / "log")
    plain = replay_campaign(source, score_of=as_recorded)
    result = with_heldout(plain, source, source)
    assert (result.exit_code, plain.exit_code) == (0, 3), render(result)
    (check,) = [check for check in result.checks if check.name == REPORTS]
    assert (check.checked, check.holds) == (3, 3)
    assert result.not_recomputed == ()
    assert [(part.what, part.count) for part in plain.not_recomputed] == [(REPORTS, 3)]
    assert render(result).splitlines()[-1].endswith("decisions reproduced, and every score recomputed")


def test_a_changed_cell_shows_in_the_report_that_it_does_not_lead_to(with_cells: list[Record], tmp_path: Path) -> None:
    number = next(n for n, r in enumerate(with_cells) if r.topic == "heldout.cell")
    changed = falsify(with_cells[number], body={"task_score": 0.987})
    source = replay([*with_cells[:number], changed, *with_cells[number + 1 :]], tmp_path / "log")
    result = with_heldout(replay_campaign(source, score_of=as_recorded), source, source)
    assert result.exit_code == 1
    first = result.differences[0]
    assert first.type == "bat.EvaluationReported.v2"
    assert first.field == "overall"


def test_reports_without_cells_are_listed_and_the_code_is_3(with_cells: list[Record], tmp_path: Path) -> None:
    reports = [f.event for f in decode(with_cells) if isinstance(f.event, EvaluationReported)]
    kept = [r for r in with_cells if r.topic != "heldout.cell" or r.offset < len(with_cells)]
    last = max(r.offset for r in with_cells if r.topic == "heldout.cell")
    source = replay([r for r in kept if (r.topic, r.offset) != ("heldout.cell", last)], tmp_path / "log")
    result = with_heldout(replay_campaign(source, score_of=as_recorded), source, source)
    assert (result.exit_code, [(p.what, p.count) for p in result.not_recomputed]) == (3, [(REPORTS, 1)])
    assert len(reports) == 3
    assert render(result).splitlines()[-1].endswith("but not every score recomputed: see above (exit 3)")


def test_an_archive_without_that_right_has_none(with_cells: list[Record], tmp_path: Path) -> None:
    source = replay(with_cells, tmp_path / "log", heldout=False)
    with pytest.raises(ReplayError, match="holds no held-out cells"):
        with_heldout(replay_campaign(source, score_of=as_recorded), source, source)
