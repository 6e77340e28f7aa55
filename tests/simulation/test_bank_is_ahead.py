"""The bank keeps one round ahead: in simulated time, no round waits for states while those of the next are made.

Waits are what the audit's own query `bank_wait` says of the log of a whole campaign.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar

import pytest

from bat_events.audit.file import AuditFile
from bat_events.audit.materialiser import Materialiser
from bat_events.audit.places import audit_path
from bat_events.audit.query import QueryLimits, answer
from bat_events.audit.run import list_queries
from bat_events.codec import Codec, Fact
from bat_events.deciders.bank import Bank
from bat_events.deciders.interface import Draft
from bat_events.domain.bank import BankSettings, StateRequest
from bat_events.domain.vocabulary import Track
from bat_events.events.plan import CampaignPlan, EvaluationPlan, PoolSizes
from bat_events.events.promotion import TargetStagePrescribed
from bat_events.events.rounds import RoundPlanned
from bat_events.log.interface import Record
from tests.simulation.timed_campaign import CAMPAIGN, Seconds, TimedCampaign

PLAN = CampaignPlan(
    tracks=(Track.SEGMENTATION,),
    rounds=3,
    steps_per_round=3,
    group_size=2,
    seed=3,
    pools=PoolSizes(s_target=2, s_mix=1, e2e=1),
    evaluation=EvaluationPlan(repeats=4),
)
Rows = list[dict[str, Any]]
Waits = Callable[[Sequence[Record]], Rows]


class OnDemandBank(Bank):
    """A bank with a watermark of 0: it asks for a round's states when the round's target is known, and not before."""

    inputs: ClassVar[tuple[str, ...]] = (*Bank.inputs, "curriculum")
    settings: ClassVar[BankSettings] = BankSettings(rounds_ahead=0, max_uses=1)

    def __init__(self, campaign: str) -> None:
        super().__init__(campaign)
        self._prescribed: dict[int, Any] = {}

    def apply(self, fact: Fact) -> None:
        super().apply(fact)
        if isinstance(fact.event, TargetStagePrescribed):
            self._prescribed[fact.event.round] = None

    def _requests(self, plan: CampaignPlan, refused: set[StateRequest]) -> list[Draft]:
        planned, self._planned = self._planned, self._prescribed
        try:
            return super()._requests(plan, refused)
        finally:
            self._planned = planned


class NeverAheadBank(Bank):
    """The real bank with nothing kept beyond what is planned: the first plan already lacks its states."""

    settings: ClassVar[BankSettings] = BankSettings(rounds_ahead=0, max_uses=1)


@pytest.fixture(scope="module")
def waits(tmp_path_factory: pytest.TempPathFactory) -> Waits:
    """waits(records) -> the rows of the audit's query."""
    query = next(query for query in list_queries() if query.name == "bank_wait")
    materialiser = Materialiser(codec=Codec(), now=lambda: datetime(2026, 1, 2, tzinfo=UTC))

    def ask(records: Sequence[Record]) -> Rows:
        file = AuditFile(audit_path(tmp_path_factory.mktemp("audit"), "timed"), "timed")
        try:
            materialiser.take(file.writer, records)
            with file.cursor() as cursor:
                return answer(cursor, query.sql, {"campaign": CAMPAIGN}, QueryLimits(), "file").dicts()
        finally:
            file.close()

    return ask


@cache
def campaign(*, bank: type[Bank] = Bank, synthesis: float = 1.0) -> tuple[Record, ...]:
    """The log of a campaign whose states take so many seconds each."""
    return tuple(TimedCampaign(PLAN, Seconds(synthesis=synthesis), bank=bank).run())


def after_the_first(rows: Rows) -> Rows:
    assert [row["round"] for row in rows] == list(range(1, PLAN.rounds + 1))
    return rows[1:]


def lasting(records: Sequence[Record]) -> list[tuple[str, int | None, float]]:
    """What training and evaluation did from the first plan on, and how many seconds after it."""
    codec = Codec()
    facts = [codec.decode(record) for record in records if record.topic in ("round", "training", "boundary.report")]
    begun = next(f.envelope.time for f in facts if isinstance(f.event, RoundPlanned) and f.event.round == 1)
    found = [
        (fact.envelope.type, fact.envelope.round, (fact.envelope.time - begun).total_seconds())
        for fact in facts
        if fact.envelope.time >= begun
    ]
    return sorted(found, key=lambda each: (each[2], each[0], each[1] or 0))


def test_no_round_waits_for_the_bank_while_the_states_of_the_next_are_made(waits: Waits) -> None:
    rows = waits(campaign())
    assert [row["bank_wait_s"] for row in rows] == [0.0] * PLAN.rounds
    assert [row["wait_s"] for row in rows] == [0.0] * PLAN.rounds  # nor does the planner wait for anything else
    for row in rows[:-1]:  # after the last round there is none to make states for
        assert row["made_meanwhile"] > row["states_drawn"]
    assert all(row["ahead_s"] > 0 for row in rows)


def test_making_states_takes_no_second_of_training(waits: Waits) -> None:
    """Every plan, step, checkpoint and report comes exactly when it would if states cost no time at all."""
    assert all(row["made_meanwhile"] for row in waits(campaign())[:-1])
    assert lasting(campaign()) == lasting(campaign(synthesis=0.0))


@pytest.mark.parametrize("bank", [Bank, OnDemandBank])
def test_waits_are_seen_where_there_are_any(waits: Waits, bank: type[Bank]) -> None:
    """Synthesis far slower than a round, or a bank that begins when a round is prescribed."""
    records = campaign(bank=bank, synthesis=5.0 if bank is Bank else 1.0)
    for row in after_the_first(waits(records)):
        assert row["bank_wait_s"] > 0
        assert row["bank_wait_s"] == row["wait_s"]  # all of it is the bank's
        assert row["admitted_late"] > 0
    assert lasting(records) != lasting(campaign())


def test_a_bank_that_keeps_nothing_ahead_never_has_a_first_round(waits: Waits) -> None:
    (row,) = waits(campaign(bank=NeverAheadBank))
    assert (row["round"], row["wait_s"], row["bank_wait_s"]) == (1, None, None)
