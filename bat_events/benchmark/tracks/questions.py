"""Classification, VQA and report: an answer in words about the lesions of a case."""

import re
from collections import Counter

import numpy as np

from bat_events.benchmark.metrics import balanced_accuracy, f1, rouge_l
from bat_events.benchmark.skills.medskills import answers
from bat_events.benchmark.tracks.lesions import PARTS, paint, several, zero_or_one
from bat_events.benchmark.tracks.rules import Array, Output, Pairs, Reference, Subject, TrackRules
from bat_events.benchmark.tracks.segmentation import BRIGHT, MASK_LINE
from bat_events.domain.vocabulary import Track

QUADRANTS = ("upper left", "upper right", "lower left", "lower right")
REPORT_LIMIT = 600  # characters
_PHRASE = re.compile(r"(large|small) lesion in the (upper|lower) (left|right) quadrant")
F1_SHARE = 0.7  # of the report's score; the rest is ROUGE-L (AutoMedBench's split, facts)


def _lesions(image: Array, rng: np.random.Generator, larges: int) -> tuple[Array, Array, list[answers.Lesion]]:
    painted = paint(image, several(larges, int(rng.integers(3)), image.shape[0], rng))
    return painted.image, painted.mask, painted.found


def _labelled(image: Array, _place: int, rng: np.random.Generator) -> Subject:
    seen, mask, found = _lesions(image, rng, 1)
    return Subject(image=seen, reference=Reference(array=mask, answer=answers.label(found)))


def _asked(image: Array, _place: int, rng: np.random.Generator) -> Subject:
    seen, mask, found = _lesions(image, rng, 1)
    question = answers.QUESTIONS[int(rng.integers(len(answers.QUESTIONS)))]
    return Subject(
        image=seen, reference=Reference(array=mask, answer=answers.reply(found, question), question=question)
    )


def _described(image: Array, _place: int, rng: np.random.Generator) -> Subject:
    seen, mask, found = _lesions(image, rng, 1 + int(rng.integers(2)))
    return Subject(image=seen, reference=Reference(array=mask, answer=answers.report(found)))


def _word(value: object) -> str | None:
    """A short answer, compared without case and outer space."""
    return value.strip().lower() if isinstance(value, str) and 0 < len(value.strip()) <= 40 else None


def _quadrant(value: object) -> str | None:
    word = _word(value)
    return word if word in QUADRANTS else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and 0 < len(value.strip()) <= REPORT_LIMIT else None


def _accuracy(pairs: Pairs) -> float:
    return balanced_accuracy([(_answer(output), truth.answer) for output, truth in pairs])


def _exact_match(pairs: Pairs) -> float:
    return float(np.mean([_answer(output) == truth.answer.lower() for output, truth in pairs]))


def _report_score(pairs: Pairs) -> float:
    return float(np.mean([_one_report(_answer(output), truth.answer) for output, truth in pairs]))


def _one_report(text: str | None, truth: str) -> float:
    if text is None:
        return 0.0
    findings = f1(Counter(_PHRASE.findall(text.lower())), Counter(_PHRASE.findall(truth.lower())))
    return F1_SHARE * findings + (1 - F1_SHARE) * rouge_l(text, truth)


def _answer(output: Output | None) -> str | None:
    return None if output is None else output.answer


CLASSIFICATION = TrackRules(
    track=Track.CLASSIFICATION,
    goal=f"goal: classify every case by the quadrant of its largest lesion's centre; {BRIGHT}; {PARTS}",
    output=(MASK_LINE, f"outputs/CASE.json: label, one of {', '.join(QUADRANTS)}"),
    metric_name="balanced accuracy",
    subject=_labelled,
    permitted=zero_or_one,
    metric=_accuracy,
    parse=_quadrant,
)
VQA = TrackRules(
    track=Track.VQA,
    goal=f"goal: answer the question of every case (request.json) about its lesions; {BRIGHT}; {PARTS}",
    output=(
        MASK_LINE,
        "outputs/CASE.json: answer; cell: the largest lesion's cell of the 4x4 grid, A1 top left, D1 bottom left; "
        "upper: how many lesions lie in the upper half; side: left or right half; "
        "shape: rows or columns, whichever the largest lesion spans more of",
    ),
    metric_name="exact match",
    subject=_asked,
    permitted=zero_or_one,
    metric=_exact_match,
    parse=_word,
)
REPORT = TrackRules(
    track=Track.REPORT,
    goal=f"goal: report the lesions of every case, largest first; of {answers.LARGE} pixels a lesion is large; {BRIGHT}; {PARTS}",
    output=(
        MASK_LINE,
        "outputs/CASE.json: report, such as: Findings: large lesion in the upper left quadrant; "
        "small lesion in the lower right quadrant. Impression: 2 lesions.",
    ),
    metric_name="0.7 finding F1 + 0.3 ROUGE-L",
    subject=_described,
    permitted=zero_or_one,
    metric=_report_score,
    parse=_text,
)
