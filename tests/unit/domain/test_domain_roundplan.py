"""The round plan: docs/rules.md."""

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bat_events.domain.balance import balanced_cycle
from bat_events.domain.bank import SourceCell, cell_order
from bat_events.domain.roundplan import (
    Demand,
    NotEnoughStates,
    PlannedState,
    PoolMix,
    plan_demand,
    plan_round,
    required_states,
)
from bat_events.domain.vocabulary import Focus, Outcome, Pool, Stage, Track

ALL = tuple(Track)
FULL = 378  # steps of a whole reference round


def spread(counts: Counter[object], of: Iterable[object]) -> int:
    found = [counts[one] for one in of]
    return max(found) - min(found)


def bank(need: dict[SourceCell, int], uses: int = 0) -> dict[Focus, list[PlannedState]]:
    found: dict[Focus, list[PlannedState]] = {focus: [] for focus in Focus}
    for cell, count in need.items():
        found[cell.focus] += [
            PlannedState(
                state=f"{cell.name}/{number}", focus=cell.focus, track=cell.track, outcome=cell.outcome, uses=uses
            )
            for number in range(count)
        ]
    return found


def pool_of(plan: Sequence[Sequence[Demand]], pool: Pool) -> list[SourceCell]:
    return [demand.cell for step in plan for demand in step if demand.pool is pool]


@pytest.fixture(scope="module")
def full() -> list[list[Demand]]:
    return plan_demand("c", 1, Stage.S3, FULL, tracks=ALL)


def test_a_full_round_has_the_published_totals(full: list[list[Demand]]) -> None:
    pools = Counter(demand.pool for step in full for demand in step)
    assert sum(pools.values()) == 3024
    assert pools == {Pool.S_TARGET: 1512, Pool.S_MIX: 756, Pool.E2E: 756}
    mixed = Counter(cell.focus for cell in pool_of(full, Pool.S_MIX))
    assert mixed == {Focus.S1: 189, Focus.S2: 189, Focus.S4: 189, Focus.S5: 189}


def test_a_full_round_is_exactly_balanced(full: list[list[Demand]]) -> None:
    assert set(Counter(pool_of(full, Pool.S_TARGET)).values()) == {72}
    assert set(Counter(pool_of(full, Pool.S_MIX)).values()) == {9}
    assert set(Counter(pool_of(full, Pool.E2E)).values()) == {36}
    cells = Counter(demand.cell for step in full for demand in step)
    assert len(cells) == 126


def test_every_step_has_the_published_mix(full: list[list[Demand]]) -> None:
    for step in full:
        assert Counter(demand.pool for demand in step) == {Pool.S_TARGET: 4, Pool.S_MIX: 2, Pool.E2E: 2}
        assert all(demand.cell.focus is Focus.S3 for demand in step if demand.pool is Pool.S_TARGET)
        assert all(demand.cell.focus is Focus.E2E for demand in step if demand.pool is Pool.E2E)


def test_the_mix_stages_alternate_pairwise(full: list[list[Demand]]) -> None:
    pairs = [{demand.cell.focus for demand in step if demand.pool is Pool.S_MIX} for step in full]
    assert pairs[0] | pairs[1] == {Focus.S1, Focus.S2, Focus.S4, Focus.S5}
    assert all(pair == pairs[number % 2] for number, pair in enumerate(pairs))


def test_every_prefix_of_every_pool_is_balanced(full: list[list[Demand]]) -> None:
    for pool in Pool:
        cells: Counter[object] = Counter()
        tracks: Counter[object] = Counter()
        outcomes: Counter[object] = Counter()
        drawn = pool_of(full, pool)
        # The order within a step is shuffled, so prefixes are taken at step ends.
        per_step = len(drawn) // FULL
        for place, cell in enumerate(drawn, start=1):
            cells[cell.track, cell.outcome] += 1
            tracks[cell.track] += 1
            outcomes[cell.outcome] += 1
            if place % per_step == 0:
                assert spread(cells, [(track, outcome) for track in ALL for outcome in Outcome]) <= 1
                assert spread(tracks, ALL) <= 1
                assert spread(outcomes, Outcome) <= 1


