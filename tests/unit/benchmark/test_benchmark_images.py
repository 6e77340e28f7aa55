"""The image sources: really installed, and never shared between splits."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from bat_events.benchmark.card import MODALITIES
from bat_events.benchmark.images import SOURCES, ImageSourceMissing, _package_file, crop, regions
from bat_events.domain.vocabulary import Split

DOCS = Path(__file__).parents[3] / "docs" / "benchmark.md"


@pytest.mark.parametrize("modality", MODALITIES)
@pytest.mark.parametrize("split", list(Split))
@pytest.mark.parametrize("zoom", [0.0, 1.0])
def test_every_source_gives_structured_crops(modality: str, split: Split, zoom: float) -> None:
    rng = np.random.default_rng(1)
    crops = [crop(modality, split, zoom, rng) for _ in range(12)]
    assert all(image.shape == (32, 32) for image in crops)
    assert min(image.min() for image in crops) >= 0.1 - 1e-9
    assert max(image.max() for image in crops) <= 0.9 + 1e-9
    assert min(image.std() for image in crops) > 0.05
    assert len({image.tobytes() for image in crops}) >= 8  # few places fit a small region


@pytest.mark.parametrize("modality", MODALITIES)
def test_no_pixel_belongs_to_two_splits(modality: str) -> None:
    for one, other in combinations(Split, 2):
        a, b = SOURCES[modality, one], SOURCES[modality, other]
        if (a.package, a.file) != (b.package, b.file):
            assert a.subject != b.subject
            continue
        assert a.difference == b.difference == "region"
        apart = [
            first[1] <= second[0] or second[1] <= first[0]
            for first, second in ((a.rows, b.rows), (a.columns, b.columns))
        ]
        assert any(apart)


def test_sources_are_read_once_a_process() -> None:
    assert regions("ct", Split.HELDOUT) is regions("ct", Split.HELDOUT)


def test_a_missing_source_says_what_is_missing() -> None:
    with pytest.raises(ImageSourceMissing, match="no_such_package"):
        _package_file("no_such_package", "x.png")
    with pytest.raises(ImageSourceMissing, match=r"data/none\.png"):
        _package_file("skimage", "data/none.png")


def test_the_document_lists_every_source_with_its_licence() -> None:
    text = DOCS.read_text()
    for (modality, split), source in SOURCES.items():
        row = next((line for line in text.splitlines() if line.startswith(f"| {modality} | {split} |")), "")
        for part in (source.package, Path(source.file).name, source.subject, source.licence, source.difference):
            assert part in row, f"docs/benchmark.md, row {modality} {split}, lacks {part!r}"
