"""Scans the cold-start corpus before anything is trained on it: CorpusBuilt -> CorpusScanned.

Every row goes through the checks that practice states go through. One rejected row refuses the corpus: the trainer then
records TrainingFailed and trains nothing.
"""

from collections.abc import Mapping, Sequence

from bat_events.codec import Fact
from bat_events.consumers.leakage_gate import Checker, LeakageGate, Scanners
from bat_events.deciders.interface import Draft
from bat_events.domain.leakage import CHECKS, CheckResult, Scanner, cleared
from bat_events.domain.leakage.meaning import CHECK as MEANING
from bat_events.events.bank import LeakageCheck
from bat_events.events.corpus import CorpusBuilt, CorpusScanned
from bat_events.events.envelope import Cost
from bat_events.service.context import Context
from bat_events.service.measure import stopwatch

MAXIMUM_TOLD = 8  # findings of a check over the whole corpus
_SAY_EVERY = 200


class CorpusGate:
    """See the module."""

    name = LeakageGate.name
    version = LeakageGate.version
    topic = "training"
    outputs: tuple[str, ...] = ("bank.verdict",)

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scanners = Scanners(context)

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, CorpusBuilt)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """Run every check on every row."""
        built: CorpusBuilt = fact.event  # type: ignore[assignment]
        campaign = fact.envelope.campaign
        watch = stopwatch()
        scanner = self._scanners.of(campaign)
        rows = self._context.store.get_json(built.body)["rows"]
        rejected, checks = scan_rows(scanner, rows, self._context)
        event = CorpusScanned(
            corpus=built.corpus,
            body=built.body,
            rows=len(rows),
            rejected=rejected,
            cleared=bool(rows) and not rejected,
            checks=checks,
        )
        cost = Cost(wall_s=watch())
        return [Draft(event=event, campaign=campaign, cause=fact.id, ordinal=0, key=campaign, cost=cost)]


def scan_rows(
    scanner: Scanner | Checker, rows: Sequence[Mapping[str, object]], context: Context | None = None
) -> tuple[int, tuple[LeakageCheck, ...]]:
    """(rejected rows, each check over all rows): for SFT rows and for whatever a producer imports row by row."""
    found: dict[str, list[str]] = {}
    passed: tuple[CheckResult, ...] = ()
    rejected = 0
    for number, row in enumerate(rows):
        if context is not None and number % _SAY_EVERY == 0:
            context.status.say(f"checking the cold-start corpus, row {number} of {len(rows)}")
        results = scanner.check(row)
        if cleared(results):
            passed = passed or results
            continue
        rejected += 1
        for result in results:
            if not result.passed:
                found.setdefault(result.name, []).append(f"row {number}: {'; '.join(result.evidence)}")
    said = {result.name: "; ".join(result.evidence) for result in passed}
    return rejected, tuple(
        LeakageCheck(name=name, passed=name not in found, evidence=_told(found.get(name, [])) or said.get(name, ""))
        for name in (*CHECKS, *([MEANING] if MEANING in said or MEANING in found else []))
    )


def _told(findings: Sequence[str]) -> str:
    more = len(findings) - MAXIMUM_TOLD
    return "; ".join([*findings[:MAXIMUM_TOLD], *([f"and {more} more rows"] if more > 0 else [])])