def test_every_prefix_of_every_mix_stage_is_balanced(full: list[list[Demand]]) -> None:
    for focus in (Focus.S1, Focus.S2, Focus.S4, Focus.S5):
        drawn = [cell for cell in pool_of(full, Pool.S_MIX) if cell.focus is focus]
        for end in range(len(drawn) + 1):
            assert spread(Counter(drawn[:end]), [c for c in cell_order(ALL) if c.focus is focus]) <= 1
            assert spread(Counter(cell.track for cell in drawn[:end]), ALL) <= 1


def test_a_round_of_fifty_steps_is_as_even_as_can_be(full: list[list[Demand]]) -> None:
    # Facts section 2: the reference's first 400 groups hold outcomes 137/135/128 and tracks 56 to 58.
    first = [demand.cell for step in full[:50] for demand in step]
    assert len(first) == 400
    assert spread(Counter(cell.outcome for cell in first), Outcome) <= 3
    assert spread(Counter(cell.track for cell in first), ALL) <= 3
    for pool, size in ((Pool.S_TARGET, 200), (Pool.S_MIX, 100), (Pool.E2E, 100)):
        drawn = pool_of(full[:50], pool)
        assert len(drawn) == size
        assert spread(Counter(cell.outcome for cell in drawn), Outcome) <= 1
        assert spread(Counter(cell.track for cell in drawn), ALL) <= 1


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("tracks", range(1, 8))
def test_a_cycle_holds_every_draw_once_and_every_prefix_is_balanced(tracks: int, lanes: int) -> None:
    cycle = balanced_cycle(tracks, 3, lanes)
    assert len(set(cycle)) == len(cycle) == tracks * 3 * lanes
    assert [draw.lane for draw in cycle] == [place % lanes for place in range(len(cycle))]
    cells = [(track, outcome) for track in range(tracks) for outcome in range(3)]
    outcome_limit = 2 if lanes == 4 and tracks in (2, 3) else 1
    for end in range(len(cycle) + 1):
        for lane in (None, *range(lanes)):
            drawn = [draw for draw in cycle[:end] if lane is None or draw.lane == lane]
            assert spread(Counter((d.track, d.outcome) for d in drawn), cells) <= 1
            assert spread(Counter(d.track for d in drawn), range(tracks)) <= 1
            assert spread(Counter(d.outcome for d in drawn), range(3)) <= outcome_limit


def test_a_cycle_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        balanced_cycle(0, 3, 4)


some_tracks = st.sets(st.sampled_from(Track), min_size=1).map(sorted)
mixes = st.builds(PoolMix, st.integers(0, 5), st.integers(0, 5), st.integers(1, 3))


@settings(max_examples=40)
@given(st.sampled_from(Stage), st.integers(0, 30), some_tracks, mixes, st.integers(1, 9))
def test_a_round_never_needs_more_than_the_bank_was_asked_for(
    target: Stage, steps: int, tracks: list[Track], mix: PoolMix, number: int
) -> None:
    demand = Counter(d.cell for step in plan_demand("c", number, target, steps, mix, tracks=tracks) for d in step)
    for wanted in (
        required_states(target, steps, mix, tracks=tracks),
        required_states(None, steps, mix, tracks=tracks),
    ):
        assert set(wanted) == set(cell_order(tracks))
        assert all(count <= wanted[cell] for cell, count in demand.items())
    plan = plan_round(
        "c",
        number,
        target,
        steps,
        mix,
        available=bank(required_states(None, steps, mix, tracks=tracks)),
        tracks=tracks,
    )
    assert [len(step) for step in plan] == [mix.size] * steps
    assert all([slot.slot for slot in step] == list(range(mix.size)) for step in plan)
    states = [slot.state.state for step in plan for slot in step]
    assert len(set(states)) == len(states)


