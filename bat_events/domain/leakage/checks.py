"""The leakage gate's checks of one document that wants to enter training, in order, each with its evidence.

Evidence names the place and the kind of a finding and never quotes it, so a verdict cannot leak what it found. Held-out
text is known only by keyed fingerprints; without all of them nothing is cleared.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bat_events.domain.leakage.document import Field, render, together, walk
from bat_events.domain.leakage.fingerprints import Fingerprints
from bat_events.domain.leakage.patterns import FLAG_ENDINGS, FORBIDDEN_NAMES, FORBIDDEN_PARTS
from bat_events.domain.leakage.reading import Reading, TextReader
from bat_events.domain.leakage.sketch import SIMILAR, similarity
from bat_events.domain.leakage.text import normalise

# The order of the verdict: cheap and certain first.
CHECKS = (
    "forbidden_fields",
    "secrets",
    "absolute_paths",
    "protocol_markers",
    "answers_in_prose",
    "canaries",
    "exact_match",
    "ngram_run",
    "near_duplicate",
)
MINIMUM_CANARY = 8  # letters and digits
MAXIMUM_NAME = 60  # characters of a field name that evidence may show
MAXIMUM_FINDINGS = 8  # per check; more would tell a reader nothing new
_NAMES_KEPT = 50_000
_PARTS = tuple(normalise(part) for part in FORBIDDEN_PARTS)
_EXACT_NAMES = frozenset(normalise(name) for name in FORBIDDEN_NAMES)
_UNPUBLISHED = {
    "exact_match": "no held-out fingerprints: nothing can be cleared until they are published",
    "ngram_run": "no held-out runs of words: nothing can be cleared until they are published",
    "near_duplicate": "no sketches of held-out texts: nothing can be cleared until they are published",
}


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One check's outcome; `evidence` says where and what kind, never the text itself."""

    name: str
    passed: bool
    evidence: tuple[str, ...]


