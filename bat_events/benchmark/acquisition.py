"""How a case comes to be recorded: the clean image of a case, then everything that a right course of work has to undo.

The recording is exact about its own parameters (skills/medskills/image.py holds them), so the prescribed choice of each
stage restores the image up to what cleaning takes away with the artefact; every other choice leaves or adds damage.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bat_events.benchmark.card import DETAILS, Card, Choice, right_choice
from bat_events.benchmark.images import crop
from bat_events.benchmark.metrics import ssim
from bat_events.benchmark.skills.medskills import answers
from bat_events.benchmark.skills.medskills import image as skill
from bat_events.benchmark.tracks.rules import Output, Reference, TrackRules
from bat_events.domain.vocabulary import Split, Stage

Image = NDArray[np.float64]
AMPLITUDE = 0.45  # of artefacts: what tissue spans is 0.8
_RESTORABLE = 0.94  # SSIM of what the prescribed choices restore
_SOUND = 0.97  # of the track's metric on the case alone, all choices right
_DRAWS = 24
_IMBALANCE = 0.25  # of one frame under balanced noise


@dataclass(frozen=True, kw_only=True)
class Case:
    """One recorded case. `scan` and `reference`, the track's truth, never enter a workspace."""

    name: str
    raw: NDArray[np.uint8]  # (9, 32, 32) stored values
    scan: Image  # the clean image in the scanner's frame: what S1 to S3 should restore
    reference: Reference


def _unpose(image: Image, method: str, level: int) -> Image:
    turned = {"keep": image, "flip": image[::-1], "turn": np.rot90(image, -1), "swap": image.T}[method]
    return np.asarray(np.roll(turned, skill.OFFSETS[level - 1], axis=0))


def _artefact(image: Image, method: str, level: int, rng: np.random.Generator) -> Image:
    """The image with the fixed artefact that `method` at `level` removes."""
    size = skill.SIZE
    if method == "smooth":
        spectrum = np.fft.fft2(rng.standard_normal((size, size)))
        spectrum[~skill.ring(level)] = 0.0
        grain = np.fft.ifft2(spectrum).real
        return np.asarray(image + AMPLITUDE * 0.75 * grain / grain.std())
    if method == "despeck":
        specks = np.zeros((size, size))
        grid = np.arange(level, size - level, level + 4)
        for row in grid:
            for column in grid:
                if rng.random() < 0.55:
                    specks[row : row + level, column : column + level] = 1.0
        return np.asarray(np.where(specks > 0, 1.35, image))
    if method == "destripe":
        phase = rng.uniform(0, 2 * np.pi)
        cosine, sine = skill.stripe_waves(level)
        return np.asarray(image + AMPLITUDE * (np.cos(phase) * cosine + np.sin(phase) * sine)[:, None])
    return image + AMPLITUDE * float(rng.choice([-1, 1])) * skill.shading_wave(level)


def _frames(image: Image, method: str, level: int, rng: np.random.Generator) -> Image:
    """Nine frames: block `level` is steady, the others moved; each block has the damage that `method` undoes."""
    out = np.empty((skill.FRAMES, *image.shape))
    for block in range(3):
        shift = (0, 0) if block == level - 1 else (int(rng.integers(9, 24)), int(rng.integers(9, 24)))
        seen = np.roll(image, shift, axis=(0, 1))
        frames = np.repeat(seen[None], 3, axis=0)
        if method == "mean":  # balanced noise: two frames lose what the third gains, so only the mean is right
            gainer = rng.integers(3, size=image.shape)
            frames += np.where(np.arange(3)[:, None, None] == gainer, 2.0, -1.0) * _IMBALANCE
        else:
            hit = rng.random(image.shape) < 0.7
            first = rng.integers(3, size=image.shape)
            rows, columns = np.nonzero(hit)
            chosen = first[rows, columns]
            if method == "vote":  # a spike of either sign in one frame of three
                frames[chosen, rows, columns] = np.where(rng.random(len(rows)) < 0.5, skill.LOW, skill.HIGH)
            else:  # two frames of three lost to shadow, or to glare
                value = skill.LOW if method == "peak" else skill.HIGH
                frames[chosen, rows, columns] = value
                frames[(chosen + 1) % 3, rows, columns] = value
        out[3 * block : 3 * block + 3] = frames
    return np.clip(out, skill.LOW, skill.HIGH)


def _encode(values: Image, method: str, level: int, steady: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    u = np.clip((values - skill.LOW) / (skill.HIGH - skill.LOW), 0.0, 1.0) ** skill.EXPONENTS[level - 1]
    moved = 3 * (steady % 3)  # a frame of a block that nobody should use carries the extremes
    u[moved, 0, 0], u[moved, 0, 1] = 0.0, 1.0
    if method == "window":
        raw = skill.CT_ZERO + (skill.CT_ONE - skill.CT_ZERO) * u
        raw[moved, 0, :4], raw[moved, 1, :4] = 0.0, 255.0  # air and metal
    elif method == "scale":
        gain = rng.uniform(0.5, 0.6)
        raw = 255.0 * (gain * u + rng.uniform(0.9, 1.0) * (1 - gain))
    elif method == "invert":
        raw = 255.0 * (1.0 - u)
    else:
        raw = (np.round(255.0 * u) + 128.0) % 256.0  # signed values read as unsigned
    return np.round(np.clip(raw, 0, 255)).astype(np.uint8)


def record(rules: TrackRules, card: Card, split: Split, name: str, rng: np.random.Generator) -> Case:
    """Draw one case of a request and record it as the protocol says for the card.

    Images whose own structure lies where the artefact lies cannot be restored by anyone, and an answer on a boundary
    cannot be told: those are drawn again.
    """
    choice = {stage: right_choice(card, stage) for stage in Stage}
    place = DETAILS.index(card.detail)
    best: tuple[float, Case] | None = None
    for _ in range(_DRAWS):
        subject = rules.subject(crop(card.modality, split, 1.0 - place / 2, rng), place, rng)
        scan = _unpose(subject.image, *choice[Stage.S4])
        frames = _frames(_artefact(scan, *choice[Stage.S1], rng), *choice[Stage.S3], rng)
        raw = _encode(frames, *choice[Stage.S2], choice[Stage.S3].level, rng)
        case = Case(name=name, raw=raw, scan=scan, reference=subject.reference)
        restored = restore(raw, choice)
        score = rules.metric([(hand_in(rules, restored, choice[Stage.S4], case), case.reference)])
        quality = min(ssim(restored, scan) / _RESTORABLE, score / _SOUND)
        if best is None or quality > best[0]:
            best = (quality, case)
        if quality >= 1.0:
            break
    assert best is not None
    return best[1]


def restore(raw: NDArray[np.uint8], choice: Mapping[Stage, Choice]) -> Image:
    """What the choices of S1 to S3 make of a recorded case, in the scanner's frame."""
    values = skill.decode(raw, *choice[Stage.S2])
    return skill.clean(skill.merge(values, *choice[Stage.S3]), *choice[Stage.S1])


def hand_in(rules: TrackRules, restored: Image, posed: Choice, case: Case) -> Output:
    """What S4 makes of a restored case."""
    image = skill.pose(restored, *posed)
    array = skill.finish(image, rules.track.value)
    said = answers.answer(image, array, rules.track.value, case.reference.question)
    parsed = None if said is None or rules.parse is None else rules.parse(next(iter(said.values())))
    return Output(array=array.astype(np.float64), answer=parsed)
