"""Texts as streams of word hashes, line by line; each line is read once and kept.

Numbers: a word is hashed with its digits masked, because two instances of one template differ in little else and would meet
by chance. A run of words that holds 12 digits or more is hashed with them: such numbers are not met by chance.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bat_events.domain.leakage.keyed import RUN, SHINGLE, Hasher, Hashes
from bat_events.domain.leakage.text import fold, masked, normalise, words

Flags = npt.NDArray[np.bool_]

TELLING_WORDS = 4  # words that are no numbers, in a run that is hashed without its digits
TELLING_DIGITS = 12  # digits from which numbers are hashed as they stand (40 bits)
_LINES_KEPT = 100_000
_WORDS_KEPT = 200_000
_DIGIT = re.compile(r"\d")
_ONE_DIGIT = 1_000  # in a line's counts: words that are no numbers, plus a thousand for each digit


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `hashes` (digits masked), `raw` (as they stand) and `counts` are packed arrays of one entry a word."""

    text: str
    words: int
    digits: int
    normal: str
    hashes: bytes
    raw: bytes
    counts: bytes


_BREAK = Line(
    text="",
    words=RUN,
    digits=0,
    normal="",
    hashes=bytes(8 * RUN),
    raw=bytes(8 * RUN),
    counts=np.full(RUN, -(10**12), dtype="<i8").tobytes(),
)


@dataclass(frozen=True, slots=True)
class _Word:
    hash: bytes
    raw: bytes
    count: bytes
    digits: int


@dataclass(frozen=True)
class Stream:
    """Word hashes of some lines, and what is needed to say which runs mean something."""

    lines: tuple[Line, ...]
    hashes: Hashes
    counts: npt.NDArray[np.int64]

    @property
    def raw(self) -> Hashes:
        """The words' hashes with their digits; seldom asked for."""
        return np.frombuffer(b"".join([line.raw for line in self.lines]), dtype="<u8")


class Reader:
    """Reads lines under one key."""

    def __init__(self, hasher: Hasher) -> None:
        self.hasher = hasher
        self._lines: dict[str, Line] = {}
        self._words: dict[str, _Word] = {}

    def lines(self, text: str) -> tuple[Line, ...]:
        """The lines that hold anything, in order."""
        known = self._lines
        return tuple([known.get(line) or self.line(line) for line in text.splitlines() if line])

    def line(self, text: str) -> Line:
        """One line, read anew and kept."""
        found = words(fold(text))
        known = self._words
        read = [known.get(word) or self._word(word) for word in found]
        line = Line(
            text=text,
            words=len(found),
            digits=sum([word.digits for word in read]),
            normal="".join(found) if text.isascii() else normalise(text),
            hashes=b"".join([word.hash for word in read]),
            raw=b"".join([word.raw for word in read]),
            counts=b"".join([word.count for word in read]),
        )
        if len(self._lines) >= _LINES_KEPT:
            self._lines.clear()
        self._lines[text] = line
        return line

    def _word(self, word: str) -> _Word:
        digits = len(_DIGIT.findall(word))
        if len(self._words) >= _WORDS_KEPT:
            self._words.clear()
        made = self._words[word] = _Word(
            hash=self.hasher.word(masked(word)),
            raw=self.hasher.word(word),
            count=(_ONE_DIGIT * digits + (not word.isdigit())).to_bytes(8, "little", signed=True),
            digits=digits,
        )
        return made


def stream(lines: Iterable[Line]) -> Stream:
    """The words of the lines as one stream."""
    lines = tuple(lines)
    return Stream(
        lines=lines,
        hashes=np.frombuffer(b"".join([line.hashes for line in lines]), dtype="<u8"),
        counts=np.frombuffer(b"".join([line.counts for line in lines]), dtype="<i8"),
    )


def joined(parts: Sequence[Sequence[Line]]) -> tuple[Stream, list[int]]:
    """One stream of several, with a break between that no run spans; and where each begins."""
    whole: list[Line] = []
    starts, at = [], 0
    for lines in parts:
        starts.append(at)
        at += sum([line.words for line in lines]) + RUN
        whole += lines
        whole.append(_BREAK)
    return stream(whole), starts


def runs(hasher: Hasher, words_: Stream) -> tuple[Hashes, Flags, Flags]:
    """The hash of each run of 8 words, whether it says enough to be held against anyone, and whether by its numbers."""
    total = _sums(words_.counts, RUN)
    found = hasher.runs(words_.hashes, RUN)
    numeric = total >= TELLING_DIGITS * _ONE_DIGIT
    if numeric.any():
        found = np.where(numeric, hasher.runs(words_.raw, RUN), found)
    return found, numeric | ((total >= 0) & (total % _ONE_DIGIT >= TELLING_WORDS)), numeric


def shingles(hasher: Hasher, words_: Stream, count: int | None = None) -> tuple[Hashes, Flags]:
    """The hash of each run of 3 words (the first `count` of them), digits masked, and whether it spans no break."""
    end = None if count is None else count + SHINGLE - 1
    return hasher.runs(words_.hashes[:end], SHINGLE), _sums(words_.counts[:end], SHINGLE) >= 0


def _sums(counts: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    if len(counts) < size:
        return np.zeros(0, dtype=np.int64)
    total = np.concatenate([[0], np.cumsum(counts)])
    difference: npt.NDArray[np.int64] = total[size:] - total[:-size]
    return difference
