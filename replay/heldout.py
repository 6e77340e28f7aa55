"""Evaluation reports made again from held-out cells, for who has the right to those: an archive that was exported with them.

Nothing else of replay reads a held-out topic, and this only where it is asked to. A report whose cells are not there is counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bat_events.codec import Codec
from bat_events.deciders.report import cell_of, make_report
from bat_events.domain.evaluation import Cell
from bat_events.domain.minimum import TooFewCells
from bat_events.events.boundary import EvaluationReported
from bat_events.events.heldout import EvaluationCellScored
from bat_events.events.rounds import EvaluationRequested
from bat_events.replay.archive import ArchiveSource
from bat_events.replay.differences import Difference, first_field
from bat_events.replay.facts import decoded, facts_of
from bat_events.replay.findings import Findings, Side
from bat_events.replay.result import CheckResult, NotRecomputed, ReplayResult
from bat_events.replay.source import ReplayError

NAME = "track, stage and Overall scores against held-out cells"
_TYPES = ("CampaignStarted", "EvaluationRequested", "EvaluationReported")
_TOPICS = ("campaign", "round", "boundary.report")

Cells = dict[str, dict[tuple[object, ...], Cell]]
"""Checkpoint -> cell key -> the first cell scored for it."""


@dataclass(frozen=True, kw_only=True)
class HeldoutCheck:
    """What came of it. `without_cells` counts reports that could not be made again."""

    checks: tuple[CheckResult, ...]
    differences: tuple[Difference, ...]
    without_cells: int


def with_heldout(result: ReplayResult, source: ArchiveSource) -> ReplayResult:
    """The result of a replay, its reports made again from held-out cells too.

    Raises ReplayError where the archive holds none.
    """
    found = check_heldout(source, result.campaign, result.round)
    taken = tuple(part for part in result.not_recomputed if not part.what.startswith("track and stage means"))
    if found.without_cells:
        why = "cells of these evaluations are not in the archive"
        taken += (NotRecomputed(what="track and stage means", count=found.without_cells, why=why),)
    differences = sorted((*result.differences, *found.differences), key=lambda d: (d.time, d.at or "", d.id))
    return replace(
        result,
        checks=(*result.checks, *found.checks),
        differences=tuple(differences),
        not_recomputed=taken,
        incomplete=found.without_cells,
    )


def check_heldout(source: ArchiveSource, campaign: str, round_: int | None) -> HeldoutCheck:
    """Make every report again from the cells of its evaluation and of its comparators'."""
    facts = facts_of(source, campaign, _TYPES, _TOPICS)
    requests = {fact.id: fact.event for fact in facts if isinstance(fact.event, EvaluationRequested)}
    cells = _cells(source, campaign)
    findings, lacking = Findings(round=round_), 0
    for fact in facts:
        report = fact.event
        if not isinstance(report, EvaluationReported) or not findings.wants(fact):
            continue
        request = requests.get(fact.envelope.cause)
        own = list(cells.get(report.checkpoint, {}).values())
        if request is None or len(own) < report.cells:
            lacking += 1
            continue
        findings.check(NAME, fact, list(_sides(report, request, own, cells)))
    return HeldoutCheck(checks=findings.results(), differences=tuple(findings.differences), without_cells=lacking)


def _cells(source: ArchiveSource, campaign: str) -> Cells:
    codec = Codec()
    for text in source.schemas():
        codec.learn(text)
    found: Cells = {}
    for line in source.heldout_lines("heldout.cell"):
        if line.campaign != campaign:
            continue
        event = decoded(codec, line).event
        if isinstance(event, EvaluationCellScored):
            cell = cell_of(event)
            found.setdefault(event.checkpoint, {}).setdefault(cell.key, cell)
    if not found:
        raise ReplayError(
            f"{source.name} holds no held-out cells of {campaign}: export it with that right (docs/archive.md)"
        )
    return found


def _sides(report: EvaluationReported, request: EvaluationRequested, own: list[Cell], cells: Cells) -> Iterator[Side]:
    comparators = {digest: list(cells.get(digest, {}).values()) for digest in request.comparators}
    try:
        made = make_report(request, own, comparators)
    except (TooFewCells, ValueError) as error:
        yield ("cells", report.cells, str(error))
        return
    left, right = report.model_dump(mode="json"), made.model_dump(mode="json")
    if report.failures is None:  # of version 1: not recorded
        right["failures"] = None
    yield first_field(left, right) or ("body", left, right)
