"""The bank: asks for states one round ahead of the plan, admits cleared ones in order, retires those that were used.

Admission goes by ordinal within a cell: a state waits until every lower ordinal of its cell has its verdict. So which of
two near-copies is refused, and the ranks that the planner draws by, depend on what was found, never on when.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from bat_events.deciders.controls import Controls
from bat_events.deciders.interface import Draft, draft_of
from bat_events.domain.bank import BankSettings, SourceCell, StateRequest, cell_order, supply
from bat_events.domain.bank_copies import Originals
from bat_events.domain.grouping import state_id, state_seed
from bat_events.domain.roundplan import PoolMix, required_states
from bat_events.events.bank import (
    LeakageVerdict,
    StateAdmitted,
    StateRefused,
    StateRetired,
    StateSynthesized,
    SynthesisFailed,
    SynthesisRequested,
)
from bat_events.events.fact import Fact
from bat_events.events.plan import CampaignPlan
from bat_events.events.rounds import PlannedSlot, RoundPlanned
from bat_events.frozen import filled_event

_ORDINALS = 1 << 32  # a request's ordinal among its cause's events: cell number times this, plus the cell's ordinal


class Bank:
    """Folds plans, states and verdicts; requests synthesis, admits, refuses and retires states."""

    name: ClassVar[str] = "bank"
    version: ClassVar[int] = 2
    inputs: ClassVar[tuple[str, ...]] = ("campaign", "round", "bank.state", "bank.verdict")
    outputs: ClassVar[tuple[str, ...]] = ("bank.request", "bank.ready")
    settings: ClassVar[BankSettings] = BankSettings(rounds_ahead=1, max_uses=1)
    """A state is practised by one group in one round. A new number of uses is a new version of bank and planner."""

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign
        self._controls = Controls()
        self._planned: dict[int, tuple[str, RoundPlanned]] = {}
        self._made: dict[StateRequest, StateSynthesized] = {}
        self._verdicts: dict[StateRequest, tuple[str, LeakageVerdict]] = {}
        self._failed: set[StateRequest] = set()
        self._requested: dict[StateRequest, Draft] = {}  # derived, so no part of the state

    def apply(self, fact: Fact) -> None:
        """See Decider.apply."""
        self._controls.apply(fact)
        event = fact.event
        if isinstance(event, RoundPlanned):
            self._planned.setdefault(event.round, (fact.id, event))
        elif isinstance(event, StateSynthesized):
            self._made.setdefault(_request(event), event)
        elif isinstance(event, LeakageVerdict):
            self._verdicts.setdefault(_request(event), (fact.id, event))
        elif isinstance(event, SynthesisFailed):
            self._failed.add(_request(event))

    def state(self) -> Any:
        """See Decider.state."""
        return (
            self._controls,
            sorted(self._planned.items()),
            sorted(self._made.items(), key=lambda item: item[0]),
            sorted(self._verdicts.items()),
            sorted(self._failed),
        )

    def required(self) -> Sequence[Draft]:
        """Requests up to the watermark, what becomes of every cleared state whose turn has come, and retirements."""
        plan = self._controls.plan
        if plan is None or not self._controls.open:
            return []
        admissions = self._admissions(plan)
        refused = {_request(d.event) for d in admissions if isinstance(d.event, StateRefused)}
        return [*self._requests(plan, refused), *admissions, *self._retirements()]

    def _requests(self, plan: CampaignPlan, refused: set[StateRequest]) -> list[Draft]:
        need = bank_need(plan)
        rejected = self._failed | {request for request, (_, v) in self._verdicts.items() if not v.cleared} | refused
        wanted = supply(
            need,
            rounds_planned=self._planned,
            rejected=rejected,
            total_rounds=plan.rounds,
            settings=self.settings,
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
            self._requested[request] = self._request(cell, number, ordinal, plan)
        return self._requested[request]

    def _request(self, cell: SourceCell, number: int, ordinal: int, plan: CampaignPlan) -> Draft:
        """The request of a cell's `ordinal`-th state; `number` is the cell's place in the grid."""
        assert self._controls.started_id is not None
        state = state_id(self._campaign, cell.focus, cell.track, cell.outcome, ordinal)
        values = {
            "state": state,
            "focus": cell.focus,
            "track": cell.track,
            "outcome": cell.outcome,
            "ordinal": ordinal,
            "seed": state_seed(plan.seed, state),
        }
        return draft_of(
            filled_event(SynthesisRequested, values),
            campaign=self._campaign,
            cause=self._controls.started_id,
            ordinal=number * _ORDINALS + ordinal,
            key=state,
        )

    def _admissions(self, plan: CampaignPlan) -> list[Draft]:
        return [draft for cell in cell_order(plan.tracks) for draft in self._admissions_of(cell)]

    def _admissions_of(self, cell: SourceCell) -> Iterator[Draft]:
        originals, rank = Originals(), 0
        for verdict_id, verdict in self._cleared_in_order(cell):
            made = self._made.get(_request(verdict))
            if made is None:
                return  # the state itself, without which there was no verdict, is still to be folded
            original = originals.admit(verdict.state, prompt=made.own_prompt, workspace=made.own_workspace)
            event: StateAdmitted | StateRefused
            if original is None:
                event = StateAdmitted(**_place(verdict), rank=rank, body=verdict.body)
                rank += 1
            else:
                event = StateRefused(**_place(verdict), reason=original.part, copy_of=original.state)
            yield Draft(event=event, campaign=self._campaign, cause=verdict_id, ordinal=0, key=verdict.state)

    def _cleared_in_order(self, cell: SourceCell) -> Iterator[tuple[str, LeakageVerdict]]:
        """The cleared states of a cell, up to the first ordinal of which it is not known what became of it."""
        ordinal = 0
        while (request := StateRequest(cell, ordinal)) in self._failed or request in self._verdicts:
            ordinal += 1
            if request not in self._failed and self._verdicts[request][1].cleared:
                yield self._verdicts[request]

    def _retirements(self) -> Iterator[Draft]:
        uses: Counter[str] = Counter()
        for number, (plan_id, planned) in sorted(self._planned.items(), key=lambda item: item[0]):
            slots = [slot for step in planned.steps for slot in step.slots]
            for place, slot in enumerate(slots):
                uses[slot.state] += 1
                if uses[slot.state] != self.settings.max_uses:
                    continue
                yield self._retirement(plan_id, number, place, slot)

    def _retirement(self, plan_id: str, number: int, place: int, slot: PlannedSlot) -> Draft:
        values = {
            "state": slot.state,
            "focus": slot.focus,
            "track": slot.track,
            "outcome": slot.outcome,
            "round": number,
            "uses": self.settings.max_uses,
            "reason": "used_up",
        }
        event = filled_event(StateRetired, values)
        return draft_of(event, campaign=self._campaign, cause=plan_id, ordinal=place, key=slot.state, round_=number)


def bank_need(plan: CampaignPlan) -> dict[SourceCell, int]:
    """How many states of each cell one round can draw at most, whatever its target."""
    return required_states(None, plan.steps_per_round, pool_mix(plan), tracks=plan.tracks)


def pool_mix(plan: CampaignPlan) -> PoolMix:
    """The plan's pool sizes as the domain's."""
    return PoolMix(target=plan.pools.s_target, mix=plan.pools.s_mix, e2e=plan.pools.e2e)


def _request(event: Any) -> StateRequest:
    """The request that an event of the bank belongs to."""
    return StateRequest(SourceCell(event.focus, event.track, event.outcome), event.ordinal)


def _place(verdict: LeakageVerdict) -> Mapping[str, Any]:
    return {name: getattr(verdict, name) for name in ("state", "focus", "track", "outcome", "ordinal")}
