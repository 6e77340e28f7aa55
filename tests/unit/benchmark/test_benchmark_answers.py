"""Lesions are found as scipy finds them, and answers follow the published rules."""

import numpy as np
import pytest
from scipy import ndimage

from bat_events.benchmark.skills.medskills import answers
from bat_events.benchmark.tracks import TRACKS
from bat_events.domain.vocabulary import Track


@pytest.mark.parametrize("share", [0.1, 0.4, 0.55, 0.7])
def test_lesions_are_the_connected_parts(share: float) -> None:
    mask = np.random.default_rng(4).random((32, 32)) < share
    labels, count = ndimage.label(mask)
    areas = [int((labels == n).sum()) for n in range(1, count + 1)]
    assert [found.area for found in answers.lesions(mask)] == sorted((a for a in areas if a >= 6), reverse=True)
    boxes = {(s[0].start, s[1].start, s[0].stop, s[1].stop) for s in ndimage.find_objects(labels)}
    assert all((found.top, found.left, found.bottom, found.right) in boxes for found in answers.lesions(mask))


def mask(*boxes: tuple[int, int, int, int]) -> np.ndarray:
    out = np.zeros((32, 32), dtype=np.uint8)
    for top, left, bottom, right in boxes:
        out[top:bottom, left:right] = 1
    return out


LARGE_AND_SMALL = mask((17, 2, 27, 7), (3, 20, 6, 24))


def test_answers_in_words() -> None:
    found = answers.lesions(LARGE_AND_SMALL)
    assert answers.label(found) == "lower left"
    assert [answers.reply(found, question) for question in answers.QUESTIONS] == ["C1", "1", "left", "rows"]
    assert answers.report(found) == (
        "Findings: large lesion in the lower left quadrant; small lesion in the upper right quadrant. "
        "Impression: 2 lesions."
    )


def test_nothing_found_is_said_so() -> None:
    found = answers.lesions(mask())
    assert (answers.label(found), answers.reply(found, "cell"), answers.boxes(found, np.zeros((32, 32)))) == (
        "none",
        "none",
        [],
    )
    assert answers.report(found) == "Findings: no lesion. Impression: 0 lesions."


@pytest.mark.parametrize(
    ("track", "value"),
    [
        (Track.CLASSIFICATION, "middle"),
        (Track.CLASSIFICATION, 3),
        (Track.DETECTION, "boxes"),
        (Track.DETECTION, [[1, 2, 3, 4]]),
        (Track.DETECTION, [[5, 2, 3, 4, 0.5]]),
        (Track.DETECTION, [[1, 2, 3, 40, 0.5]]),
        (Track.DETECTION, [[1, 2, 3, 4, float("nan")]]),
        (Track.DETECTION, [[1, 2, 3, 4, True]]),
        (Track.DETECTION, [[1, 2, 3, 4, 0.5]] * 65),
        (Track.VQA, ""),
        (Track.VQA, "x" * 41),
        (Track.VQA, None),
        (Track.REPORT, ""),
        (Track.REPORT, "x" * 601),
        (Track.REPORT, ["Findings"]),
    ],
)
def test_an_answer_out_of_format_is_none(track: Track, value: object) -> None:
    parse = TRACKS[track].parse
    assert parse is not None
    assert parse(value) is None
