"""How far policies get that lack something: the bounds that make the benchmark worth learning.

bench/bounds.py prints the same figures from more instances.
"""

import numpy as np
import pytest

from bat_events.benchmark import bounds
from bat_events.benchmark.card import ATTRIBUTES
from bat_events.benchmark.mini import MiniBenchmark
from bat_events.domain.vocabulary import Split, Stage, Track

TRACKS = MiniBenchmark().tracks()


@pytest.mark.parametrize("track", TRACKS)
def test_an_expert_reaches_the_top(track: Track) -> None:
    assert bounds.mean_overall(bounds.expert, track, 6) >= 0.95


@pytest.mark.parametrize("track", TRACKS)
@pytest.mark.parametrize("stage", list(Stage))
def test_no_constant_choice_gets_far(track: Track, stage: Stage) -> None:
    _, best, blind = bounds.best_constant(track, stage, 30)
    assert best <= 0.45
    assert blind <= 0.27


def test_random_actions_stay_low_in_every_track() -> None:
    for policy in (bounds.random_choices, bounds.random_calls):
        by_track = [bounds.mean_overall(policy, track, 6) for track in TRACKS]
        assert max(by_track) <= 0.25, by_track


@pytest.mark.parametrize("attribute", list(ATTRIBUTES))
def test_no_attribute_can_be_done_without(attribute: str) -> None:
    assert np.mean([bounds.hidden(attribute, track, 4) for track in TRACKS]) <= 0.75


def test_answers_that_never_look_at_an_image_are_worth_little() -> None:
    for track in TRACKS:
        majority, blind = bounds.blind_task_scores(track, 12)
        assert 0.0 <= majority <= 0.6, track
        assert 0.0 <= blind <= 0.6, track


def test_blind_answers_come_from_practice_only() -> None:
    assert all(instance.key.split is Split.PRACTICE for track in TRACKS for instance in bounds._practice(track))
