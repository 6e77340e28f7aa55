"""The bank: given these plans and verdicts, then exactly these states are asked for and admitted."""

from collections import Counter
from itertools import permutations

import pytest

from bat_events.codec import Fact
from bat_events.deciders.bank import Bank, bank_need
from bat_events.domain.bank import SourceCell
from bat_events.domain.vocabulary import Focus, Outcome, Track
from bat_events.events.bank import LeakageVerdict, StateAdmitted, SynthesisFailed, SynthesisRequested
from tests.support.campaigns import (
    CAMPAIGN,
    PLAN,
    cancelled,
    fold,
    name,
    paused,
    planned,
    required,
    resumed,
    started,
    told,
)

CELL = SourceCell(Focus.S3, Track.SEGMENTATION, Outcome.SUCCESS)
NEED = bank_need(PLAN)


def bank(*facts: object, **changes: object) -> Bank:
    made = Bank(CAMPAIGN)
    fold(made, started(**changes), *facts)  # type: ignore[arg-type]
    return made


def verdict(ordinal: int, *, cleared: bool = True, cell: SourceCell = CELL) -> Fact:
    word = f"{cell.name} {ordinal}"
    return told(
        LeakageVerdict,
        state=name(word)[:32],
        focus=cell.focus,
        track=cell.track,
        outcome=cell.outcome,
        ordinal=ordinal,
        body=name(word),
        cleared=cleared,
    )


def synthesis_failed(ordinal: int, cell: SourceCell = CELL) -> Fact:
    return told(SynthesisFailed, focus=cell.focus, track=cell.track, outcome=cell.outcome, ordinal=ordinal)


def wanted(made: Bank) -> dict[SourceCell, list[int]]:
    """The ordinals asked for, per cell."""
    found: dict[SourceCell, list[int]] = {}
    for event in required(made, SynthesisRequested):
        found.setdefault(SourceCell(event.focus, event.track, event.outcome), []).append(event.ordinal)
    return found


def admissions(made: Bank) -> list[tuple[int, int]]:
    """(ordinal, rank) of CELL's admitted states."""
    return [(event.ordinal, event.rank) for event in required(made, StateAdmitted) if event.focus is CELL.focus]


@pytest.mark.parametrize(("rounds_planned", "rounds_supplied"), [(0, 1), (1, 2), (2, 3), (3, 3)])
def test_the_bank_holds_states_for_one_round_more_than_is_planned_and_none_beyond_the_last(
    rounds_planned: int, rounds_supplied: int
) -> None:
    made = bank([planned(number + 1, "base") for number in range(rounds_planned)], rounds=3)
    assert wanted(made) == {cell: list(range(count * rounds_supplied)) for cell, count in NEED.items() if count}


def test_a_request_is_the_same_whenever_it_is_made() -> None:
    made = bank()
    before = {draft.id: draft.event for draft in made.required()}
    fold(made, planned(1, "base"), verdict(0, cleared=False))
    after = {draft.id: draft.event for draft in made.required()}
    assert before.items() < after.items()


def test_every_state_is_asked_for_once_and_lowest_ordinals_first() -> None:
    drafts = bank(planned(1, "base")).required()
    events = [draft.event for draft in drafts]
    assert len({draft.id for draft in drafts}) == len({event.state for event in events}) == len(drafts)  # type: ignore[attr-defined]
    ordinals = [event.ordinal for event in events]  # type: ignore[attr-defined]
    assert ordinals == sorted(ordinals)


@pytest.mark.parametrize("loss", [verdict(0, cleared=False), synthesis_failed(0)])
def test_a_state_that_is_lost_is_replaced_in_its_cell(loss: Fact) -> None:
    before, after = wanted(bank()), wanted(bank(loss))
    assert after.pop(CELL) == [*before.pop(CELL), NEED[CELL]]
    assert after == before


def test_a_state_rejected_twice_over_is_replaced_once() -> None:
    assert len(wanted(bank(verdict(0, cleared=False), verdict(0, cleared=False)))[CELL]) == NEED[CELL] + 1


def test_states_are_admitted_in_order_of_ordinal_with_ranks_without_gaps() -> None:
    made = bank(verdict(1), verdict(2))
    assert admissions(made) == []  # the lowest ordinal has no verdict yet
    made.apply(verdict(0))
    assert admissions(made) == [(0, 0), (1, 1), (2, 2)]


def test_what_is_rejected_or_could_not_be_made_takes_no_rank() -> None:
    facts = [verdict(0), verdict(1, cleared=False), synthesis_failed(2), verdict(3), verdict(5)]
    assert admissions(bank(facts)) == [(0, 0), (3, 1)]


def test_admissions_do_not_depend_on_the_order_of_verdicts() -> None:
    start = started()
    facts = [verdict(0), verdict(1, cleared=False), synthesis_failed(2), verdict(3)]
    found = []
    for order in permutations(facts):
        made = Bank(CAMPAIGN)
        fold(made, start, order)
        found.append([(draft.id, draft.event) for draft in made.required()])
    assert all(one == found[0] for one in found)


def test_cells_do_not_wait_for_each_other() -> None:
    other = SourceCell(Focus.S4, Track.SEGMENTATION, Outcome.SUCCESS)
    made = bank(verdict(1), verdict(0, cell=other))
    assert [event.focus for event in required(made, StateAdmitted)] == [Focus.S4]


def test_the_admitted_body_is_the_one_that_was_checked() -> None:
    (event,) = required(bank(verdict(0)), StateAdmitted)
    assert event.body == name(f"{CELL.name} 0")


def test_a_paused_campaign_asks_for_no_states_until_it_is_resumed() -> None:
    made = bank(verdict(0), paused())
    assert made.required() == []
    made.apply(resumed())
    assert Counter(type(draft.event).__name__ for draft in made.required())["StateAdmitted"] == 1
    made.apply(cancelled())
    assert made.required() == []
