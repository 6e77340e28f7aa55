"""A wording stands for its line when it states the same facts in the same order, and nothing invisible."""

import pytest

from bat_events.benchmark.registry import benchmark
from bat_events.domain.vocabulary import Focus, Track
from bat_events.domain.wording import blocks, line_facts, most_characters, rewordable, reworded, wording_fault

TERMS = frozenset({"plan", "cases", "readable", "unreadable", "smooth"})
LINE = "check plan_cases: it lists the readable cases exactly, at most 4 in plan/plan.json, not more"


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        (LINE, ("plan_cases", "readable", "cases", "4", "plan/plan.json", "not")),
        ("m.smooth(level), m.base(2); SSIM in [0, 1]", ("m.smooth(level", "m.base(2", "SSIM", "[", "0", "1", "]")),
        ("Readable Cases (all of them) count once.", ("readable", "cases", "once")),
        ("arrays as .npy under 65536 bytes", (".npy", "65536")),
        ("it's 90% of x = 1 - y", ("90", "%", "=", "1")),
    ],
)
def test_facts_are_names_numbers_signs_terms_and_negations(line: str, facts: tuple[str, ...]) -> None:
    assert line_facts(line, TERMS) == facts


@pytest.mark.parametrize(
    "after",
    [
        LINE,
        "For plan_cases we look whether exactly the readable cases, 4 at most, stand in plan/plan.json and not others.",
        "'plan_cases' asks: readable cases alone, no".replace(", no", "") + " (up to 4) in plan/plan.json; not beyond",
    ],
)
def test_other_plain_words_around_the_same_facts_stand_for_the_line(after: str) -> None:
    assert wording_fault(LINE, after, TERMS) is None


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ("check plan_cases: it lists the readable cases exactly, in plan/plan.json, not more", "fact 4, '4'"),
        ("check plan_cases: it lists readable cases, at most 5 in plan/plan.json, not more", "fact 4, '4'"),
        ("check plan_cases: it lists unreadable cases, at most 4 in plan/plan.json, not more", "fact 2, 'readable'"),
        ("check plan_cases: cases that are readable, at most 4 in plan/plan.json, not more", "fact 2, 'readable'"),
        ("check plan_cases: it lists the readable cases, at most 4 in plan/plan.json, always more", "fact 6, 'not'"),
        (
            "check plan_cases: it lists readable cases, at most 4 in plan/Plan.json, not more",
            "fact 5, 'plan/plan.json'",
        ),
        (LINE + " or smooth", "more than the 6 facts"),
        (LINE + " within 7 days", "more than the 6 facts"),
        (LINE + " as Bob_7 said", "more than the 6 facts"),
        ("", "empty"),
        (LINE + " ", "spaces around"),
        (LINE + "\nseen: much", "line breaks or invisible"),
        (LINE.replace("it lists", "it\u200blists"), "line breaks or invisible"),
        (LINE.replace("it", "ｉｔ", 1), "forms that stand for others"),
        (LINE + " and so on" * 30, "characters where"),
    ],
)
def test_what_cannot_stand_for_the_line_is_refused_without_quoting_it(after: str, words: str) -> None:
    fault = wording_fault(LINE, after, TERMS)
    assert fault is not None
    assert words in fault
    assert "Bob" not in fault


def test_lines_are_replaced_where_they_stand_and_others_stay() -> None:
    assert reworded("a\nb\na\n", {"a": "A one"}) == "A one\nb\nA one\n"
    assert blocks(["1", "2", "3"], 2) == [("1", "2"), ("3",)]
    assert most_characters("ten") == 46


@pytest.mark.parametrize("track", list(Track))
@pytest.mark.parametrize("focus", list(Focus))
def test_the_benchmarks_sentences_are_published_lines_that_its_files_repeat(track: Track, focus: Focus) -> None:
    mini = benchmark("mini")
    prose = mini.prose(track, focus)
    assert prose.lines <= mini.published(track, focus) & mini.published(track, Focus.E2E)
    assert sum(rewordable(line, prose.terms) for line in prose.lines) >= 5
    assert not any(line.startswith(("track:", "plan/", "outputs/")) for line in prose.lines)
    assert all(term == term.casefold() for term in prose.terms)
