"""What the held-out plane publishes of its texts, and which of their pieces are held out at all.

A piece is held out unless published practice text shows it. Text that both planes share by design is left out, and so is what
only puts shared words together in another way (every word known, at most one new pair of neighbours): two instances of one
template meet by chance in it. Two instances of a template also differ in numbers: see stream.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bat_events.domain.leakage.keyed import PAIR, RUN, Hasher, Hashes, seal, unseal
from bat_events.domain.leakage.sketch import MINIMUM_SHINGLES, PERMUTATIONS, Sketches, sketches
from bat_events.domain.leakage.stream import TELLING_DIGITS, Flags, Line, Reader, Stream, runs, shingles, stream
from bat_events.domain.leakage.text import fold, normalise, words
from bat_events.domain.leakage.views import DIGEST

RULE = 2  # of everything in this package that makes a fingerprint; gate and evaluator must agree
NEW_PAIRS = 2  # of a line, to be held out: a new word makes two; another choice from a short list one at most
NEW_PAIRS_IN_RUN = 3  # of 8 words, within sentences, to be held out: two new words; one alone is met by chance
_SENTENCE = re.compile(r"[.?!;:]+\s+")
MINIMUM_FINGERPRINTED = 16  # normalised characters of an exact piece; shorter text is shared by chance


@dataclass(frozen=True, kw_only=True, eq=False)
class Fingerprints:
    """What the gate knows of held-out text. `windows` and the rest are None where only exact pieces were published."""

    key: bytes = field(repr=False)
    exact: frozenset[str]  # HMAC-SHA256 of each normalised text and line, 64 hex digits
    windows: Hashes | None = None  # sorted keyed hashes of runs of 8 words
    shared: Hashes | None = None  # sorted keyed hashes of the shared text's shingles
    sketches: Sketches | None = None

    @property
    def complete(self) -> bool:
        """Whether every kind was published; an empty kind is one, a missing one is not."""
        return bool(self.exact) and self.windows is not None and self.shared is not None and self.sketches is not None


def fingerprint(text: str, key: bytes) -> str:
    """The exact fingerprint of a text."""
    return Hasher(key).exact(normalise(text))


class SharedText:
    """Published text: what it holds is held out from nobody."""

    def __init__(self, reader: Reader, texts: Iterable[str]) -> None:
        whole = {text: reader.lines(text) for text in dict.fromkeys(texts)}
        lines = {line.text: line for found in whole.values() for line in found}
        self._hasher = reader.hasher
        self._pieces = {"".join(line.normal for line in found) for found in whole.values()}
        self._pieces |= {line.normal for line in lines.values()}
        # Digests of files are exact pieces only: as words they would be new in every instance.
        read = [stream(found) for text, found in whole.items() if not DIGEST.match(text)]
        self._words = _unique(part.hashes for part in read)
        self._pairs = _unique(reader.hasher.runs(part.hashes, PAIR) for part in read)
        self.windows = _unique(runs(reader.hasher, part)[0] for part in read)
        self.shingles = _unique(shingles(reader.hasher, part)[0] for part in read)

    @classmethod
    def of(cls, texts: Iterable[str]) -> "SharedText":
        """Read under a key that does not matter, for counting."""
        return cls(Reader(Hasher(bytes(32))), texts)

    @property
    def pairs(self) -> int:
        """How many distinct pairs of neighbouring words there are, digits masked."""
        return len(self._pairs)

    def holds(self, line: Line) -> bool:
        """Whether a line is shared: as it stands, or as known words in known pairs (one pair may be new).

        Lines of one template that differ in a few listed values are met by chance. Long numbers are not.
        """
        if line.normal in self._pieces:
            return True
        if line.digits >= TELLING_DIGITS:
            return False
        read = stream((line,))
        return bool(np.isin(read.hashes, self._words).all()) and self.new_pairs(read).sum() < NEW_PAIRS

    def new_pairs(self, words: Stream) -> Flags:
        """For each pair of neighbouring words, whether shared text does not hold it. Digits are masked."""
        return ~np.isin(self._hasher.runs(words.hashes, PAIR), self._pairs)


def make_fingerprints(texts: Collection[str], key: bytes, shared: Collection[str] = ()) -> Fingerprints:
    """Fingerprint `texts`, whole, line by line and by runs of words, without what `shared` texts hold too.

    Exact pieces of fewer than 16 normalised characters are left out. Raises ValueError on a key of fewer than 16 bytes.
    """
    reader = Reader(Hasher(key))
    common = SharedText(reader, shared)
    exact: set[str] = set()
    windows: list[Hashes] = []
    sets: list[Hashes] = []
    for text in dict.fromkeys(texts):
        lines = reader.lines(text)
        pieces = {line.normal for line in lines if not common.holds(line)}
        if pieces:
            pieces.add("".join(line.normal for line in lines))
        exact |= {reader.hasher.exact(piece) for piece in pieces if len(piece) >= MINIMUM_FINGERPRINTED}
        read = stream(lines)
        found, telling, numeric = runs(reader.hasher, read)
        new = _sums(common.new_pairs(read) & _within_sentences(lines), RUN - 1) >= NEW_PAIRS_IN_RUN
        windows.append(found[telling & (new | numeric)])
        parts = _without(np.unique(shingles(reader.hasher, read)[0]), common.shingles)
        if len(parts) >= MINIMUM_SHINGLES:
            sets.append(parts)
    return Fingerprints(
        key=key,
        exact=frozenset(exact),
        windows=_without(_unique(windows), common.windows),
        shared=common.shingles,
        sketches=sketches(sets),
    )


def pack(values: Hashes | Sketches, key: bytes) -> bytes:
    """Hashes (64 bits) or sketches (32 bits, row after row) as sealed little-endian bytes."""
    return seal(values.astype(values.dtype.newbyteorder("<")).tobytes(), key)


def unpack_hashes(sealed: bytes, key: bytes) -> Hashes:
    """The inverse of `pack` for hashes. Raises ValueError, see `unseal`."""
    return np.frombuffer(unseal(sealed, key), dtype="<u8").astype(np.uint64)


def unpack_sketches(sealed: bytes, key: bytes) -> Sketches:
    """The inverse of `pack` for sketches. Raises ValueError, see `unseal`."""
    return np.frombuffer(unseal(sealed, key), dtype="<u4").astype(np.uint32).reshape(-1, PERMUTATIONS)


def _unique(parts: Iterable[Hashes]) -> Hashes:
    found: Sequence[Hashes] = [np.zeros(0, dtype=np.uint64), *parts]
    return np.unique(np.concatenate(found))


def _without(values: Hashes, known: Hashes) -> Hashes:
    return values[~np.isin(values, known)]


def _within_sentences(lines: Sequence[Line]) -> Flags:
    """For each pair of neighbouring words, whether one sentence holds both: known sentences meet in any order."""
    inside: list[bool] = []
    for line in lines:
        counts = [len(words(fold(part))) for part in _SENTENCE.split(line.text)]
        if sum(counts) != line.words:  # a character that folds to punctuation: only the line's end is a break
            counts = [line.words]
        for count in counts:
            inside += [True] * (count - 1) + [False] * (count > 0)
    return np.array(inside[:-1], dtype=bool)


def _sums(flags: Flags, size: int) -> npt.NDArray[np.int64]:
    """How many of each `size` neighbouring flags are set."""
    if len(flags) < size:
        return np.zeros(0, dtype=np.int64)
    total = np.concatenate([[0], np.cumsum(flags)])
    counted: npt.NDArray[np.int64] = total[size:] - total[:-size]
    return counted
