"""The bank, followed: each cell stands at the first ordinal whose outcome is open; what lies below is decided and let go."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bat_events.deciders.bank import Bank, bank_need
from bat_events.deciders.interface import Draft, draft_of
from bat_events.deciders.old.bank import BankV1
from bat_events.domain.bank import SourceCell, supply
from bat_events.domain.compact import Table
from bat_events.domain.grouping import state_id
from bat_events.events.bank import (
    LeakageVerdict,
    StateAdmitted,
    StateRefused,
    StateSynthesized,
    SynthesisFailed,
)
from bat_events.events.fact import Fact
from bat_events.events.plan import CampaignPlan
from bat_events.events.rounds import RoundPlanned
from bat_events.frozen import filled_event


@dataclass(slots=True)
class _Verdict:
    """A verdict that waits for its turn: its id, and what a cleared state is admitted with."""

    id: str
    state: str
    body: str | None  # None: not cleared


@dataclass(slots=True)
class _Cell:
    """One cell: everything below `frontier` is decided. `made` and `open` hold ordinals from there on."""

    number: int
    frontier: int = 0
    rank: int = 0
    requested: int = 0
    lost: int = 0  # rejected, failed or refused
    changed: bool = True
    open: dict[int, _Verdict | None] = field(default_factory=dict)  # None: its synthesis failed
    made: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)
    originals: Table = field(default_factory=lambda: Table(33, 4))  # what is an admitted state's own -> its ordinal


class BankFollower(Bank):
    """See the module. `required` and `state` are the decider's, not the follower's."""

    _waits_for_states = True
    _retires = True

    def __init__(self, campaign: str) -> None:
        super().__init__(campaign)
        self._early: list[Fact] | None = []  # facts folded before the campaign's start
        self._grid: dict[SourceCell, _Cell] = {}
        self._need: dict[SourceCell, int] = {}
        self._rounds: set[int] = set()
        self._supplied = -1  # rounds for which requests were counted
        self._stocked: dict[SourceCell, int] = {}  # requests of each cell if none were lost
        self._used: set[bytes] = set()
        self._changed: set[SourceCell] = set()
        self._retire: list[Draft] = []

    def apply(self, fact: Fact) -> None:
        """See Follower.apply."""
        event = fact.event
        if type(event) is StateSynthesized or type(event) is LeakageVerdict or type(event) is SynthesisFailed:
            if self._early is None:
                self._outcome(fact.id, event)
            else:
                self._early.append(fact)
            return
        if type(event) is RoundPlanned:
            if self._early is None:
                self._planned_round(fact.id, event)
            else:
                self._early.append(fact)
            return
        self._controls.apply(fact)
        if self._early is not None and self._controls.plan is not None:
            self._begin(self._controls.plan)

    def fresh(self) -> Sequence[Draft]:
        """See Follower.fresh."""
        plan = self._controls.plan
        if plan is None or not self._controls.open:
            return []
        admissions = [
            draft for cell in sorted(self._changed, key=self._number) for draft in self._settle(cell, self._grid[cell])
        ]
        requests = self._wanted(plan)
        retirements, self._retire = self._retire, []
        self._changed.clear()
        return [*requests, *admissions, *retirements]

    def _number(self, cell: SourceCell) -> int:
        return self._grid[cell].number

    def _begin(self, plan: CampaignPlan) -> None:
        self._need = bank_need(plan)
        self._grid = {cell: _Cell(number) for number, cell in enumerate(self._need)}
        early, self._early = self._early or [], None
        for fact in early:
            self.apply(fact)

    def _planned_round(self, plan_id: str, planned: RoundPlanned) -> None:
        if planned.round in self._rounds:
            return
        self._rounds.add(planned.round)
        if not self._retires:
            return
        slots = [slot for step in planned.steps for slot in step.slots]
        for place, slot in enumerate(slots):
            used = bytes.fromhex(slot.state)
            if used not in self._used:  # max_uses is 1: the first use is the last
                self._used.add(used)
                self._retire.append(self._retirement(plan_id, planned.round, place, slot))

    def _outcome(self, fact_id: str, event: StateSynthesized | LeakageVerdict | SynthesisFailed) -> None:
        place = SourceCell(event.focus, event.track, event.outcome)
        cell = self._grid.get(place)
        if cell is None or event.ordinal < cell.frontier:
            return
        self._changed.add(place)
        if type(event) is StateSynthesized:
            if self._waits_for_states:
                own = (_key(b"p", event.own_prompt), _key(b"w", event.own_workspace))
                cell.made.setdefault(event.ordinal, own)
        elif type(event) is SynthesisFailed:
            if cell.open.get(event.ordinal, event) is not None:
                cell.lost += not _is_lost(cell.open.get(event.ordinal))
                cell.open[event.ordinal] = None
        elif type(event) is LeakageVerdict and event.ordinal not in cell.open:
            body = event.body if event.cleared else None
            cell.open[event.ordinal] = _Verdict(fact_id, event.state, body)
            cell.lost += body is None

    def _settle(self, place: SourceCell, cell: _Cell) -> list[Draft]:
        """Decide what can be decided of a cell, ordinal after ordinal."""
        found = []
        while cell.frontier in cell.open:
            ordinal = cell.frontier
            verdict = cell.open[ordinal]
            if verdict is not None and verdict.body is not None:
                if self._waits_for_states and ordinal not in cell.made:
                    break  # the state itself, without which there was no verdict, is still to be folded
                event = self._admission(place, cell, ordinal, verdict)
                found.append(draft_of(event, campaign=self._campaign, cause=verdict.id, ordinal=0, key=verdict.state))
            del cell.open[ordinal]
            cell.made.pop(ordinal, None)
            cell.frontier += 1
        return found

    def _admission(
        self, place: SourceCell, cell: _Cell, ordinal: int, verdict: _Verdict
    ) -> StateAdmitted | StateRefused:
        assert verdict.body is not None
        focus, track, outcome = place
        own = [key for key in cell.made.get(ordinal, ()) if key is not None]
        for key in own:
            original = cell.originals.get(key)
            if original is not None:
                cell.lost += 1
                first = state_id(self._campaign, *place, int.from_bytes(original))
                return StateRefused(
                    state=verdict.state,
                    focus=focus,
                    track=track,
                    outcome=outcome,
                    ordinal=ordinal,
                    reason="prompt" if key[:1] == b"p" else "workspace",
                    copy_of=first,
                )
        for key in own:
            cell.originals.put(key, ordinal.to_bytes(4))
        cell.rank += 1
        values = {
            "state": verdict.state,
            "focus": focus,
            "track": track,
            "outcome": outcome,
            "ordinal": ordinal,
            "rank": cell.rank - 1,
            "body": verdict.body,
        }
        return filled_event(StateAdmitted, values)

    def _wanted(self, plan: CampaignPlan) -> list[Draft]:
        """Requests up to the watermark that were not made before: lowest ordinals of all cells first."""
        cells: Iterable[SourceCell] = self._changed
        if self._supplied != len(self._rounds):
            self._supplied, cells = len(self._rounds), self._need
            self._stocked = supply(
                self._need,
                rounds_planned=self._rounds,
                rejected=(),
                total_rounds=plan.rounds,
                settings=self.settings,
            )
        found = []
        for place in cells:
            cell = self._grid[place]
            # Which requests were lost does not matter to their number, only how many.
            wanted = self._stocked[place] + min(cell.lost, self.settings.rejection_allowance)
            found += [(ordinal, cell.number, place) for ordinal in range(cell.requested, wanted)]
            cell.requested = max(cell.requested, wanted)
        return [self._request(place, number, ordinal, plan) for ordinal, number, place in sorted(found)]


class BankFollowerV1(BankFollower):
    """Of version 1: admits every cleared state, and retires none."""

    version = BankV1.version
    _waits_for_states = False
    _retires = False


def _key(part: bytes, own: str | None) -> bytes | None:
    return None if own is None else part + bytes.fromhex(own)


def _is_lost(verdict: _Verdict | None) -> bool:
    return verdict is not None and verdict.body is None
