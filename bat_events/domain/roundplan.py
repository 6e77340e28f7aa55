"""The plan of a round: which practice state stands in which slot of which step.

Every step holds 4 groups of the target stage, 2 of the other four stages (alternating pairwise from step to step) and
2 end to end (docs/rules.md). Each pool goes through its tracks and outcomes in a balanced order, so that a round cut
short, or a round of few steps, is as even as a full one. No state is used twice in a round.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bat_events.domain.balance import balanced_cycle
from bat_events.domain.bank import SourceCell, cell_order
from bat_events.domain.canonical import digest, shuffled
from bat_events.domain.lineage import root
from bat_events.domain.vocabulary import Focus, Outcome, Pool, Stage, Track


@dataclass(frozen=True)
class PoolMix:
    """Groups per step and pool; the default is the paper's."""

    target: int = 4
    mix: int = 2
    e2e: int = 2

    def __post_init__(self) -> None:
        if min(self.target, self.mix, self.e2e) < 0 or self.size == 0:
            raise ValueError(f"pool mix {self.target}/{self.mix}/{self.e2e}: no pool may be negative, nor all be empty")

    @property
    def size(self) -> int:
        """Groups per step."""
        return self.target + self.mix + self.e2e


@dataclass(frozen=True, kw_only=True)
class PlannedState:
    """An admitted practice state. `uses` counts earlier rounds that drew it: the least used are drawn first."""

    state: str
    focus: Focus
    track: Track
    outcome: Outcome
    uses: int = 0

    @property
    def cell(self) -> SourceCell:
        """The cell of the source grid that it belongs to."""
        return SourceCell(self.focus, self.track, self.outcome)


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One group's place in a step."""

    slot: int
    pool: Pool
    state: PlannedState


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What one slot asks for, before a state is chosen."""

    pool: Pool
    cell: SourceCell


class NotEnoughStates(ValueError):
    """The bank has fewer states than the round draws; `short` says how many are lacking, per cell."""

    def __init__(self, short: Mapping[SourceCell, int]) -> None:
        self.short = dict(short)
        lacking = ", ".join(f"{cell.name} {count}" for cell, count in sorted(self.short.items()))
        super().__init__(f"the bank lacks states for the round: {lacking}; wait until they are admitted")


def plan_round(
    campaign: str,
    round: int,
    target: Stage,
    steps: int,
    mix: PoolMix | None = None,
    *,
    available: Mapping[Focus, Sequence[PlannedState]],
    tracks: Sequence[Track],
) -> list[list[Slot]]:
    """The slots of every step, in slot order.

    Depends on the sets of `available` states and `tracks` only, not on their order. Raises NotEnoughStates where a
    cell runs out, ValueError on a state listed under another focus or twice.
    """
    demands = plan_demand(campaign, round, target, steps, mix, tracks=tracks)
    stock = _stock(campaign, round, available)
    short: dict[SourceCell, int] = {}
    plan: list[list[Slot]] = []
    for step in demands:
        slots: list[Slot] = []
        for place, demand in enumerate(step):
            states = stock.get(demand.cell)
            if states:
                slots.append(Slot(slot=place, pool=demand.pool, state=states.pop()))
            else:
                short[demand.cell] = short.get(demand.cell, 0) + 1
        plan.append(slots)
    if short:
        raise NotEnoughStates(short)
    return plan


def plan_demand(
    campaign: str, round: int, target: Stage, steps: int, mix: PoolMix | None = None, *, tracks: Sequence[Track]
) -> list[list[Demand]]:
    """What every slot of every step asks for, in slot order; needs no bank."""
    if steps < 0 or not tracks:
        raise ValueError(f"a round needs steps >= 0 and at least one track, not {steps} steps and {len(tracks)} tracks")
    mix = mix or PoolMix()
    order = [track for track in Track if track in tracks]
    seed = (root(campaign), round, target)
    others = shuffled([Focus(stage.value) for stage in Stage if stage is not target], *seed, "lanes")
    pools = [
        (Pool.S_TARGET, mix.target, _draws([Focus(target.value)], order, *seed, Pool.S_TARGET)),
        (Pool.S_MIX, mix.mix, _draws(others, order, *seed, Pool.S_MIX)),
        (Pool.E2E, mix.e2e, _draws([Focus.E2E], order, *seed, Pool.E2E)),
    ]
    plan: list[list[Demand]] = []
    for step in range(steps):
        demands = [Demand(pool=pool, cell=next(cells)) for pool, count, cells in pools for _ in range(count)]
        plan.append(shuffled(demands, *seed, "step", step))
    return plan


def required_states(
    target: Stage | None, steps: int, mix: PoolMix | None = None, *, tracks: Sequence[Track]
) -> dict[SourceCell, int]:
    """How many states of each cell a round can need at most; with target None, whatever its target turns out to be."""
    mix = mix or PoolMix()
    cells = cell_order(tracks)
    per_focus = len(cells) // len(Focus)
    others = len(Stage) - 1
    as_target = _ceil(mix.target * steps, per_focus)
    as_mix = _ceil(_ceil(mix.mix * steps, others), per_focus)
    as_e2e = _ceil(mix.e2e * steps, per_focus)

    def need(focus: Focus) -> int:
        if focus is Focus.E2E:
            return as_e2e
        if target is None:
            return max(as_target, as_mix)
        return as_target if focus.value == target.value else as_mix

    return {cell: need(cell.focus) for cell in cells}


def _draws(lanes: Sequence[Focus], tracks: Sequence[Track], *seed: str | int) -> Iterator[SourceCell]:
    """Endless draws of one pool: balanced cycles, each under its own shuffle of tracks and outcomes."""
    cycle = 0
    while True:
        tracks_now = shuffled(tracks, *seed, "tracks", cycle)
        outcomes_now = shuffled(Outcome, *seed, "outcomes", cycle)
        for lane, track, outcome in balanced_cycle(len(tracks), len(Outcome), len(lanes)):
            yield SourceCell(lanes[lane], tracks_now[track], outcomes_now[outcome])
        cycle += 1


def _stock(
    campaign: str, round: int, available: Mapping[Focus, Sequence[PlannedState]]
) -> dict[SourceCell, list[PlannedState]]:
    stock: dict[SourceCell, list[PlannedState]] = {}
    seen: set[str] = set()
    for focus, states in available.items():
        for state in states:
            if state.focus is not focus or state.state in seen:
                raise ValueError(f"state {state.state} ({state.focus}) is listed twice or under another focus, {focus}")
            seen.add(state.state)
            stock.setdefault(state.cell, []).append(state)
    for states in stock.values():
        # Popped from the end: least used first, and among those an order that no arrival order can change.
        states.sort(key=lambda state: (-state.uses, digest(["pick", root(campaign), round, state.state])))
    return stock


def _ceil(count: int, size: int) -> int:
    return -(-count // size)
