"""What a rewording of a state's published text may change, and what it must keep.

Only sentences that the benchmark publishes for all states of a track and focus are reworded; a state's own lines never
are. A sentence's facts are its tokens that are no plain words (names, files, numbers, signs), the benchmark's terms,
numerals, negations and comparisons. A wording has the same facts in the same order, or it is refused. What plain words
say beyond that is not checked here.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence

RULE = "wording-1"
"""Stands in every name of a model's wording: which facts are kept may change only with a new name."""

PROGRAMMATIC = "programmatic"
"""The name of the benchmark's own wording."""

_TOKEN = re.compile(r"[{}\[\]<>=%]|[^\s;{}\[\]<>=%]+")
_BEFORE, _AFTER = "'\"(`*–—-•“‘", ".,:!?'\")`*–—-”’"  # what may stand around a token without being part of it
_PLAIN = re.compile(r"[A-Za-z][a-z]*(?:['’-][a-z]+)*")
_NUMERALS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "half", "tenth", "once", "twice",
)  # fmt: skip
_NEGATIONS = ("no", "not", "nothing", "none", "never", "nor", "neither", "without", "unless", "except", "only")
_COMPARISONS = ("under", "over", "above", "below", "more", "less", "fewer", "most", "least")
_KEPT = frozenset((*_NUMERALS, *_NEGATIONS, *_COMPARISONS))
_FEWEST_WORDS = 3  # plain words that a line needs to be worth saying otherwise
_LONGEST_FACT = 80


def wording_name(model: str) -> str:
    """How a state's event names a model's wording."""
    return f"{model} {RULE}"


def line_facts(line: str, terms: Collection[str]) -> tuple[str, ...]:
    """What a line states exactly, in order. Words count in either case, the rest as written."""
    found = []
    for token in _tokens(line):
        if _PLAIN.fullmatch(token) is None:
            found.append(token)
        elif (word := token.casefold()) in _KEPT or word in terms:
            found.append(word)
    return tuple(found)


def rewordable(line: str, terms: Collection[str]) -> bool:
    """Whether a line has words to say otherwise."""
    return len(_tokens(line)) - len(line_facts(line, terms)) >= _FEWEST_WORDS


def wording_fault(before: str, after: str, terms: Collection[str]) -> str | None:
    """Why `after` does not stand for `before`; None where it does. Never quotes `after`: nothing has checked it yet."""
    if not after.strip() or after != after.strip():
        return "it is empty or has spaces around it"
    if not after.isprintable():
        return "it holds line breaks or invisible characters"
    if unicodedata.normalize("NFKC", after) != after:
        return "it holds characters in forms that stand for others"
    if len(after) > most_characters(before):
        return f"it has {len(after)} characters where {most_characters(before)} are allowed"
    kept, said = line_facts(before, terms), line_facts(after, terms)
    for number, fact in enumerate(kept):
        if number >= len(said) or said[number] != fact:
            return f"fact {number + 1}, {fact[:_LONGEST_FACT]!r}, is missing or not in its place"
    if len(said) > len(kept):
        return f"it states more than the {len(kept)} facts of the line"
    return None


def most_characters(before: str) -> int:
    """How long a line's wording may be."""
    return 2 * len(before) + 40


def reworded(prompt: str, wording: Mapping[str, str]) -> str:
    """The prompt with each line that has a wording said in it."""
    return "\n".join(wording.get(line, line) for line in prompt.split("\n"))


def blocks(lines: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """The lines in parts of at most `size`, in order."""
    return [tuple(lines[at : at + size]) for at in range(0, len(lines), size)]


def _tokens(line: str) -> list[str]:
    return [token for match in _TOKEN.findall(line) if (token := match.lstrip(_BEFORE).rstrip(_AFTER))]