class Scanner:
    """Checks documents of one campaign one after another, keeping what it has read of texts that repeat."""

    def __init__(self, fingerprints: Fingerprints | None, canaries: Collection[str] = ()) -> None:
        """Raises ValueError on a canary too short to be told from chance."""
        for canary in canaries:
            if len(normalise(canary)) < MINIMUM_CANARY:
                # Not quoted: whoever reads the error may not be meant to know it.
                raise ValueError(f"a canary has fewer than {MINIMUM_CANARY} letters and digits: make it longer")
        self._known = fingerprints
        self._reader = TextReader(fingerprints, sorted(canaries))
        self._names: dict[tuple[str, ...], bool] = {}
        self._clear = _clear_results(fingerprints, len(canaries))
        self._missing = {name: text for name, text in _UNPUBLISHED.items() if not _published(fingerprints, name)}

    def check(self, document: Mapping[str, object]) -> tuple[CheckResult, ...]:
        """Every check in order, all of them even after a failure: the verdict records each one's evidence.

        Raises ValueError on a value that JSON does not have: it could not be read, so it could not be cleared.
        """
        fields = walk(document)
        names = sorted({field.names[-1] for field in fields if field.named})
        texts = [field for field in fields if isinstance(field.value, str)]
        joins = list(dict.fromkeys(together(fields)))
        strings = [*names, *(str(field.value) for field in texts), *joins]
        readings = self._reader.read(strings)
        of_names, of_texts = readings[: len(names)], readings[len(names) : len(names) + len(texts)]
        of_joins = readings[len(names) + len(texts) :]
        found: dict[str, list[str]] = {}
        forbidden = [field for field in fields if self._is_forbidden(field)]
        if forbidden or any(reading.found for reading in readings):
            found = self._found(document, names, texts, forbidden, of_names, of_texts, of_joins)
        self._near(of_texts, texts, document, found)
        for name, text in self._missing.items():
            found[name] = [text]
        if not found:
            return self._clear
        return tuple(_result(clear.name, found[clear.name]) if clear.name in found else clear for clear in self._clear)

    def _is_forbidden(self, field: Field) -> bool:
        if not field.named or (field.value is False and field.names[-1].casefold().endswith(FLAG_ENDINGS)):
            return False
        known = self._names.get(field.names)
        if known is None:
            if len(self._names) > _NAMES_KEPT:
                self._names.clear()
            whole = normalise("".join(field.names))
            known = normalise(field.names[-1]) in _EXACT_NAMES or any(part in whole for part in _PARTS)
            self._names[field.names] = known
        return known

    def _found(
        self,
        document: object,
        names: Sequence[str],
        texts: Sequence[Field],
        forbidden: Sequence[Field],
        of_names: Sequence[Reading],
        of_texts: Sequence[Reading],
        of_joins: Sequence[Reading],
    ) -> dict[str, list[str]]:
        hidden = frozenset(
            name
            for name, reading in zip(names, of_names, strict=True)
            if len(name) > MAXIMUM_NAME or any(check != "answers_in_prose" for check, _ in reading.found)
        )
        found: dict[str, list[str]] = {}
        for field in forbidden:
            where = render(field.place, document, hidden)
            found.setdefault("forbidden_fields", []).append(f"forbidden field at {where}")
        for reading in of_names:
            for check, what in reading.found:
                found.setdefault(check, []).append(f"{what} at the name of a field")
        for field, reading in zip(texts, of_texts, strict=True):
            if reading.found:
                where = render(field.place, document, hidden)
                for check, what in reading.found:
                    found.setdefault(check, []).append(f"{what} at {where}")
        alone = frozenset(found)  # what neighbours make together is told where no field shows it alone
        for reading in of_joins:
            for check, what in reading.found:
                if check not in alone:
                    found.setdefault(check, []).append(f"{what} across neighbouring fields")
        return found

    def _near(
        self, readings: Sequence[Reading], texts: Sequence[Field], document: object, found: dict[str, list[str]]
    ) -> None:
        """Near copies: each text by itself, then all of the document's own shingles together."""
        if self._known is None or self._known.sketches is None:
            return
        own = [
            (field, reading.shingles) for field, reading in zip(texts, readings, strict=True) if len(reading.shingles)
        ]
        for field, shingles in own:
            alike = similarity(shingles, self._known.sketches)
            if alike >= SIMILAR:
                where = render(field.place, document, frozenset(field.names))
                found.setdefault("near_duplicate", []).append(f"near copy of held-out text ({alike:.2f}) at {where}")
        if len(own) > 1 and "near_duplicate" not in found:
            alike = similarity(np.concatenate([shingles for _, shingles in own]), self._known.sketches)
            if alike >= SIMILAR:
                found["near_duplicate"] = [f"near copy of held-out text ({alike:.2f}) across the document"]


def run_checks(
    document: Mapping[str, object], fingerprints: Fingerprints | None, canaries: Collection[str] = ()
) -> tuple[CheckResult, ...]:
    """Check one document; a Scanner is faster for many. Raises ValueError, see Scanner."""
    return Scanner(fingerprints, canaries).check(document)


def cleared(results: Sequence[CheckResult]) -> bool:
    """Whether the document may enter training: there are results and every one passed."""
    return bool(results) and all(result.passed for result in results)


def _published(known: Fingerprints | None, check: str) -> bool:
    if known is None or not known.exact:
        return False
    if check == "exact_match":
        return True
    return (
        known.windows is not None if check == "ngram_run" else known.shared is not None and known.sketches is not None
    )


def _clear_results(known: Fingerprints | None, canaries: int) -> tuple[CheckResult, ...]:
    said = {"canaries": f"{canaries} canaries looked for"}
    if known is not None and known.complete:
        assert known.windows is not None
        assert known.sketches is not None
        said["exact_match"] = f"{len(known.exact)} fingerprints looked for"
        said["ngram_run"] = f"{len(known.windows)} runs of 8 words looked for"
        said["near_duplicate"] = f"{len(known.sketches)} sketches compared"
    return tuple(CheckResult(name=name, passed=True, evidence=(said[name],) if name in said else ()) for name in CHECKS)


def _result(name: str, found: Sequence[str]) -> CheckResult:
    distinct = list(dict.fromkeys(found))
    evidence = distinct[:MAXIMUM_FINDINGS]
    if len(distinct) > MAXIMUM_FINDINGS:
        evidence.append(f"and {len(distinct) - MAXIMUM_FINDINGS} more")
    return CheckResult(name=name, passed=False, evidence=tuple(evidence))
