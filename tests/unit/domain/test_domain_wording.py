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
        (LINE, ("plan_cases", "readable", "cases", "most", "4", "plan/plan.json", "not", "more")),
        ("m.smooth(level), m.base(2); SSIM in [0, 1]", ("m.smooth(level", "m.base(2", "SSIM", "[", "0", "1", "]")),
        ("Readable Cases (all of them) count once.", ("readable", "cases", "once")),
        ("arrays as .npy under 65536 bytes", (".npy", "under", "65536")),
        ("it's 90% of x = 1 - y", ("90", "%", "=", "1")),
    ],
)
def test_facts_are_names_numbers_signs_terms_and_negations(line: str, facts: tuple[str, ...]) -> None:
    assert line_facts(line, TERMS) == facts


@pytest.mark.parametrize(
    "after",
    [
        LINE,
        "For plan_cases we look whether exactly the readable cases, most of all 4, stand in plan/plan.json and not any more.",
        "'plan_cases' asks: readable cases alone (at the most 4) stand in plan/plan.json; do not put more there",
    ],
)
def test_other_plain_words_around_the_same_facts_stand_for_the_line(after: str) -> None:
    assert wording_fault(LINE, after, TERMS) is None


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (LINE.replace("4 ", ""), "fact 5, '4'"),
        (LINE.replace("4 ", "5 "), "fact 5, '4'"),
        (LINE.replace("at most", "at least"), "fact 4, 'most'"),
        (LINE.replace("readable", "unreadable"), "fact 2, 'readable'"),
        (LINE.replace("the readable cases", "cases that are readable"), "fact 2, 'readable'"),
        (LINE.replace("not", "always"), "fact 7, 'not'"),
        (LINE.replace("plan/plan", "plan/Plan"), "fact 6, 'plan/plan.json'"),
        (LINE + " or smooth", "more than the 8 facts"),
        (LINE + " within 7 days", "more than the 8 facts"),
        (LINE + " as Bob_7 said", "more than the 8 facts"),
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
