"""Pure image steps of the skill library. Images are 32 x 32 floats; tissue lies in [0, 1], artefacts may reach outside.

A case is recorded as nine frames of stored values (uint8): three blocks of three frames, of which one block was steady.
The steps undo what the recording did, in this order: decode, merge, clean, pose. Each takes a level of 1, 2 or 3.
"""

import numpy as np
from numpy.typing import NDArray

from . import filters

Image = NDArray[np.float64]

SIZE = 32
FRAMES = 9
LOW, HIGH = -0.8, 2.0  # the values that stored values can express
EXPONENTS = (0.5, 1.0, 2.0)
OFFSETS = (8, 16, 24)  # rows
PERIODS = (4.5, 6.4, 10.7)  # rows per stripe
WAVES = (4, 6, 9)  # half waves of shading across the image
RINGS = ((9.0, 11.0), (11.0, 13.0), (13.0, 15.5))  # cycles per image width
CT_ZERO, CT_ONE = 4.0, 132.0  # stored values of LOW and HIGH in the fixed CT window
LESION = 0.7  # a lesion is brighter than this; tissue is darker

CLEANERS = ("smooth", "despeck", "destripe", "flatten")
DECODERS = ("window", "scale", "invert", "signed")
MERGERS = ("mean", "vote", "peak", "base")
POSES = ("keep", "flip", "turn", "swap")
MEASURES = ("area", "width", "height", "edge")
UNITS = ("px", "mm", "pct")
LEVELS = (1, 2, 3)


def decode(raw: NDArray[np.uint8], kind: str, level: int) -> Image:
    """Stored values -> tissue values. `kind` undoes the scanner's coding, `level` its exponent (0.5, 1, 2)."""
    x = raw.astype(np.float64)
    if kind == "window":
        u = (x - CT_ZERO) / (CT_ONE - CT_ZERO)
    elif kind == "scale":
        u = (x - x.min()) / max(float(x.max() - x.min()), 1.0)
    elif kind == "invert":
        u = 1.0 - x / 255.0
    else:
        u = ((x + 128.0) % 256.0) / 255.0
    u = np.clip(u, 0.0, 1.0) ** (1.0 / EXPONENTS[level - 1])
    return np.asarray(LOW + (HIGH - LOW) * u)


def merge(frames: Image, kind: str, level: int) -> Image:
    """One image from the three frames of block `level` (1 first, 2 middle, 3 last)."""
    block = frames[3 * (level - 1) : 3 * level]
    if kind == "mean":
        return np.asarray(block.mean(axis=0))
    if kind == "vote":
        return np.asarray(np.median(block, axis=0))
    return np.asarray(block.max(axis=0) if kind == "peak" else block.min(axis=0))


def shading_wave(level: int) -> Image:
    """The unit pattern that `flatten` removes: a wave along the columns, fixed to the image's edge."""
    columns = np.cos(np.pi * WAVES[level - 1] * (np.arange(SIZE) + 0.5) / SIZE)
    return np.asarray(np.broadcast_to(columns, (SIZE, SIZE)))


def stripe_waves(level: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The two unit profiles over the rows that `destripe` removes."""
    angle = 2 * np.pi * np.arange(SIZE) / PERIODS[level - 1]
    return np.cos(angle), np.sin(angle)


def ring(level: int) -> NDArray[np.bool_]:
    """The frequencies that `smooth` removes, in the layout of numpy's fft2."""
    f = np.fft.fftfreq(SIZE, 1 / SIZE)
    radius = np.hypot(f[:, None], f[None, :])
    low, high = RINGS[level - 1]
    return np.asarray((radius >= low) & (radius < high))


def speck_mask(image: Image, level: int) -> NDArray[np.bool_]:
    """Pixels of bright specks that are exactly `level` pixels wide."""
    inside = filters.grey_opening(image, level) if level > 1 else image
    beyond = filters.grey_opening(image, level + 1)
    return np.asarray(inside - beyond > 0.25)


def clean(image: Image, kind: str, level: int) -> Image:
    """Remove one kind of fixed artefact at one scale."""
    if kind == "smooth":
        spectrum = np.fft.fft2(image)
        spectrum[ring(level)] = 0.0
        return np.asarray(np.fft.ifft2(spectrum).real)
    if kind == "despeck":
        mask = speck_mask(image, level)
        if not mask.any():
            return image
        hidden = np.where(mask, np.nan, image)
        weight = filters.gaussian_filter((~mask).astype(float), 1.2)
        fill = filters.gaussian_filter(np.where(mask, 0.0, image), 1.2) / np.maximum(weight, 1e-6)
        return np.asarray(np.where(np.isnan(hidden), fill, image))
    if kind == "destripe":
        profile = image.mean(axis=1) - image.mean()
        basis = np.stack(stripe_waves(level), axis=1)
        weights = np.linalg.lstsq(basis, profile, rcond=None)[0]
        return np.asarray(image - (basis @ weights)[:, None])
    wave = shading_wave(level)
    return np.asarray(image - wave * float((image * wave).mean() / (wave * wave).mean()))


def pose(image: Image, kind: str, level: int) -> Image:
    """Scanner's frame -> display frame: undo the table offset (8, 16 or 24 rows), then turn the image."""
    moved = np.roll(image, -OFFSETS[level - 1], axis=0)
    if kind == "flip":
        return np.asarray(moved[::-1])
    if kind == "turn":
        return np.asarray(np.rot90(moved))
    return np.asarray(moved.T if kind == "swap" else moved)


def finish(image: Image, track: str) -> NDArray[np.generic]:
    """The track's array for one case: the clean image, its second contrast (both float16), or a lesion mask (uint8 0/1)."""
    if track in ("enhancement", "synthesis"):
        clean_image = np.clip(image, 0.0, 1.0)
        return (second_contrast(clean_image) if track == "synthesis" else clean_image).astype(np.float16)
    return (image > LESION).astype(np.uint8)


def second_contrast(image: Image) -> Image:
    """The published curve from the first contrast to the second: bright tissue turns dark, 1 - value squared."""
    return 1.0 - image * image


def measure(output: NDArray[np.generic], kind: str, unit: str) -> float:
    """A size of what is brighter than 0.5 in an output; one pixel is 0.8 mm. Rounded to four decimals."""
    shape = np.asarray(output, dtype=np.float64) > 0.5
    if kind == "area":
        value, mm, whole = float(shape.sum()), 0.64, float(shape.size)
    elif kind == "width":
        value, mm, whole = float(shape.any(axis=0).sum()), 0.8, float(shape.shape[1])
    elif kind == "height":
        value, mm, whole = float(shape.any(axis=1).sum()), 0.8, float(shape.shape[0])
    else:
        crossings = (shape[1:] != shape[:-1]).sum() + (shape[:, 1:] != shape[:, :-1]).sum()
        value, mm, whole = float(crossings), 0.8, float(2 * shape.size)
    return round(value if unit == "px" else value * mm if unit == "mm" else 100.0 * value / whole, 4)


def roughness(image: Image) -> float:
    """Mean absolute second difference: what artefacts raise, rounded to four decimals."""
    d = np.abs(filters.laplace(np.asarray(image, dtype=np.float64)))
    return round(float(d.mean()), 4)
