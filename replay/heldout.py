"""Evaluation reports made again from held-out cells, for who has the right to those: an archive that was exported with them, or
the held-out auditor's login on Kafka.

Nothing else of replay reads a held-out topic, and this only where it is asked to. A report whose cells are not there is counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from bat_events.codec import Codec
from bat_events.deciders.report import cell_of, make_report
from bat_events.domain.evaluation import Cell
from bat_events.domain.minimum import TooFewCells
from bat_events.events.boundary import EvaluationReported
from bat_events.events.heldout import EvaluationCellScored
from bat_events.events.rounds import EvaluationRequested
from bat_events.log.cluster import Address
from bat_events.log.kafka_reader import KafkaReader
from bat_events.replay.differences import Difference, first_field
from bat_events.replay.facts import facts_of
from bat_events.replay.findings import Findings, Side
from bat_events.replay.line_facts import decoded
from bat_events.replay.lines import Line, line_of
from bat_events.replay.result import REPORTS, CheckResult, NotRecomputed, ReplayResult
from bat_events.replay.source import ReplayError, Source

_TYPES = ("CampaignStarted", "EvaluationRequested", "EvaluationReported")
_TOPICS = ("campaign", "round", "boundary.report")

_Cells = dict[str, dict[tuple[object, ...], Cell]]
"""Checkpoint -> cell key -> the first cell scored for it."""


@dataclass(frozen=True, kw_only=True)
class HeldoutCheck:
    """What came of it. `without_cells` counts reports that could not be made again."""

    checks: tuple[CheckResult, ...]
    differences: tuple[Difference, ...]
    without_cells: int


class HeldoutLog(Protocol):
    """Where held-out records come from."""

    @property
    def name(self) -> str:
        """What is read, for people."""
        ...

    def heldout_lines(self, topic: str) -> Iterator[Line]:
        """The lines of a held-out topic."""
        ...


class KafkaHeldout:
    """Held-out topics of a namespace, as its held-out auditor reads them. Raises AccessDenied where a login may not."""

    def __init__(self, address: Address, namespace: str) -> None:
        self.name = f"namespace {namespace}"
        self._address, self._namespace = address, namespace

    def heldout_lines(self, topic: str) -> Iterator[Line]:
        """See HeldoutLog."""
        reader = KafkaReader(bootstrap=self._address, namespace=self._namespace, topics=[topic], group="replay")
        try:
            yield from map(line_of, reader.rest())
        finally:
            reader.close()


def with_heldout(result: ReplayResult, source: Source, heldout: HeldoutLog) -> ReplayResult:
    """The result of a replay of `source`, its reports made again from held-out cells too.

    Raises ReplayError where there are none.
    """
    found = check_heldout(source, heldout, result.campaign, result.round)
    rest = tuple(part for part in result.not_recomputed if part.what != REPORTS)
    if found.without_cells:
        rest += (
            NotRecomputed(what=REPORTS, count=found.without_cells, why="cells of these evaluations are not there"),
        )
    differences = sorted((*result.differences, *found.differences), key=lambda d: (d.time, d.at or "", d.id))
    checks = (*result.checks, *found.checks)
    origin = None if result.origin is None else _without_reports(result.origin)
    return replace(result, checks=checks, differences=tuple(differences), not_recomputed=rest, origin=origin)


def _without_reports(copies: ReplayResult) -> ReplayResult:
    """The replay of a fork's copies, whose reports were made again, or counted, with the fork's own."""
    rest = tuple(part for part in copies.not_recomputed if part.what != REPORTS)
    origin = None if copies.origin is None else _without_reports(copies.origin)
    return replace(copies, not_recomputed=rest, origin=origin)


def check_heldout(source: Source, heldout: HeldoutLog, campaign: str, round_: int | None) -> HeldoutCheck:
    """Make every report again from the cells of its evaluation and of its comparators'."""
    facts = facts_of(source, campaign, _TYPES, _TOPICS)
    requests = {fact.id: fact.event for fact in facts if isinstance(fact.event, EvaluationRequested)}
    cells = _cells(source, heldout, campaign)
    findings, lacking = Findings(round=round_), 0
    for fact in facts:
        report = fact.event
        newer = source.judged is not None and fact.offset >= source.judged[(fact.topic, fact.partition)]
        if not isinstance(report, EvaluationReported) or not findings.wants(fact) or newer:
            continue
        request = requests.get(fact.envelope.cause)
        own = list(cells.get(report.checkpoint, {}).values())
        if request is None or len(own) < report.cells:
            lacking += 1
            continue
        findings.check(REPORTS, fact, list(_sides(report, request, own, cells)))
    return HeldoutCheck(checks=findings.results(), differences=tuple(findings.differences), without_cells=lacking)


def _cells(source: Source, heldout: HeldoutLog, campaign: str) -> _Cells:
    codec = Codec()
    for text in source.schemas():
        codec.learn(text)
    found: _Cells = {}
    for line in heldout.heldout_lines("heldout.cell"):
        if line.campaign != campaign:
            continue
        event = decoded(codec, line).event
        if isinstance(event, EvaluationCellScored):
            cell = cell_of(event)
            found.setdefault(event.checkpoint, {}).setdefault(cell.key, cell)
    if not found:
        raise ReplayError(
            f"{heldout.name} holds no held-out cells of {campaign}: export it with that right (docs/archive.md)"
        )
    return found


def _sides(report: EvaluationReported, request: EvaluationRequested, own: list[Cell], cells: _Cells) -> Iterator[Side]:
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
