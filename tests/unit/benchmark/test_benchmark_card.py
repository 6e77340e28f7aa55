"""The card and the protocol: two attributes decide each stage, and combinations that practice never shows."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from bat_events.benchmark.card import ATTRIBUTES, Card, choices, draw_card, right_choice, withheld
from bat_events.domain.vocabulary import Split, Stage

CARDS = [Card(*values) for values in product(*ATTRIBUTES.values())]


def draw(split: Split, count: int = 400) -> set[Card]:
    rng = np.random.default_rng(3)
    return {draw_card(split, rng) for _ in range(count)}


def test_practice_never_shows_a_withheld_combination() -> None:
    assert not any(withheld(card) for card in draw(Split.PRACTICE))


@pytest.mark.parametrize("split", [Split.HELDOUT, Split.CONFIRMATION])
def test_other_splits_show_combinations_that_practice_lacks(split: Split) -> None:
    new = [card for card in draw(split) if withheld(card)]
    assert len(new) > 20


def test_practice_shows_every_pair_of_values() -> None:
    seen = {
        (a, getattr(card, a), b, getattr(card, b))
        for card in draw(Split.PRACTICE, 1500)
        for a in ATTRIBUTES
        for b in ATTRIBUTES
    }
    wanted = {
        (a, x, b, y) for a in ATTRIBUTES for b in ATTRIBUTES if a != b for x in ATTRIBUTES[a] for y in ATTRIBUTES[b]
    }
    assert wanted <= seen


@pytest.mark.parametrize("stage", list(Stage))
def test_a_stage_needs_two_attributes(stage: Stage) -> None:
    matters = {
        name
        for name, values in ATTRIBUTES.items()
        for card in CARDS
        if len({right_choice(replace(card, **{name: value}), stage) for value in values}) > 1
    }
    assert len(matters) == 2


@pytest.mark.parametrize("stage", list(Stage))
def test_every_choice_of_a_stage_is_right_somewhere(stage: Stage) -> None:
    assert {right_choice(card, stage) for card in CARDS} == set(choices(stage))
    assert len(choices(stage)) == 12


def test_method_names_are_unique_over_the_stages() -> None:
    names = {choice.method for stage in Stage for choice in choices(stage)}
    assert len(names) == 20
