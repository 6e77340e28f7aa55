"""A request: the cases of one instance and what is wrong with it, as a pure function of its key.

The images depend on track, split and seed only, so every focus and outcome of a seed shows the same card.
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bat_events.benchmark.acquisition import Case, hand_in, record, restore
from bat_events.benchmark.card import Card, Choice, choices, draw_card, right_choice
from bat_events.benchmark.interface import TaskKey
from bat_events.benchmark.metrics import ssim
from bat_events.benchmark.tracks import TRACKS, Output, TrackRules
from bat_events.domain.vocabulary import Focus, Outcome, Split, Stage, Track

CASES = 4
NAME, VERSION = "mini", 4
_DRAWN_AS = 2  # version 3 publishes what is too small for a lesion, 4 the rules of rubric 2; the instances are those of version 2


def random_source(*parts: object) -> np.random.Generator:
    """A generator seeded by the SHA-256 of the benchmark's name, the version that last changed instances, and `parts`."""
    text = ":".join(map(str, (NAME, _DRAWN_AS, *parts)))
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little"))


@dataclass(frozen=True, kw_only=True)
class Request:
    """A card and its recorded cases."""

    rules: TrackRules
    card: Card
    cases: tuple[Case, ...]


@lru_cache(maxsize=256)
def request(track: Track, split: Split, seed: int) -> Request:
    """The request of a seed. Raises KeyError for a track that this benchmark does not have."""
    rules = TRACKS[track]
    rng = random_source(track, split, seed)
    card = draw_card(split, rng)
    numbers = rng.choice(np.arange(10, 100), size=CASES, replace=False)
    cases = tuple(record(rules, card, split, f"c{number}", rng) for number in numbers)
    return Request(rules=rules, card=card, cases=cases)


@dataclass(frozen=True)
class Instance:
    """A request under an outcome. Hashable by its key, so that measurements can be cached."""

    key: TaskKey

    @property
    def request(self) -> Request:
        return request(self.key.track, self.key.split, self.key.seed)

    @property
    def rules(self) -> TrackRules:
        return self.request.rules

    @property
    def card(self) -> Card:
        return self.request.card

    @property
    def names(self) -> list[str]:
        """All cases, in the request's order."""
        return [case.name for case in self.request.cases]

    @property
    def seen(self) -> list[int]:
        """The mean stored value of each case, rounded: what a first look at the request shows."""
        return [round(float(case.raw.mean())) for case in self.request.cases]

    @property
    def unreadable(self) -> str | None:
        """The case whose file is cut short: in S3 the one that would be the pilot, after S3 one that was not."""
        if self.key.outcome is not Outcome.FAILURE:
            return None
        first = 1 if self.key.focus in (Focus.S4, Focus.S5) else 0
        place = (
            0 if self.key.focus is Focus.S3 else int(random_source("unreadable", self.key.seed).integers(first, CASES))
        )
        return self.names[place]

    @property
    def readable(self) -> list[Case]:
        """The cases that can be processed, in the request's order."""
        return [case for case in self.request.cases if case.name != self.unreadable]

    def right(self, stage: Stage) -> Choice:
        return right_choice(self.card, stage)

    def wrong(self, stage: Stage, purpose: str) -> Choice:
        """A choice other than the right one, fixed by the key and `purpose`."""
        others = [choice for choice in choices(stage) if choice != self.right(stage)]
        rng = random_source(purpose, self.key.track, self.key.split, self.key.seed, stage)
        return others[int(rng.integers(len(others)))]


@dataclass(frozen=True)
class Scale:
    """What the twelve choices of a stage reach on an instance: the best of them, and their mean (a blind choice).

    Where a flat image of the right mean reaches more than a blind choice, that counts as blind.
    """

    best: float
    blind: float

    def fitness(self, quality: float) -> float:
        """0 up to a blind choice's quality, 1 from 97 % of the best; squared between, so that near misses stay low."""
        span = 0.97 * self.best - self.blind
        share = 1.0 if quality >= 0.97 * self.best else (quality - self.blind) / span if span > 0 else 0.0
        return float(min(max(share, 0.0), 1.0) ** 2)


@lru_cache(maxsize=8192)
def restored_quality(instance: Instance, clean: Choice, decode: Choice, merge: Choice, pilot_only: bool) -> float:
    """Mean SSIM, in the scanner's frame, of what these choices restore against the clean images."""
    choice = {Stage.S1: clean, Stage.S2: decode, Stage.S3: merge}
    cases = instance.readable[:1] if pilot_only else instance.readable
    return float(np.mean([ssim(restore(case.raw, choice), case.scan) for case in cases]))


@lru_cache(maxsize=4096)
def scale(instance: Instance, stage: Stage) -> Scale:
    """The scale of a stage, every other stage being right. S4 is measured by the track's metric, S1 to S3 by SSIM."""
    clean, decode, merge = (instance.right(s) for s in (Stage.S1, Stage.S2, Stage.S3))
    reached = []
    if stage is Stage.S4:
        restored = [restore(case.raw, {s: instance.right(s) for s in Stage}) for case in instance.readable]
    for choice in choices(stage):
        if stage is Stage.S1:
            reached.append(restored_quality(instance, choice, decode, merge, False))
        elif stage is Stage.S2:
            reached.append(restored_quality(instance, clean, choice, merge, False))
        elif stage is Stage.S3:
            reached.append(restored_quality(instance, clean, decode, choice, True))
        else:
            pairs = [
                (hand_in(instance.rules, image, choice, case), case.reference)
                for image, case in zip(restored, instance.readable, strict=True)
            ]
            reached.append(instance.rules.metric(pairs))
    return Scale(best=max(reached), blind=max(float(np.mean(reached)), _flat_quality(instance, stage)))


def _flat_quality(instance: Instance, stage: Stage) -> float:
    """What a flat product reaches in a stage that hands in images; 0 where a flat one cannot be handed in."""
    cases = instance.readable
    if stage is Stage.S3:
        return ssim(np.full_like(cases[0].scan, cases[0].scan.mean()), cases[0].scan)
    if stage is not Stage.S4:
        return 0.0
    flat = [np.full_like(case.reference.array, case.reference.array.mean()) for case in cases]
    if not all(map(instance.rules.permitted, flat)):
        return 0.0
    pairs = zip((Output(array=array) for array in flat), (case.reference for case in cases), strict=True)
    return instance.rules.metric(list(pairs))
