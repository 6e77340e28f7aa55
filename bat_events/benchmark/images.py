"""Real medical images from installed packages, as small clean crops: loaded once per process, never over a network.

Every split reads other pixels: another subject where the packages hold two, else another region (see docs/benchmark.md,
which is checked against `SOURCES`). A crop is 32 x 32 floats in [0.1, 0.9].
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bat_events.domain.vocabulary import Split

Image = NDArray[np.float64]
SIZE = 32


class ImageSourceMissing(RuntimeError):
    """A package that carries an image source is not installed, or no longer carries it."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """One image source and the part of it that a split may read.

    `rows` and `columns` are fractions of the image; `difference` says why no other split can hold the same content.
    """

    package: str
    file: str
    subject: str
    licence: str
    difference: Literal["subject", "region"]
    load: Callable[[Path], list[Image]]
    rows: tuple[float, float] = (0.0, 1.0)
    columns: tuple[float, float] = (0.0, 1.0)


def _package_file(package: str, file: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ImageSourceMissing(
            f"image source {package}/{file}: package {package} is missing; pip install 'bat-events[train]'"
        )
    path = Path(spec.origin).parent / file
    if not path.is_file():
        raise ImageSourceMissing(f"image source {package}/{file}: the installed {package} does not carry this file")
    return path


def _dicom(path: Path) -> list[Image]:
    from pydicom.pixels.utils import pixel_array

    pixels: NDArray[Any] = pixel_array(str(path), index=0)
    image = pixels.astype(np.float64)
    return [image.mean(axis=-1) if image.ndim == 3 else image]


def _volume(path: Path) -> list[Image]:
    import nibabel

    loaded: Any = nibabel.load(str(path))
    volume = np.asarray(loaded.dataobj)
    if volume.ndim == 4:
        volume = volume[..., 0]
    depth = volume.shape[2]
    return [volume[:, :, z].astype(np.float64) for z in np.linspace(depth * 0.35, depth * 0.7, 8).astype(int)]


def _picture(path: Path) -> list[Image]:
    from PIL import Image as Pillow

    pixels = np.asarray(Pillow.open(path)).astype(np.float64)
    return [pixels[..., 1] if pixels.ndim == 3 else pixels]


_MNI = "nilearn: MNI152 2009a, McGill, free use with copyright notice"
_TESTFILES = "pydicom test files: declared free of restrictions by pydicom"
_P, _H, _C = Split.PRACTICE, Split.HELDOUT, Split.CONFIRMATION

SOURCES: dict[tuple[str, Split], Source] = {
    ("mr", _P): Source(
        package="nilearn",
        file="datasets/data/mni_icbm152_t1_tal_nlin_sym_09a_converted.nii.gz",
        subject="MNI152 template, brain",
        licence=_MNI,
        difference="subject",
        load=_volume,
    ),
    ("mr", _H): Source(
        package="pydicom",
        file="data/test_files/examples_overlay.dcm",
        subject="abdomen patient",
        licence=_TESTFILES,
        difference="subject",
        load=_dicom,
    ),
    ("mr", _C): Source(
        package="nibabel",
        file="tests/data/example4d.nii.gz",
        subject="brain volunteer",
        licence="nibabel: MIT",
        difference="subject",
        load=_volume,
    ),
    ("ct", _P): Source(
        package="pydicom",
        file="data/test_files/J2K_pixelrep_mismatch.dcm",
        subject="head patient",
        licence=_TESTFILES,
        difference="subject",
        load=_dicom,
    ),
    ("ct", _H): Source(
        package="pydicom",
        file="data/test_files/CT_small.dcm",
        subject="spine patient",
        licence=_TESTFILES,
        difference="region",
        load=_dicom,
        rows=(0.0, 0.5),
    ),
    ("ct", _C): Source(
        package="pydicom",
        file="data/test_files/CT_small.dcm",
        subject="spine patient",
        licence=_TESTFILES,
        difference="region",
        load=_dicom,
        rows=(0.5, 1.0),
    ),
    ("eye", _P): Source(
        package="skimage",
        file="data/retina.jpg",
        subject="fundus",
        licence="scikit-image: CC0",
        difference="subject",
        load=_picture,
    ),
    ("eye", _H): Source(
        package="skimage",
        file="data/microaneurysms.png",
        subject="diabetic fundus",
        licence="scikit-image: CC0",
        difference="region",
        load=_picture,
        rows=(0.0, 0.5),
    ),
    ("eye", _C): Source(
        package="skimage",
        file="data/microaneurysms.png",
        subject="diabetic fundus",
        licence="scikit-image: CC0",
        difference="region",
        load=_picture,
        rows=(0.5, 1.0),
    ),
    ("us", _P): Source(
        package="pydicom",
        file="data/test_files/examples_rgb_color.dcm",
        subject="lymph node patient",
        licence=_TESTFILES,
        difference="subject",
        load=_dicom,
        rows=(0.27, 0.62),
    ),
    ("us", _H): Source(
        package="pydicom",
        file="data/test_files/examples_ybr_color.dcm",
        subject="heart patient",
        licence=_TESTFILES,
        difference="region",
        load=_dicom,
        rows=(0.08, 0.88),
        columns=(0.3, 0.5),
    ),
    ("us", _C): Source(
        package="pydicom",
        file="data/test_files/examples_ybr_color.dcm",
        subject="heart patient",
        licence=_TESTFILES,
        difference="region",
        load=_dicom,
        rows=(0.08, 0.88),
        columns=(0.5, 0.7),
    ),
}


@cache
def regions(modality: str, split: Split) -> tuple[Image, ...]:
    """The 2-D images that a split may crop from, at most 200 pixels on their short side; cached for the process."""
    source = SOURCES[modality, split]
    out = []
    for image in source.load(_package_file(source.package, source.file)):
        height, width = image.shape
        part = image[
            int(source.rows[0] * height) : int(source.rows[1] * height),
            int(source.columns[0] * width) : int(source.columns[1] * width),
        ]
        step = max(min(part.shape) // 200, 1)
        if step > 1:  # box average, so that no detail aliases
            rows, columns = (n - n % step for n in part.shape)
            part = part[:rows, :columns].reshape(rows // step, step, columns // step, step).mean(axis=(1, 3))
        low, high = np.percentile(part, (1, 99))
        out.append(np.clip((part - low) / max(float(high - low), 1e-9), 0.0, 1.0))
    return tuple(out)


def crop(modality: str, split: Split, zoom: float, rng: np.random.Generator) -> Image:
    """A 32 x 32 crop with structure in it, values in [0.1, 0.9].

    `zoom` 0 takes 32 source pixels a side, 1 takes 7/8 of the region's short side, 96 at most.
    """
    from scipy import ndimage

    images = regions(modality, split)
    best: tuple[float, Image] | None = None
    for _ in range(8):
        image = images[int(rng.integers(len(images)))]
        side = SIZE + round(zoom * (min(96, min(image.shape) * 7 // 8) - SIZE))
        row, column = (int(rng.integers(n - side + 1)) for n in image.shape)
        part = image[row : row + side, column : column + side]
        spread = float(part.std())
        if best is None or spread > best[0]:
            best = (spread, part)
        if spread > 0.07:
            break
    assert best is not None
    part = best[1]
    if part.shape[0] != SIZE:
        part = ndimage.gaussian_filter(part, 0.35 * part.shape[0] / SIZE)
        at = (np.arange(SIZE) + 0.5) * part.shape[0] / SIZE - 0.5
        part = ndimage.map_coordinates(part, np.meshgrid(at, at, indexing="ij"), order=1, mode="nearest")
    part = ndimage.gaussian_filter(part, 0.8)
    low, high = float(part.min()), float(part.max())
    return np.asarray(0.1 + 0.8 * (part - low) / max(high - low, 1e-6))
