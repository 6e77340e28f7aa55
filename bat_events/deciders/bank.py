"""The bank: asks for states one round ahead of the plan, and admits cleared ones in order.

Admission goes by ordinal within a cell: a state waits until every lower ordinal of its cell has its verdict. So the
ranks that the planner draws by depend on what was found, never on when.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from bat_events.deciders.controls import Controls
from bat_events.deciders.interface import Draft
from bat_events.domain.bank import BankSettings, SourceCell, StateRequest, cell_order, supply
from bat_events.domain.grouping import state_id, state_seed
from bat_events.domain.roundplan import PoolMix, required_states
from bat_events.events.bank import LeakageVerdict, StateAdmitted, SynthesisFailed, SynthesisRequested
from bat_events.events.fact import Fact
from bat_events.events.plan import CampaignPlan
from bat_events.events.rounds import RoundPlanned

_ORDINALS = 1 << 32  # a request's ordinal among its cause's events: cell number times this, plus the cell's ordinal


class Bank:
    """Folds plans and verdicts; requests synthesis and admits states."""

    name: ClassVar[str] = "bank"
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[str, ...]] = ("campaign", "round", "bank.state", "bank.verdict")
    outputs: ClassVar[tuple[str, ...]] = ("bank.request", "bank.ready")

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign
        self._controls = Controls()
        self._planned: set[int] = set()
        self._verdicts: dict[StateRequest, tuple[str, LeakageVerdict]] = {}
        self._failed: set[StateRequest] = set()
        self._requested: dict[StateRequest, Draft] = {}  # derived, so no part of the state

    def apply(self, fact: Fact) -> None:
        """See Decider.apply."""
        self._controls.apply(fact)
        event = fact.event
        if isinstance(event, RoundPlanned):
            self._planned.add(event.round)
        elif isinstance(event, LeakageVerdict):
            self._verdicts.setdefault(_request(event), (fact.id, event))
        elif isinstance(event, SynthesisFailed):
            self._failed.add(_request(event))

    def state(self) -> Any:
        """See Decider.state."""
        return (self._controls, sorted(self._planned), sorted(self._verdicts.items()), sorted(self._failed))

    def required(self) -> Sequence[Draft]:
        """Requests up to the watermark, and admissions of every cleared state whose turn has come."""
        plan = self._controls.plan
        if plan is None or not self._controls.open:
            return []
        return [*self._requests(plan), *self._admissions(plan)]

    def _requests(self, plan: CampaignPlan) -> list[Draft]:
        need = bank_need(plan)
        rejected = self._failed | {request for request, (_, v) in self._verdicts.items() if not v.cleared}
        wanted = supply(
            need,
            rounds_planned=self._planned,
            rejected=rejected,
            total_rounds=plan.rounds,
            settings=BankSettings(rounds_ahead=1),
        )
        drafts = [
            self._request_of(cell, number, ordinal, plan)
            for number, (cell, count) in enumerate(wanted.items())
            for ordinal in range(count)
        ]
        drafts.sort(key=lambda draft: draft.ordinal % _ORDINALS)  # lowest ordinals of all cells first
        return drafts

    def _request_of(self, cell: SourceCell, number: int, ordinal: int, plan: CampaignPlan) -> Draft:
        request = StateRequest(cell, ordinal)
        if request not in self._requested:  # asked for again at every pass: hashing ids anew would cost most of it
            assert self._controls.started_id is not None
            state = state_id(self._campaign, cell.focus, cell.track, cell.outcome, ordinal)
            event = SynthesisRequested(
                state=state,
                focus=cell.focus,
                track=cell.track,
                outcome=cell.outcome,
                ordinal=ordinal,
                seed=state_seed(plan.seed, state),
            )
            self._requested[request] = Draft(
                event=event,
                campaign=self._campaign,
                cause=self._controls.started_id,
                ordinal=number * _ORDINALS + ordinal,
                key=state,
            )
        return self._requested[request]

    def _admissions(self, plan: CampaignPlan) -> list[Draft]:
        drafts = []
        for cell in cell_order(plan.tracks):
            ordinal = rank = 0
            while True:
                request = StateRequest(cell, ordinal)
                ordinal += 1
                if request in self._failed:
                    continue
                if request not in self._verdicts:
                    break
                verdict_id, verdict = self._verdicts[request]
                if not verdict.cleared:
                    continue
                event = StateAdmitted(
                    state=verdict.state,
                    focus=verdict.focus,
                    track=verdict.track,
                    outcome=verdict.outcome,
                    ordinal=verdict.ordinal,
                    rank=rank,
                    body=verdict.body,
                )
                rank += 1
                drafts.append(
                    Draft(event=event, campaign=self._campaign, cause=verdict_id, ordinal=0, key=verdict.state)
                )
        return drafts


def bank_need(plan: CampaignPlan) -> dict[SourceCell, int]:
    """How many states of each cell one round can draw at most, whatever its target."""
    return required_states(None, plan.steps_per_round, pool_mix(plan), tracks=plan.tracks)


def pool_mix(plan: CampaignPlan) -> PoolMix:
    """The plan's pool sizes as the domain's."""
    return PoolMix(target=plan.pools.s_target, mix=plan.pools.s_mix, e2e=plan.pools.e2e)


def _request(event: LeakageVerdict | SynthesisFailed) -> StateRequest:
    return StateRequest(SourceCell(event.focus, event.track, event.outcome), event.ordinal)
