"""The metrics agree with scikit-image and with hand-made cases."""

from collections import Counter

import numpy as np
import pytest
from skimage.metrics import structural_similarity
from sklearn.metrics import balanced_accuracy_score

from bat_events.benchmark.metrics import Box, average_precision, balanced_accuracy, dice, f1, overlap, rouge_l, ssim


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
def test_ssim_is_that_of_scikit_image(noise: float) -> None:
    rng = np.random.default_rng(5)
    truth = rng.random((32, 32))
    image = truth + noise * rng.standard_normal((32, 32))
    assert ssim(image, truth) == pytest.approx(max(structural_similarity(image, truth, data_range=1.0), 0.0), abs=1e-9)


def test_ssim_is_cut_at_zero() -> None:
    truth = np.random.default_rng(5).random((32, 32))
    assert ssim(1 - truth, truth) == 0.0


def test_dice() -> None:
    one, other, empty = np.zeros((4, 4)), np.zeros((4, 4)), np.zeros((4, 4))
    one[0], other[0, :2], other[1, :2] = 1, 1, 1
    assert dice(one, one) == 1.0
    assert dice(one, other) == 0.5
    assert dice(one, empty) == 0.0
    assert dice(empty, empty) == 1.0


def test_balanced_accuracy_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    truth = rng.choice(["a", "b", "c"], size=40, p=[0.6, 0.3, 0.1])
    answers = np.where(rng.random(40) < 0.6, truth, rng.choice(["a", "b", "c"], size=40))
    pairs = [(str(answer), str(true)) for answer, true in zip(answers, truth, strict=True)]
    assert balanced_accuracy(pairs) == pytest.approx(balanced_accuracy_score(truth, answers))
    assert balanced_accuracy([(None, "a"), ("b", "b")]) == 0.5


def box(top: float, left: float, side: float = 10, score: float = 1.0) -> Box:
    return Box(top, left, top + side, left + side, score)


def test_overlap() -> None:
    assert overlap(box(0, 0), box(0, 0)) == 1.0
    assert overlap(box(0, 0), box(0, 5)) == pytest.approx(50 / 150)
    assert overlap(box(0, 0), box(20, 20)) == 0.0


def test_average_precision_by_hand() -> None:
    truth = [box(0, 0), box(20, 20)]
    assert average_precision([(truth, truth)]) == 1.0
    assert average_precision([([], truth)]) == 0.0
    assert average_precision([([], [])]) == 1.0
    assert average_precision([([box(0, 0)], [])]) == 0.0
    # one of two found: precision 1 up to recall 0.5, which is 51 of the 101 points
    assert average_precision([([box(0, 0)], truth)]) == pytest.approx(51 / 101)
    # a false box before the right ones: precision 1/2 at recall 0.5, 2/3 at recall 1, made monotone
    found = [box(10, 0, score=0.9), box(0, 0, score=0.8), box(20, 20, score=0.7)]
    assert average_precision([(found, truth)]) == pytest.approx(2 / 3)
    # a second box on a lesion that is taken is false
    twice = [box(0, 0, score=0.9), box(0, 1, score=0.8)]
    assert average_precision([(twice, [box(0, 0), box(20, 20)])]) == pytest.approx(51 / 101)


def test_average_precision_ranks_over_all_images() -> None:
    sure, unsure = box(0, 0, score=0.9), box(0, 0, score=0.1)
    right, wrong = [box(0, 0)], [box(20, 20)]
    assert average_precision([([sure], right), ([unsure], wrong)]) == pytest.approx(51 / 101)
    assert average_precision([([unsure], right), ([sure], wrong)]) == pytest.approx(0.5 * 51 / 101)


def test_f1_of_multisets() -> None:
    assert f1(Counter("ab"), Counter("ab")) == 1.0
    assert f1(Counter("aab"), Counter("ab")) == pytest.approx(0.8)
    assert f1(Counter(), Counter("a")) == 0.0
    assert f1(Counter(), Counter()) == 1.0


def test_rouge_l_by_hand() -> None:
    assert rouge_l("police killed the gunman", "police kill the gunman") == pytest.approx(0.75)
    assert rouge_l("the gunman police killed", "police kill the gunman") == pytest.approx(0.5)
    assert rouge_l("The GUNMAN!", "the gunman") == 1.0
    assert rouge_l("", "the") == 0.0
