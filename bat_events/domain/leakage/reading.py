"""What one text says, in every view of it: read once, whatever document it stands in.

A reading holds no place and no quotation, so that a kept one can serve every document that repeats the text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bat_events.domain.leakage.fingerprints import MINIMUM_FINGERPRINTED, Fingerprints
from bat_events.domain.leakage.keyed import RUN, Hasher, Hashes
from bat_events.domain.leakage.patterns import ANSWERS, FORBIDDEN_PARTS, MARKERS, NEEDLES, OPEN_END, PATHS, SECRETS
from bat_events.domain.leakage.stream import Flags, Line, Reader, joined, runs, shingles
from bat_events.domain.leakage.text import normalise, visible
from bat_events.domain.leakage.views import DIGEST, MAXIMUM_DEPTH, spaced, suspect, views

PATTERNS: Mapping[str, Mapping[str, re.Pattern[str]]] = {
    "secrets": SECRETS,
    "absolute_paths": PATHS,
    "protocol_markers": MARKERS,
    "answers_in_prose": ANSWERS,
}
_MAXIMUM_VIEWS = 64  # of one text
_KEPT = 20_000
_KEYS_IN_TEXT = re.compile(r'"([^"\n]{1,80})"\s*:')
_PARTS = tuple(normalise(part) for part in FORBIDDEN_PARTS)
Places = npt.NDArray[np.int64]
_EXACT = ("exact_match", "held-out text")
_END = 32  # characters of a line that say whether the next one may end what it begins
_NOTHING = np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class LineFindings:
    """A line, and what it shows alone."""

    line: Line
    kinds: tuple[tuple[str, str], ...]
    suspect: bool
    open_end: bool
    plain: bool  # nothing of these


@dataclass(slots=True)
class Reading:
    """What was found in a text: (check, what). `shingles` are its own ones, without those of shared text."""

    found: list[tuple[str, str]] = field(default_factory=list)
    shingles: Hashes = field(default_factory=lambda: _NOTHING)


class Table:
    """Membership of 64-bit hashes: a byte table that nearly always answers no, then a search."""

    def __init__(self, values: Hashes, bits_each: int = 64) -> None:
        size = 1 << max(12, (len(values) * bits_each).bit_length())
        self._values = values
        self._mask = np.uint64(size - 1)
        self._table = np.zeros(size, dtype=bool)
        self._table[self._slot(values)] = True

    def _slot(self, values: Hashes) -> Hashes:
        return (values >> np.uint64(20)) & self._mask

    def perhaps(self, values: Hashes) -> Flags:
        """False means no; true means yes but for one in 64."""
        return self._table[self._slot(values)]

    def hits(self, values: Hashes, valid: Flags) -> Places:
        """The indices of valid values that are members."""
        asked: Places = np.flatnonzero(valid)
        near: Places = asked[self.perhaps(values[asked])]
        if len(near) == 0 or len(self._values) == 0:
            return near[:0]
        place = np.minimum(np.searchsorted(self._values, values[near]), len(self._values) - 1)
        found: Places = near[self._values[place] == values[near]]
        return found


class TextReader:
    """Reads texts under one campaign's fingerprints; keeps what it read (bounded)."""

    def __init__(self, fingerprints: Fingerprints | None, canaries: Sequence[str]) -> None:
        # Without a key nothing is compared with held-out text, and lines are read under any key.
        self._hasher = Hasher(fingerprints.key if fingerprints is not None else bytes(32))
        self._reader = Reader(self._hasher)
        self._exact = fingerprints.exact if fingerprints is not None else frozenset()
        known = fingerprints.windows if fingerprints is not None else None
        shared = fingerprints.shared if fingerprints is not None else None
        self._windows = None if known is None else Table(known)
        self._shared = None if shared is None else Table(shared)
        self._canaries = [normalise(canary) for canary in canaries]
        self._lines: dict[str, LineFindings] = {}
        self._pairs: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {}
        self._kept: dict[str, Reading] = {}

    def read(self, texts: Sequence[str]) -> list[Reading]:
        """A reading of each text. All runs of words of what is new are looked up at once."""
        if len(self._kept) > _KEPT:
            self._kept.clear()
        kept, readings = self._kept, []
        streams: list[tuple[Reading, str, Sequence[Line]]] = []
        for text in texts:
            reading = kept.get(text)
            if reading is None:
                reading = kept[text] = Reading()
                self._begin(text, reading, streams)
            readings.append(reading)
        if streams:
            self._look_up(streams)
        return readings

    def _begin(self, text: str, reading: Reading, streams: list[tuple[Reading, str, Sequence[Line]]]) -> None:
        """Everything but the runs of words, which are left in `streams`."""
        if text.startswith("sha256 ") and DIGEST.match(text):
            if self._is_exact(text.replace(" ", "")):
                reading.found.append(_EXACT)
            return
        waiting: list[tuple[str, str, int]] = [("", visible(text), 0)]
        parted = spaced(text)
        if parted is not None:
            waiting.append(("invisible spaces", parted, 0))
        seen = {view for _, view, _ in waiting}
        while waiting and len(seen) <= _MAXIMUM_VIEWS:
            label, view, depth = waiting.pop(0)
            known = self._lines
            found = [known.get(line) or self._line(line) for line in view.splitlines() if line]
            lines = [one.line for one in found]
            encoded = self._patterns(label, found, view, reading)
            if sum([line.words for line in lines]) >= 3:
                streams.append((reading, label, lines))
            if encoded and depth < MAXIMUM_DEPTH:
                for how, other in views(view, encoded):
                    if other not in seen:
                        seen.add(other)
                        waiting.append((f"{label}, {how}".lstrip(", "), other, depth + 1))

    def _patterns(self, label: str, lines: Sequence[LineFindings], view: str, reading: Reading) -> bool:
        """Add what patterns, canaries and exact pieces find; whether it may hold an encoding."""
        encoded = len(lines) >= RUN and len(view) < 6 * len(lines)
        for number in [number for number, found in enumerate(lines) if not found.plain]:
            found = lines[number]
            if number and lines[number - 1].open_end:
                reading.found += _labelled(self._pair(lines[number - 1], found), label)
            reading.found += _labelled(found.kinds, label)
            encoded = encoded or found.suspect
            if found.open_end and number + 1 < len(lines) and lines[number + 1].plain:
                reading.found += _labelled(self._pair(found, lines[number + 1]), label)
        normal = "".join([found.line.normal for found in lines])
        if len(lines) > 1 and self._is_exact(normal):
            reading.found += _labelled((_EXACT,), label)
        for number, canary in enumerate(self._canaries):
            if canary in normal:
                reading.found += _labelled((("canaries", f"canary {number}"),), label)
        if view[:1] in ("{", "["):
            names = "|".join([normalise(name) for name in _KEYS_IN_TEXT.findall(view)])
            if any(part in names for part in _PARTS):
                reading.found += _labelled((("forbidden_fields", "forbidden field inside the text"),), label)
        return encoded

    def _pair(self, first: LineFindings, second: LineFindings) -> tuple[tuple[str, str], ...]:
        """What a line shows together with the one that it left open."""
        key = (first.line.text, second.line.text)
        kinds = self._pairs.get(key)
        if kinds is None:
            if len(self._pairs) > _KEPT:
                self._pairs.clear()
            kinds = self._pairs[key] = tuple(_kinds("\n".join(key)))
        return kinds

    def _line(self, text: str) -> LineFindings:
        if len(self._lines) > 5 * _KEPT:
            self._lines.clear()
        line = self._reader.line(text)
        kinds = [*_kinds(text), *([_EXACT] if self._is_exact(line.normal) else [])]
        open_end = OPEN_END.search(text[-_END:]) is not None
        encoded = suspect(text)
        found = LineFindings(
            line=line,
            kinds=tuple(kinds),
            suspect=encoded,
            open_end=open_end,
            plain=not (kinds or open_end or encoded),
        )
        self._lines[text] = found
        return found

    def _is_exact(self, normal: str) -> bool:
        if not self._exact or len(normal) < MINIMUM_FINGERPRINTED:
            return False
        return self._hasher.exact(normal) in self._exact

    def _look_up(self, streams: Sequence[tuple[Reading, str, Sequence[Line]]]) -> None:
        """Runs of 8 words in both orders of the lines, and each text's own shingles."""
        if self._windows is None or self._shared is None:
            return
        backward = [place for place, (_, _, lines) in enumerate(streams) if len(lines) > 1]
        parts = [lines for _, _, lines in streams] + [streams[place][2][::-1] for place in backward]
        words, starts = joined(parts)
        found, valid, _ = runs(self._hasher, words)
        hits = self._windows.hits(found, valid)
        if len(hits):
            owners = np.searchsorted(starts, hits, side="right") - 1
            for part in np.unique(owners):
                reading, label, _ = streams[part] if part < len(streams) else streams[backward[part - len(streams)]]
                if part >= len(streams):
                    label = f"{label}, lines in reverse".lstrip(", ")
                length, at = _longest(hits[owners == part] - starts[part])
                reading.found += _labelled((("ngram_run", f"{length} words of held-out text from word {at}"),), label)
        forward = starts[len(streams)] if backward else len(words.hashes)
        pieces, whole = shingles(self._hasher, words, forward)
        asked = np.flatnonzero(whole)
        own = asked[~self._shared.perhaps(pieces[asked])]
        if len(own):
            edges = np.searchsorted(own, [*starts[: len(streams)], forward])
            for place, (reading, _, _) in enumerate(streams):
                if edges[place] < edges[place + 1]:
                    mine = pieces[own[edges[place] : edges[place + 1]]]
                    reading.shingles = np.concatenate([reading.shingles, mine])


def _kinds(text: str) -> Iterator[tuple[str, str]]:
    lower = text.lower()
    for check, patterns in PATTERNS.items():
        for needle in NEEDLES[check]:
            if needle in lower:
                for kind, pattern in patterns.items():
                    if pattern.search(text):
                        yield check, kind
                break


def _labelled(kinds: "Sequence[tuple[str, str]] | Iterator[tuple[str, str]]", label: str) -> list[tuple[str, str]]:
    return [(check, f"{kind} ({label})" if label else kind) for check, kind in kinds]


def _longest(places: Places) -> tuple[int, int]:
    """(words, first word) of the longest stretch that runs found at these places cover without a gap."""
    ends = np.flatnonzero(np.diff(places, append=places[-1] + RUN + 1) > RUN)
    begins = np.concatenate([[0], ends[:-1] + 1])
    best = int(np.argmax(places[ends] - places[begins]))
    return int(places[ends[best]] - places[begins[best]]) + RUN, int(places[begins[best]])
