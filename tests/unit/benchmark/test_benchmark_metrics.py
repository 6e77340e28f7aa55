"""The metrics agree with scikit-image and with hand-made cases."""

import numpy as np
import pytest
from skimage.metrics import structural_similarity

from bat_events.benchmark.metrics import dice, ssim


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