def test_the_full_round_needs_what_it_draws() -> None:
    need = required_states(Stage.S3, FULL, tracks=ALL)
    assert {need[cell] for cell in need if cell.focus is Focus.S3} == {72}
    assert {need[cell] for cell in need if cell.focus is Focus.E2E} == {36}
    assert {need[cell] for cell in need if cell.focus is Focus.S1} == {9}
    assert sum(need.values()) == 3024
    whatever = required_states(None, FULL, tracks=ALL)
    assert {whatever[cell] for cell in whatever if cell.focus is not Focus.E2E} == {72}


def test_a_plan_is_the_same_however_the_states_arrived() -> None:
    tracks = (Track.SEGMENTATION, Track.ENHANCEMENT)
    states = bank(required_states(None, 6, tracks=tracks))
    turned = {focus: list(reversed(found)) for focus, found in reversed(states.items())}
    once = plan_round("c", 2, Stage.S2, 6, available=states, tracks=tracks)
    assert plan_round("c", 2, Stage.S2, 6, available=turned, tracks=tuple(reversed(tracks))) == once


def test_a_longer_round_begins_like_a_shorter_one() -> None:
    assert plan_demand("c", 1, Stage.S3, 60, tracks=ALL)[:50] == plan_demand("c", 1, Stage.S3, 50, tracks=ALL)


def test_rounds_campaigns_and_targets_are_ordered_differently() -> None:
    plans = [
        plan_demand(campaign, number, target, 10, tracks=ALL)
        for campaign, number, target in (("c", 1, Stage.S3), ("c", 2, Stage.S3), ("d", 1, Stage.S3), ("c", 1, Stage.S4))
    ]
    assert all(one != other for place, one in enumerate(plans) for other in plans[:place])


def test_each_cycle_of_a_pool_has_its_own_order() -> None:
    plan = plan_demand("c", 1, Stage.S3, 63, PoolMix(1, 0, 0), tracks=ALL)
    drawn = [step[0].cell for step in plan]
    assert set(drawn[:21]) == set(drawn[21:42]) == set(drawn[42:])
    assert drawn[:21] != drawn[21:42] != drawn[42:]


def test_slots_of_a_pool_stand_in_different_places_from_step_to_step(full: list[list[Demand]]) -> None:
    firsts = Counter(step[0].pool for step in full)
    assert 150 < firsts[Pool.S_TARGET] < 230
    assert 60 < firsts[Pool.E2E] < 130


def test_the_least_used_states_are_drawn_first() -> None:
    tracks = (Track.VQA,)
    need = required_states(Stage.S1, 3, tracks=tracks)
    fresh, worn = bank(need), bank({cell: count * 2 for cell, count in need.items()}, uses=1)
    available = {
        focus: [s for s in worn[focus] if s.state not in {f.state for f in fresh[focus]}] + fresh[focus]
        for focus in Focus
    }
    plan = plan_round("c", 1, Stage.S1, 3, available=available, tracks=tracks)
    assert {slot.state.uses for step in plan for slot in step} == {0}


def test_a_bank_that_is_short_is_named_and_counted() -> None:
    tracks = (Track.VQA,)
    available = bank(required_states(Stage.S1, 3, tracks=tracks))
    gone = available[Focus.E2E].pop()
    with pytest.raises(NotEnoughStates, match=f"{gone.cell.name} 1") as caught:
        plan_round("c", 1, Stage.S1, 3, available=available, tracks=tracks)
    assert caught.value.short == {gone.cell: 1}


def test_a_state_listed_twice_or_elsewhere_is_refused() -> None:
    state = PlannedState(state="s", focus=Focus.S1, track=Track.VQA, outcome=Outcome.SUCCESS)
    for available in ({Focus.S1: [state, state]}, {Focus.S2: [state]}):
        with pytest.raises(ValueError, match="twice or under another focus"):
            plan_round("c", 1, Stage.S1, 0, available=available, tracks=[Track.VQA])


@pytest.mark.parametrize("mix", [(-1, 2, 2), (0, 0, 0)])
def test_an_impossible_mix_is_refused(mix: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="pool mix"):
        PoolMix(*mix)


def test_a_round_without_tracks_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one track"):
        plan_demand("c", 1, Stage.S1, 1, tracks=[])
