"""The bank: given these plans, states and verdicts, then exactly these are asked for, admitted, refused and retired."""

from collections import Counter
from itertools import permutations

import pytest

from bat_events.codec import Fact
from bat_events.deciders.bank import Bank, bank_need
from bat_events.deciders.old.bank import BankV1
from bat_events.domain.bank import SourceCell
from bat_events.domain.vocabulary import Focus, Outcome, Track
from bat_events.events.bank import (
    LeakageVerdict,
    StateAdmitted,
    StateRefused,
    StateRetired,
    StateSynthesized,
    SynthesisFailed,
    SynthesisRequested,
)
from bat_events.events.rounds import RoundPlanned
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
OTHER = SourceCell(Focus.S4, Track.SEGMENTATION, Outcome.SUCCESS)
NEED = bank_need(PLAN)


def bank(*facts: object, kind: type[Bank] = Bank, **changes: object) -> Bank:
    """A bank that knows these facts; every state with a verdict was synthesised, each unlike the others."""
    bank = kind(CAMPAIGN)
    fold(bank, started(**changes), [made(n) for n in range(8)], [made(0, cell=OTHER)], *facts)  # type: ignore[arg-type]
    return bank


def made(ordinal: int, *, cell: SourceCell = CELL, prompt: str | None = "own", workspace: str | None = "own") -> Fact:
    """A state whose own prompt and workspace are these words; `own` is a word that no other state has."""
    word = f"{cell.name} {ordinal}"

    def own(part: str, text: str | None) -> str | None:
        return None if text is None else name(f"{part} {word if text == 'own' else text}")

    return told(
        StateSynthesized,
        state=name(word)[:32],
        focus=cell.focus,
        track=cell.track,
        outcome=cell.outcome,
        ordinal=ordinal,
        body=name(word),
        own_prompt=own("prompt", prompt),
        own_workspace=own("workspace", workspace),
    )


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


def wanted(decider: Bank) -> dict[SourceCell, list[int]]:
    """The ordinals asked for, per cell."""
    found: dict[SourceCell, list[int]] = {}
    for event in required(decider, SynthesisRequested):
        found.setdefault(SourceCell(event.focus, event.track, event.outcome), []).append(event.ordinal)
    return found


def admissions(decider: Bank) -> list[tuple[int, int]]:
    """(ordinal, rank) of CELL's admitted states."""
    return [(event.ordinal, event.rank) for event in required(decider, StateAdmitted) if event.focus is CELL.focus]


@pytest.mark.parametrize(("rounds_planned", "rounds_supplied"), [(0, 1), (1, 2), (2, 3), (3, 3)])
def test_the_bank_holds_states_for_one_round_more_than_is_planned_and_none_beyond_the_last(
    rounds_planned: int, rounds_supplied: int
) -> None:
    found = bank([planned(number + 1, "base") for number in range(rounds_planned)], rounds=3)
    assert wanted(found) == {cell: list(range(count * rounds_supplied)) for cell, count in NEED.items() if count}


def test_a_request_is_the_same_whenever_it_is_made() -> None:
    found = bank()
    before = {draft.id: draft.event for draft in found.required()}
    fold(found, planned(1, "base"), verdict(0, cleared=False))
    after = {draft.id: draft.event for draft in found.required()}
    assert before.items() < after.items()


def test_every_state_is_asked_for_once_and_lowest_ordinals_first() -> None:
    drafts = [d for d in bank(planned(1, "base")).required() if isinstance(d.event, SynthesisRequested)]
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
    found = bank(verdict(1), verdict(2))
    assert admissions(found) == []  # the lowest ordinal has no verdict yet
    found.apply(verdict(0))
    assert admissions(found) == [(0, 0), (1, 1), (2, 2)]


def test_what_is_rejected_or_could_not_be_made_takes_no_rank() -> None:
    facts = [verdict(0), verdict(1, cleared=False), synthesis_failed(2), verdict(3), verdict(5)]
    assert admissions(bank(facts)) == [(0, 0), (3, 1)]


def test_admissions_do_not_depend_on_the_order_of_verdicts() -> None:
    start = started()
    copy, unlike = made(3, prompt="a"), made(0, prompt="a")
    facts = [verdict(0), verdict(1, cleared=False), synthesis_failed(2), verdict(3), copy, unlike]
    found = []
    for order in permutations(facts):
        decider = Bank(CAMPAIGN)
        fold(decider, start, order)
        found.append([(draft.id, draft.event) for draft in decider.required()])
    assert all(one == found[0] for one in found)


