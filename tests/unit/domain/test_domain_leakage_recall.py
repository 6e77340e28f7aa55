"""What the gate finds and what it lets through, on seeds that were not used while it was made.

Held-out texts: 70 of about 240 words (tests/support/leakage_texts.py says of what entropy), fingerprinted beside the shared
text of 40 states. bench/leakage.py does the same on 20,000 clean states.
"""

import random
from typing import Any

import pytest

from bat_events.domain.leakage import Fingerprints, Scanner, cleared, make_fingerprints, run_checks
from tests.support.leakage_injections import LEXICAL
from tests.support.leakage_paraphrases import PARAPHRASES
from tests.support.leakage_texts import clean_state, lexicon, text

SEED = "unseen 7351"
KEY = b"0123456789abcdef0123456789abcdef"
CASES = 200
CLEAN = 2_000
CANARY = "BAT-canary:7f3e-91ac-55d0"


def texts_of(state: dict[str, Any]) -> list[str]:
    return [state["system"], state["prompt"], *state["files"], *state["files"].values()]


@pytest.fixture(scope="module")
def held() -> list[str]:
    rng = random.Random(f"{SEED} held")
    return [text(rng, 240) for _ in range(70)]


@pytest.fixture(scope="module")
def known(held: list[str]) -> Fingerprints:
    rng = random.Random(f"{SEED} shared")
    return make_fingerprints(held, KEY, [part for _ in range(40) for part in texts_of(clean_state(rng))])


@pytest.fixture(scope="module")
def scanner(known: Fingerprints) -> Scanner:
    return Scanner(known, [CANARY])


@pytest.mark.parametrize("kind", LEXICAL)
def test_every_injected_case_is_rejected_and_none_is_quoted(kind: str, held: list[str], scanner: Scanner) -> None:
    rng = random.Random(f"{SEED} {kind}")
    missed = []
    for number in range(CASES):
        state = LEXICAL[kind](rng, rng.choice(held), clean_state(rng, words=60))
        results = scanner.check(state)
        if cleared(results):
            missed.append(number)
        said = " ".join(line for result in results for line in result.evidence)
        assert not set(said.replace("_", " ").split()) & set(lexicon())
    assert missed == []


def test_clean_states_of_another_seed_are_let_through(scanner: Scanner) -> None:
    rng = random.Random(f"{SEED} clean")
    rejected = [number for number in range(CLEAN) if not cleared(scanner.check(clean_state(rng)))]
    assert len(rejected) <= CLEAN // 1000


def test_evidence_gives_the_longest_run_and_where(held: list[str], scanner: Scanner) -> None:
    rng = random.Random(f"{SEED} evidence")
    quoted = " ".join(held[0].split()[20:60])
    state = {"a": text(rng, 60), "b": [f"{text(rng, 30)}\n{quoted}"]}
    run = next(result for result in scanner.check(state) if result.name == "ngram_run")
    length, place = int(run.evidence[0].split()[0]), run.evidence[0].rpartition(" ")[2]
    assert 34 <= length <= 42
    assert place == "$.b[0]"


def test_a_near_copy_without_any_run_of_eight_words_is_found_by_its_sketch(held: list[str], scanner: Scanner) -> None:
    rng = random.Random(f"{SEED} sparse")
    for original in held[:20]:
        words = original.split()
        for at in range(7, len(words), 8):
            words[at] = rng.choice(lexicon())
        results = {result.name: result for result in scanner.check({"prompt": " ".join(words)})}
        assert not results["near_duplicate"].passed


def test_paraphrases_are_reported_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    known = make_fingerprints([original for original, _ in PARAPHRASES], KEY)
    found = sum(not cleared(run_checks({"prompt": other}, known)) for _, other in PARAPHRASES)
    assert all(not cleared(run_checks({"prompt": original}, known)) for original, _ in PARAPHRASES)
    with capsys.disabled():
        print(f"\nparaphrases found: {found} of {len(PARAPHRASES)} (lexical checks cannot find them)")


QUESTION = "Which lobe of the left lung holds the seven millimetre nodule of the patient in bed four?"
GATE = make_fingerprints([QUESTION], KEY)
FULL_WIDTH = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in CANARY)
EVASIONS: dict[str, dict[str, Any]] = {
    "gold label in prose": {"prompt": "Look closely. The gold label is malignant."},
    "verbatim question": {"prompt": f"Practise this. {QUESTION} Then go on."},
    "bearer token": {"prompt": "send Authorization: Bearer abcDEF0123456789xyz"},
    "/data/private": {"prompt": "see /data/private for more"},
    "/lustre": {"prompt": "mounted at /lustre"},
    "path:/home": {"prompt": "path:/home"},
    "Windows path": {"prompt": "open C:\\Users\\me\\case.npy"},
    "key answer": {"meta": {"answer": "B"}},
    "key gold": {"meta": {"gold": 1}},
    "key ground_truth": {"meta": {"ground_truth": [0, 1]}},
    "nested trajectory": {"meta": {"deep": [{"trajectory": ["a"]}]}},
    "a marker in a key": {"meta": {f"x {CANARY}": 1}},
    "a marker with hyphens": {"prompt": CANARY.replace(":", "-")},
    "a marker with zero-width characters": {"prompt": CANARY.replace("a", "a\u200b")},
    "a marker in full width": {"prompt": FULL_WIDTH},
    "a marker in base64": {"prompt": "data QkFULWNhbmFyeTo3ZjNlLTkxYWMtNTVkMA=="},
    "[TOOL_CALLS]": {"prompt": "[TOOL_CALLS] go"},
    "<|im_start|>": {"prompt": "<|im_start|>system"},
}


@pytest.mark.parametrize("evasion", EVASIONS)
def test_what_the_reference_lets_through_is_rejected(evasion: str) -> None:
    assert len(EVASIONS) == 18
    state = {"system": "s", "prompt": "Segment the lesion.", "files": {}}
    assert cleared(run_checks(state, GATE, [CANARY]))
    results = run_checks({**state, **EVASIONS[evasion]}, GATE, [CANARY])
    assert not cleared(results)
    assert CANARY not in str(results)


@pytest.mark.parametrize(
    "said",
    [
        "The correct answer is one of A to D; write it to answer.json.",
        "The ground truth label is never shown.",
        "The expected answer is a number with two digits after the point.",
        "right answers: each counts one point",
        "Compare with the reference solution in your own words.",
    ],
)
def test_what_an_answer_looks_like_may_be_said(said: str) -> None:
    assert cleared(run_checks({"prompt": said}, GATE))


@pytest.mark.parametrize(
    "said",
    [
        "The correct answer is B.",
        "gold label: malignant",
        "Ground-truth diagnosis = pneumonia",
        "The right answer for case 7 is the left lobe.",
        "The expected answer:\n42",
    ],
)
def test_a_statement_of_the_answer_is_found(said: str) -> None:
    assert not cleared(run_checks({"prompt": said}, GATE))
