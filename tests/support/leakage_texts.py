"""Task texts with the entropy of real ones, for the leakage gate's injection tests: a grammar over a large lexicon.

A sentence is one of 16 patterns with five to seven slots; a slot is filled from 6,000 invented technical words (12.5 bits) or
a number. So a sentence carries about 75 bits and most runs of 8 words 25 or more; patterns, function words and the places
where sentences meet repeat everywhere, as they do in real task texts.
"""

import random
from functools import cache

_ROOTS = (
    "cardi", "hepat", "nephr", "pulmon", "cerebr", "oste", "myel", "derm", "gastr", "enter", "vascul", "lymph",
    "thyr", "aden", "spondyl", "crani", "thorac", "abdomin", "pelv", "femor", "tibi", "humer", "radi", "uln",
    "carp", "tars", "phalang", "vertebr", "stern", "cost", "clavic", "scapul", "mandibul", "maxill", "orbit", "ret",
    "corn", "scler", "audit", "vestibul", "gloss", "pharyng", "laryng", "trache", "bronch", "alveol", "pleur",
    "pericard", "mediastin", "esophag", "duoden", "jejun", "ile", "col", "rect", "pancreat", "splen", "bili",
    "chol", "ureter", "cyst", "prostat", "ovari", "uter", "placent", "mamm",
)  # fmt: skip
_MIDDLES = (
    "o", "i", "a", "eo", "io", "al", "ic", "oid", "ular", "inter", "hyper", "hypo", "peri", "endo", "epi", "sub",
)  # fmt: skip
_ENDINGS = (
    "ne", "dex", "tion", "graph", "gram", "scope", "plasty", "metric", "lith", "phage", "cyte", "some", "tome",
    "trope", "genic", "lytic", "morph", "static", "sthen", "pathy",
)  # fmt: skip
_PATTERNS = (
    "Measure the {w} of the {w} in slice {n} and compare it with the {w} {w} near the {w} margin.",
    "The {w} shows a {w} band of {n} mm between the {w} and the upper {w}, beside a faint {w}.",
    "Which {w} lies closest to the {w} when the {w} is rotated by {n} degrees around the {w} axis?",
    "Report every {w} whose {w} exceeds {n} units, then mark the {w} and the {w} for a second {w} reading.",
    "A {w} patient with {w} was scanned twice; the second {w} revealed {w} change along the {w} border.",
    "Exclude the {w} if its {w} overlaps the {w} by more than {n} pixels or touches any {w} {w}.",
    "Between {w} and {w} the intensity falls from {n} to {n}, which suggests {w} rather than {w} damage.",
    "Write down the {w}, the {w} and the {w} of case {n} before the {w} correction is applied.",
    "Two {w} regions merge behind the {w}, so count them as one {w} unless the {w} separates them by {n} voxels.",
    "The reader noted {w} {w} with preserved {w}, no {w} and a stable {w} since the earlier visit.",
    "Align the {w} with the {w} template, resample to {n} mm, and keep the {w} as {w} reference.",
    "If {w} is missing, use the mean {w} of the three {w} neighbours weighted by {w} distance.",
    "Give the {w} grade from zero to four, where four means {w} {w} beyond the {w} ridge.",
    "Contrast reaches the {w} after {n} seconds, later than in the {w}, because of {w} {w} narrowing.",
    "Mask the {w} first; otherwise the {w} filter smears {w} signal into the {w} and hides the {w}.",
    "Of the {n} {w} candidates only those with {w} shape and {w} rim belong to the {w} class.",
)
SYSTEM = "You process medical images with one tool. Files persist between calls.\nAnswer with one call a turn."
PREAMBLE = (
    "Work in five stages: plan, set up, validate on one case, run the batch, hand in the submission.\n"
    "Write plan/plan.json with method, level and cases in the order of the request.\n"
    "Each check counts times its fitness; inputs stay unchanged and outputs are arrays of 32 rows."
)


@cache
def lexicon() -> tuple[str, ...]:
    """6,000 invented words, the same for every seed."""
    rng = random.Random("lexicon")
    found: dict[str, None] = {}
    while len(found) < 6000:
        found[rng.choice(_ROOTS) + rng.choice(_MIDDLES) + rng.choice(_ENDINGS)] = None
    return tuple(found)


def sentence(rng: random.Random) -> str:
    """One sentence of 15 to 22 words."""
    parts = rng.choice(_PATTERNS).split("{")
    return parts[0] + "".join(
        (rng.choice(lexicon()) if part[0] == "w" else str(rng.randint(2, 980))) + part[2:] for part in parts[1:]
    )


def text(rng: random.Random, words: int) -> str:
    """Lines of one or two sentences, `words` words or a few more."""
    lines: list[str] = []
    while sum(len(line.split()) for line in lines) < words:
        lines.append(" ".join(sentence(rng) for _ in range(rng.randint(1, 2))))
    return "\n".join(lines)


def clean_state(rng: random.Random, *, words: int = 160) -> dict[str, object]:
    """A state as a benchmark with free task texts would make it: shared text, a text of its own, some small files."""
    cases = [f"c{number}" for number in rng.sample(range(10, 100), 4)]
    return {
        "system": SYSTEM,
        "prompt": f"{PREAMBLE}\n{text(rng, words)}",
        "files": {
            "input/request.json": f'{{"cases": ["{cases[0]}", "{cases[1]}"], "note": "{sentence(rng)}"}}',
            "plan/plan.json": f'{{"method": "smooth", "level": {rng.randint(1, 3)}, "cases": ["{cases[0]}"]}}',
            "worklist.csv": "case,file\n" + "".join(f"{case},input/{case}.npy\n" for case in cases),
            **{f"input/{case}.npy": f"sha256 {rng.getrandbits(256):064x}" for case in cases},
        },
    }