def test_cells_do_not_wait_for_each_other() -> None:
    found = bank(verdict(1), verdict(0, cell=OTHER))
    assert [event.focus for event in required(found, StateAdmitted)] == [Focus.S4]


def test_the_admitted_body_is_the_one_that_was_checked() -> None:
    (event,) = required(bank(verdict(0)), StateAdmitted)
    assert event.body == name(f"{CELL.name} 0")


def test_a_paused_campaign_asks_for_no_states_until_it_is_resumed() -> None:
    found = bank(verdict(0), paused())
    assert found.required() == []
    found.apply(resumed())
    assert Counter(type(draft.event).__name__ for draft in found.required())["StateAdmitted"] == 1
    found.apply(cancelled())
    assert found.required() == []


def bare(*facts: object, kind: type[Bank] = Bank) -> Bank:
    """A bank that knows nothing but these facts."""
    decider = kind(CAMPAIGN)
    fold(decider, started(), *facts)  # type: ignore[arg-type]
    return decider


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({"prompt": "a"}, {"prompt": "a"}, "prompt"),
        ({"workspace": "w"}, {"workspace": "w"}, "workspace"),
        ({"prompt": "a", "workspace": "w"}, {"prompt": "a", "workspace": "w"}, "prompt"),
        ({"prompt": None, "workspace": "w"}, {"prompt": None, "workspace": "w"}, "workspace"),
    ],
)
def test_a_near_copy_of_an_admitted_state_is_refused_and_replaced(
    first: dict[str, str | None], second: dict[str, str | None], reason: str
) -> None:
    found = bare(made(0, **first), made(1, **second), made(2), verdict(0), verdict(1), verdict(2))
    (refusal,) = required(found, StateRefused)
    assert (refusal.ordinal, refusal.reason, refusal.copy_of) == (1, reason, name(f"{CELL.name} 0")[:32])
    assert admissions(found) == [(0, 0), (2, 1)]
    assert wanted(found)[CELL] == list(range(NEED[CELL] + 1))


def test_states_of_which_nothing_is_known_copy_nothing() -> None:
    unknown = [made(n, prompt=None, workspace=None) for n in range(2)]
    assert admissions(bare(unknown, verdict(0), verdict(1))) == [(0, 0), (1, 1)]


def test_a_copy_of_a_rejected_state_is_no_copy() -> None:
    same = [made(n, prompt="a") for n in range(3)]
    found = bare(same, verdict(0, cleared=False), verdict(1), verdict(2))
    assert admissions(found) == [(1, 0)]
    assert [event.copy_of for event in required(found, StateRefused)] == [name(f"{CELL.name} 1")[:32]]


def test_equal_states_of_two_cells_are_both_admitted() -> None:
    facts = [made(0, prompt="a"), made(0, prompt="a", cell=OTHER), verdict(0), verdict(0, cell=OTHER)]
    assert len(required(bare(facts), StateAdmitted)) == 2


def test_a_verdict_that_is_folded_before_its_state_waits_for_it() -> None:
    found = bare(verdict(0), verdict(1), made(1))
    assert admissions(found) == []
    found.apply(made(0))
    assert admissions(found) == [(0, 0), (1, 1)]


def test_the_states_of_a_planned_round_retire_once_each() -> None:
    one, two = planned(1, "base"), planned(2, "base")
    found = bank(one, two, two)
    for fact in (one, two):
        event: RoundPlanned = fact.event  # type: ignore[assignment]
        drafts = [d for d in found.required() if isinstance(d.event, StateRetired) and d.cause == fact.id]
        assert [d.key for d in drafts] == [slot.state for step in event.steps for slot in step.slots]
        assert {(d.round, d.event.round, d.event.uses) for d in drafts} == {(event.round, event.round, 1)}  # type: ignore[attr-defined]
    assert len(required(found, StateRetired)) == 12


def test_a_state_that_two_rounds_drew_retires_with_the_first_only() -> None:
    again = planned(1, "base")
    later = told(RoundPlanned, **{**dict(again.event), "round": 2})
    drafts = [d for d in bank(again, later).required() if isinstance(d.event, StateRetired)]
    assert {d.cause for d in drafts} == {again.id}


def test_version_1_admits_near_copies_and_retires_nothing() -> None:
    facts = [made(0, prompt="a"), made(1, prompt="a"), verdict(0), verdict(1), planned(1, "base")]
    found = bare(facts, kind=BankV1)
    assert admissions(found) == [(0, 0), (1, 1)]
    assert required(found, StateRefused) == required(found, StateRetired) == []
