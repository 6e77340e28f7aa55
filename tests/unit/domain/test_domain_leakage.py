"""The leakage gate's first checks: docs/rules.md, with the evasions that the reference let through."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_events.domain.leakage import (
    CHECKS,
    Fingerprints,
    cleared,
    fingerprint,
    make_fingerprints,
    normalise,
    run_checks,
)
from bat_events.domain.leakage.patterns import FORBIDDEN_NAMES, FORBIDDEN_PARTS

KEY = b"0123456789abcdef0123456789abcdef"
HELDOUT = "Which lobe holds the 7 mm nodule of patient 4411?\nThe nodule lies in the left lower lobe, segment nine."
SHARED = "Write the mask to outputs/mask.npy as uint8."
CANARY = "BAT-canary:7f3e-91ac-55d0"
KNOWN = make_fingerprints([HELDOUT, SHARED], KEY, shared=[SHARED])

CLEAN: Mapping[str, object] = {
    "system": "You have one tool. Files persist between calls; see https://example.org/docs/tools for numpy and/or scipy.",
    "prompt": "Segment the lesion in input/image.npy.\n" + SHARED + " Rate 3/4 and 2 mm/s are fine: a / b too.",
    "files": {
        "setup/environment.json": '{"ready": true, "ratio": "1/2"}',
        "pipeline/infer.py": "y = x[0]/n\nz = (a+b)/c\n",
    },
    "evaluation_content_used": False,
    "rollout_transcript_included": False,
    "seed": 12345,
    "pixel_mean": 0.25,
    "tags": ["recovery", "S3", None],
}


def failures(document: Mapping[str, object], known: Fingerprints | None = KNOWN) -> set[str]:
    return {result.name for result in run_checks(document, known, [CANARY]) if not result.passed}


def with_prompt(text: str) -> dict[str, object]:
    return {**CLEAN, "prompt": f"Segment the lesion. {text}"}


def test_a_clean_state_is_cleared_by_every_check_in_order() -> None:
    results = run_checks(CLEAN, KNOWN, [CANARY])
    assert cleared(results), results
    assert [result.name for result in results] == [
        "forbidden_fields",
        "secrets",
        "absolute_paths",
        "protocol_markers",
        "answers_in_prose",
        "canaries",
        "exact_match",
        "ngram_run",
        "near_duplicate",
    ]
    assert len(results) == len(CHECKS)


def test_nothing_is_cleared_without_results() -> None:
    assert not cleared(())


@pytest.mark.parametrize("known", [None, Fingerprints(key=KEY, exact=frozenset())])
def test_a_gate_without_fingerprints_clears_nothing(known: Fingerprints | None) -> None:
    results = run_checks(CLEAN, known, [CANARY])
    assert not cleared(results)
    assert failures(CLEAN, known) == {"exact_match", "ngram_run", "near_duplicate"}


@pytest.mark.parametrize("part", FORBIDDEN_PARTS)
def test_forbidden_parts_are_found_in_any_spelling(part: str) -> None:
    camel = "".join(word.title() for word in part.split("_"))
    for name in (part, f"my_{part}_2", part.upper(), part.replace("_", "-"), camel, part.replace("_", "​_")):
        assert failures({**CLEAN, "meta": {name: "x"}}) == {"forbidden_fields"}
    first, second = part.split("_")
    assert failures({**CLEAN, first: {second: [{"deep": 1}]}}) == {"forbidden_fields"}


@pytest.mark.parametrize("name", [*FORBIDDEN_NAMES, "Gold", "GROUND-TRUTH", "groundTruth", "ａｎｓｗｅｒ", "an​swer"])
def test_forbidden_names_are_found_wherever_they_stand(name: str) -> None:
    assert failures({**CLEAN, "extra": [{"a": [{name: 1}]}]}) == {"forbidden_fields"}


@pytest.mark.parametrize("name", ["answer_format", "golden_hour", "solution_path_hint", "truth"])
def test_a_name_that_only_resembles_a_forbidden_one_is_fine(name: str) -> None:
    assert failures({**CLEAN, name: "x"}) == set()


@pytest.mark.parametrize(
    ("name", "value", "fails"),
    [
        ("teacher_completion_included", False, False),
        ("teacher_completion_included", True, True),
        ("teacher_completion_included", 0, True),
        ("teacher_completion", False, True),
        ("expected_answer", False, True),
    ],
)
def test_only_a_false_flag_may_name_what_is_not_included(name: str, value: object, fails: bool) -> None:
    assert ("forbidden_fields" in failures({**CLEAN, name: value})) is fails


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcDEF0123456789xyz",
        "authorization: bearer abcdef.0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "ghp_0123456789abcdef0123456789abcdef0123",
        "hf_abcdefghijklmnopqrstuvwx",
        "sk-proj-0123456789abcdefghij",
        "api_key = 'q8d7f6g5h4j3'",
        'password: "correct-horse"',
        "postgres://user:hunter22@db/x",
        "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK",
        "Ｂｅａｒｅｒ abcDEF0123456789xyz",
    ],
)
def test_secrets_are_found(text: str) -> None:
    assert "secrets" in failures(with_prompt(text))


@pytest.mark.parametrize(
    "text",
    [
        "/home/user/x",
        "/workspace/out.csv",
        "see /data/private for more",
        "/lustre",
        "path:/home",
        "path=/gpfs/run7",
        "(/opt/models/a)",
        "x)/home/user",
        "'/etc/passwd'",
        "/tmp",
        "C:\\Users\\me",
        "D:/data/x",
        "\\\\server\\share",
        "file:///srv/x",
        "~/secrets.txt",
        "~root/x",
        "$HOME/x",
        "%USERPROFILE%\\x",
        "/Volumes/disk",
        "/some/unknown/root",
        "／home／user",
        "/ho​me/user",
    ],
)
def test_absolute_paths_of_any_system_are_found(text: str) -> None:
    assert "absolute_paths" in failures(with_prompt(text))


@pytest.mark.parametrize(
    "text",
    [
        "input/image.npy",
        "./outputs/mask.npy",
        "../x",
        "https://example.org/home/x",
        "and/or",
        "10 mg/ml",
        "a[i]/data.sum()",
        "total /= n",
        "x = a / b",
        "r'\\n\\t'",
        "ratio 3/4",
        "</b>",
        "//",
        "S1/S2/S3",
    ],
)
def test_what_is_not_an_absolute_path_is_left_alone(text: str) -> None:
    assert failures(with_prompt(text)) == set()


@pytest.mark.parametrize(
    "text",
    [
        "[TOOL_CALLS]",
        "<|im_start|>",
        "<tool_call>",
        "</tool_response>",
        "<function=execute_code>",
        "< tool >",
        "[/INST]",
    ],
)
def test_protocol_marks_are_found(text: str) -> None:
    assert failures(with_prompt(text)) == {"protocol_markers"}


@pytest.mark.parametrize(
    "spelt",
    [
        CANARY,
        CANARY.lower(),
        CANARY.replace("-", ""),
        CANARY.replace("-", " "),
        CANARY.replace("7", "7​"),
        "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in CANARY),
        f"in the middle {CANARY} of a text",
    ],
)
def test_canaries_are_found_in_text_and_in_names(spelt: str) -> None:
    assert "canaries" in failures(with_prompt(spelt))
    assert "canaries" in failures({**CLEAN, "deep": [{spelt: 1}]})


def test_a_canary_too_short_to_be_one_is_refused_and_not_quoted() -> None:
    with pytest.raises(ValueError, match="fewer than 8") as caught:
        run_checks(CLEAN, KNOWN, ["--abc--"])
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize(
    "spelt",
    [
        HELDOUT,
        HELDOUT.upper(),
        HELDOUT.replace(" ", "  ").replace(",", " -"),
        HELDOUT.splitlines()[1],
        f"Consider this.\n{HELDOUT.splitlines()[0]}\nThen go on.",
        HELDOUT.splitlines()[1].replace("nodule", "nod​ule"),
        "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in HELDOUT.splitlines()[1]),
    ],
)
def test_held_out_text_is_found_however_it_is_spelt(spelt: str) -> None:
    assert failures({**CLEAN, "prompt": spelt}) == {"exact_match", "ngram_run"}
    assert "exact_match" in failures({**CLEAN, "list": [[{spelt.splitlines()[-2 if "Then" in spelt else -1]: 0}]]})


def test_text_that_both_planes_share_is_not_held_out() -> None:
    assert failures({**CLEAN, "prompt": SHARED}) == set()
    assert failures({**CLEAN, "prompt": SHARED}, make_fingerprints([HELDOUT, SHARED], KEY)) == {
        "exact_match",
        "ngram_run",
    }


def test_short_pieces_are_not_fingerprinted() -> None:
    assert make_fingerprints(["yes\nno\nok"], KEY).exact == frozenset()


def test_fingerprints_need_the_key() -> None:
    other = make_fingerprints([HELDOUT], KEY[::-1])
    assert not other.exact & KNOWN.exact
    assert fingerprint(HELDOUT, KEY) in KNOWN.exact
    assert "nodule" not in repr(KNOWN)
    with pytest.raises(ValueError, match="16 bytes"):
        make_fingerprints([HELDOUT], b"short")


def test_evidence_names_the_place_and_quotes_nothing() -> None:
    document = {
        "a": {CANARY: {"password=letmein123": "Bearer abcDEF0123456789xyz"}},
        "b": [HELDOUT, "/home/someone"],
    }
    results = run_checks(document, KNOWN, [CANARY])
    evidence = "\n".join(line for result in results for line in result.evidence)
    for told in (CANARY, "7f3e", "letmein123", "abcDEF", "nodule", "someone"):
        assert told not in evidence
    assert "held-out text at $.b[0]" in evidence
    assert "absolute path at $.b[1]" in evidence
    assert "bearer token at $.a.<field 0>.<field 0>" in evidence


def test_evidence_is_bounded() -> None:
    results = run_checks({**CLEAN, "many": ["/home/x"] * 50}, KNOWN, [CANARY])
    paths = next(result for result in results if result.name == "absolute_paths")
    assert len(paths.evidence) == 9
    assert paths.evidence[-1] == "and 42 more"


@pytest.mark.parametrize("value", [b"bytes", {1: "x"}, {"x": {1, 2}}])
def test_what_cannot_be_read_cannot_be_cleared(value: object) -> None:
    with pytest.raises(ValueError, match=r"at \$"):
        run_checks({**CLEAN, "odd": value}, KNOWN, [CANARY])


def test_letters_that_compose_once_joined_are_composed() -> None:
    assert normalise("\u1100-\u1161") == normalise("\uac00") == "\uac00"


@given(st.text(max_size=40))
def test_normal_form_is_stable(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)
    assert normalise(f" {text}-​") == normalise(text)


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_canary_is_found_between_any_two_texts(before: str, after: str) -> None:
    assert "canaries" in failures({"prompt": f"{before} {CANARY} {after}"})
