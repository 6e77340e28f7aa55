"""The card: four attributes that decide how a request's images were recorded, and so which choice is right at each stage.

The protocol tables are published word for word in every prompt (formats.py) and are what the recording follows
(acquisition.py). A stage's method follows one attribute and its level another, so no choice can be told from one alone; all
tracks share the tables, so what is learned in one track holds in every other.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bat_events.benchmark.skills.medskills.image import CLEANERS, DECODERS, LEVELS, MEASURES, MERGERS, POSES
from bat_events.domain.vocabulary import Split, Stage

MODALITIES = ("mr", "ct", "eye", "us")
ARTEFACTS = ("grain", "specks", "stripes", "shading")
STRENGTHS = ("low", "mid", "high")
DETAILS = ("fine", "medium", "coarse")
ATTRIBUTES = {"modality": MODALITIES, "artefact": ARTEFACTS, "strength": STRENGTHS, "detail": DETAILS}

METHODS = {
    Stage.S1: CLEANERS,
    Stage.S2: DECODERS,
    Stage.S3: MERGERS,
    Stage.S4: POSES,
    Stage.S5: MEASURES,
}


class Choice(NamedTuple):
    """One of the twelve choices of a stage."""

    method: str
    level: int


@dataclass(frozen=True)
class Card:
    """What the prompt states about a request."""

    modality: str
    artefact: str
    strength: str
    detail: str

    @property
    def ranks(self) -> tuple[int, int, int, int]:
        """Each value's place in its list."""
        return (
            MODALITIES.index(self.modality),
            ARTEFACTS.index(self.artefact),
            STRENGTHS.index(self.strength),
            DETAILS.index(self.detail),
        )

    def line(self) -> str:
        """The card as the prompt shows it."""
        return f"card: {self.modality} {self.artefact} {self.strength} {self.detail}"


@dataclass(frozen=True)
class Table:
    """A protocol table: an attribute's values to places in a list as long as theirs, in their order or by `step`."""

    attribute: str
    step: int = 1

    def place(self, card: Card) -> int:
        values = ATTRIBUTES[self.attribute]
        return self.step * values.index(getattr(card, self.attribute)) % len(values)


# (method table, level table) of each stage.
PROTOCOL: dict[Stage, tuple[Table, Table]] = {
    Stage.S1: (Table("artefact"), Table("strength")),
    Stage.S2: (Table("modality"), Table("detail")),
    Stage.S3: (Table("artefact", 3), Table("detail", 2)),
    Stage.S4: (Table("modality", 3), Table("strength", 2)),
    Stage.S5: (Table("artefact"), Table("detail")),
}
# decoding kinds follow DECODERS' order by modality: ct window, mr scale, eye invert, us signed
_DECODER_OF = {"ct": "window", "mr": "scale", "eye": "invert", "us": "signed"}


# What a careless demonstrator does in a stage, whatever the card says.
HABITS: dict[Stage, Choice] = {stage: Choice(methods[1], 2) for stage, methods in METHODS.items()}


def right_choice(card: Card, stage: Stage) -> Choice:
    """The choice that the protocol prescribes."""
    methods, levels = PROTOCOL[stage]
    method = _DECODER_OF[card.modality] if stage is Stage.S2 else METHODS[stage][methods.place(card)]
    return Choice(method, levels.place(card) + 1)


def choices(stage: Stage) -> tuple[Choice, ...]:
    """All twelve choices of a stage."""
    return tuple(Choice(method, level) for method in METHODS[stage] for level in LEVELS)


def withheld(card: Card) -> bool:
    """Whether this combination never occurs in practice (one in five; each pair of values still does)."""
    return sum(weight * rank for weight, rank in zip((1, 2, 1, 3), card.ranks, strict=True)) % 5 == 0


def draw_card(split: Split, rng: np.random.Generator) -> Card:
    """A card of a split: practice never shows withheld combinations, the other splits show them half of the time."""
    wanted = split is not Split.PRACTICE and bool(rng.integers(2))
    while True:
        card = Card(*(values[int(rng.integers(len(values)))] for values in ATTRIBUTES.values()))
        if withheld(card) == wanted:
            return card
