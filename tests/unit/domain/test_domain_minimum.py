"""No number of a report is the score of one held-out cell."""

import pytest

from bat_events.domain.evaluation import Cell
from bat_events.domain.minimum import TooFewCells, check_report, enough, shortfall
from bat_events.domain.vocabulary import Stage, Track

S, V = Track.SEGMENTATION, Track.VQA


def cells(**counts: int) -> list[Cell]:
    return [
        Cell(
            track=Track(track),
            task="t",
            repeat=number,
            task_score=0.5,
            stages=dict.fromkeys(Stage, 0.5),
            reached=frozenset(Stage),
        )
        for track, count in counts.items()
        for number in range(count)
    ]


@pytest.mark.parametrize("counts", [{"segmentation": 2, "vqa": 2}, {"segmentation": 4}, {"vqa": 70}])
def test_two_cells_a_track_and_four_in_all_make_a_report(counts: dict[str, int]) -> None:
    check_report(cells(**counts), [Track(name) for name in counts])
    assert enough(cells(**counts))


@pytest.mark.parametrize(
    ("counts", "tracks", "words"),
    [
        ({"segmentation": 5, "vqa": 1}, [S, V], "vqa has 1, and each track needs 2"),
        ({"segmentation": 5}, [S, V], "vqa has 0, and each track needs 2"),
        ({"segmentation": 3}, [S], "there are 3 in all, and 4 are needed"),
        ({"segmentation": 1}, [S], "segmentation has 1, .* there are 1 in all"),
        ({}, [S], "without a scored cell"),
    ],
)
def test_fewer_are_refused_with_what_is_short(counts: dict[str, int], tracks: list[Track], words: str) -> None:
    with pytest.raises(TooFewCells, match=words):
        check_report(cells(**counts), tracks)


def test_a_shortfall_names_every_track_that_is_short() -> None:
    assert shortfall({S: 1, V: 1}) == (
        "segmentation has 1, vqa has 1, and each track needs 2; there are 2 in all, and 4 are needed"
    )
    assert shortfall({S: 2, V: 2}) is None
