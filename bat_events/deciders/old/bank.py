"""Version 1 of the bank: every cleared state is admitted, and none is retired."""

from collections.abc import Iterator
from typing import ClassVar

from bat_events.deciders.bank import Bank
from bat_events.deciders.interface import Draft
from bat_events.domain.bank import SourceCell
from bat_events.events.bank import StateAdmitted


class BankV1(Bank):
    """See the module. It was the planner of version 1 that kept used states out."""

    version: ClassVar[int] = 1

    def _admissions_of(self, cell: SourceCell) -> Iterator[Draft]:
        for rank, (verdict_id, verdict) in enumerate(self._cleared_in_order(cell)):
            event = StateAdmitted(
                state=verdict.state,
                focus=verdict.focus,
                track=verdict.track,
                outcome=verdict.outcome,
                ordinal=verdict.ordinal,
                rank=rank,
                body=verdict.body,
            )
            yield Draft(event=event, campaign=self._campaign, cause=verdict_id, ordinal=0, key=verdict.state)

    def _retirements(self) -> Iterator[Draft]:
        return iter(())
