"""The leakage gate: ordered checks of one document that wants to enter training, each with its evidence.

Evidence names the place and the kind of a finding and never quotes it, so a verdict cannot leak what it found. Held-out
text is known only by keyed fingerprints; without them nothing is admitted. A further check is one more function in CHECKS.
"""

import hashlib
import hmac
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from re import Pattern

from bat_events.domain.leakage_patterns import FLAG_ENDINGS, FORBIDDEN_NAMES, FORBIDDEN_PARTS, MARKERS, PATHS, SECRETS

MINIMUM_FINGERPRINTED = 16  # normalised characters; shorter text is shared by chance
MINIMUM_CANARY = 8
MAXIMUM_NAME = 60  # characters of a field name that evidence may show
MAXIMUM_FINDINGS = 8  # per check; more would tell a reader nothing new


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One check's outcome; `evidence` says where and what kind, never the text itself."""

    name: str
    passed: bool
    evidence: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Fingerprints:
    """What the gate knows of held-out text: HMAC-SHA256 under `key` of each normalised text and each of its lines."""

    key: bytes
    exact: frozenset[str]


@dataclass(frozen=True)
class Text:
    """One string of a document, and where it stands; field names are texts too.

    `visible` is the string without invisible characters and full-width forms, `normal` its letters and digits.
    """

    path: str
    value: str
    visible: str
    normal: str

    @classmethod
    def of(cls, path: str, value: str) -> "Text":
        """Read a string once for all checks."""
        return cls(path, value, _visible(value), normalise(value))


@dataclass(frozen=True)
class Field:
    """One value of a document. `names` are the field names from the root; `named` is false for an item of a list."""

    path: str
    names: tuple[str, ...]
    named: bool
    value: object


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A document taken apart, as every check reads it."""

    fields: tuple[Field, ...]
    texts: tuple[Text, ...]
    fingerprints: Fingerprints | None
    canaries: tuple[str, ...]


def run_checks(
    document: Mapping[str, object], fingerprints: Fingerprints | None, canaries: Collection[str] = ()
) -> tuple[CheckResult, ...]:
    """Every check in order, all of them even after a failure: the verdict records each one's evidence.

    Raises ValueError on a value that JSON does not have (it could not be read, so it could not be cleared) and on a
    canary too short to be told from chance.
    """
    for canary in canaries:
        if len(normalise(canary)) < MINIMUM_CANARY:
            # Not quoted: whoever reads the error may not be meant to know it.
            raise ValueError(f"a canary has fewer than {MINIMUM_CANARY} letters and digits: make it longer")
    marks = tuple(sorted(canaries))
    names = sorted({field.names[-1] for field in _walk(document) if field.named})
    labels = [Text.of("the name of a field", name) for name in names]
    hidden = frozenset(label.value for label in labels if _tells(label, fingerprints, marks))
    fields = tuple(_walk(document, hidden))
    texts = [Text.of(field.path, field.value) for field in fields if isinstance(field.value, str)]
    scan = Scan(fields=fields, texts=(*labels, *texts), fingerprints=fingerprints, canaries=marks)
    return tuple(check(scan) for check in CHECKS)


def cleared(results: Sequence[CheckResult]) -> bool:
    """Whether the document may enter training: there are results and every one passed."""
    return bool(results) and all(result.passed for result in results)


def normalise(text: str) -> str:
    """Letters and digits only, NFKC and casefolded: spacing, punctuation, width and invisible characters do not count."""
    if text.isascii():
        return "".join(filter(str.isalnum, text.lower()))
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    # Once more at the end: Korean letters that stood apart compose when what parted them is gone.
    return unicodedata.normalize("NFKC", "".join(filter(str.isalnum, folded)))


def fingerprint(text: str, key: bytes) -> str:
    """HMAC-SHA256 of the normalised text, 64 hex digits."""
    return hmac.new(key, normalise(text).encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def make_fingerprints(texts: Collection[str], key: bytes, shared: Collection[str] = ()) -> Fingerprints:
    """What the held-out plane publishes of its texts, whole and line by line, without what `shared` texts hold too.

    `shared` is task text that both planes have by design. Pieces of fewer than 16 normalised characters are left out.
    Raises ValueError on a key of fewer than 16 bytes.
    """
    if len(key) < 16:
        raise ValueError("the fingerprint key has fewer than 16 bytes: a short key can be guessed")
    open_pieces = {normalise(piece) for text in shared for piece in _pieces(text)}
    pieces = {piece for text in texts for piece in _pieces(text) if normalise(piece) not in open_pieces}
    return Fingerprints(key=key, exact=frozenset(fingerprint(piece, key) for piece in pieces))


def _forbidden_fields(scan: Scan) -> CheckResult:
    parts = [normalise(part) for part in FORBIDDEN_PARTS]
    exact = {normalise(name) for name in FORBIDDEN_NAMES}
    found: list[str] = []
    for field in scan.fields:
        if not field.named or (field.value is False and field.names[-1].casefold().endswith(FLAG_ENDINGS)):
            continue
        joined = normalise("".join(field.names))
        if normalise(field.names[-1]) in exact or any(part in joined for part in parts):
            found.append(f"forbidden field at {field.path}")
    return _result("forbidden_fields", found)


def _secrets(scan: Scan) -> CheckResult:
    return _result("secrets", _matches(scan, SECRETS))


def _absolute_paths(scan: Scan) -> CheckResult:
    return _result("absolute_paths", _matches(scan, PATHS))


def _protocol_markers(scan: Scan) -> CheckResult:
    return _result("protocol_markers", _matches(scan, MARKERS))


def _canaries(scan: Scan) -> CheckResult:
    wanted = [normalise(canary) for canary in scan.canaries]
    found = [
        f"canary {number} at {text.path}"
        for text in scan.texts
        for number, canary in enumerate(wanted)
        if canary in text.normal
    ]
    return _result("canaries", found, clear=f"{len(wanted)} canaries looked for")


def _exact_match(scan: Scan) -> CheckResult:
    known = scan.fingerprints
    if known is None or not known.exact:
        return _result("exact_match", ["no held-out fingerprints: nothing can be cleared until they are published"])
    found = [
        f"held-out text at {text.path}"
        for text in scan.texts
        if any(fingerprint(piece, known.key) in known.exact for piece in _pieces(text.value))
    ]
    return _result("exact_match", found, clear=f"{len(known.exact)} fingerprints looked for")


# The order of the verdict: cheap and certain first. Near-match checks go to the end.
CHECKS: tuple[Callable[[Scan], CheckResult], ...] = (
    _forbidden_fields,
    _secrets,
    _absolute_paths,
    _protocol_markers,
    _canaries,
    _exact_match,
)


def _result(name: str, found: Sequence[str], clear: str = "") -> CheckResult:
    distinct = list(dict.fromkeys(found))
    evidence = distinct[:MAXIMUM_FINDINGS]
    if len(distinct) > MAXIMUM_FINDINGS:
        evidence.append(f"and {len(distinct) - MAXIMUM_FINDINGS} more")
    elif not distinct and clear:
        evidence.append(clear)
    return CheckResult(name=name, passed=not found, evidence=tuple(evidence))


def _matches(scan: Scan, patterns: Mapping[str, Pattern[str]]) -> list[str]:
    return [
        f"{kind} at {text.path}"
        for text in scan.texts
        for kind, pattern in patterns.items()
        if pattern.search(text.visible)
    ]


def _tells(name: Text, fingerprints: Fingerprints | None, canaries: tuple[str, ...]) -> bool:
    """Whether a field's name would leak by standing in the path of some evidence."""
    alone = Scan(fields=(), texts=(name,), fingerprints=fingerprints, canaries=canaries)
    checks = (_secrets, _absolute_paths, _protocol_markers, _canaries, *((_exact_match,) if fingerprints else ()))
    return len(name.value) > MAXIMUM_NAME or not all(check(alone).passed for check in checks)


def _visible(text: str) -> str:
    """Full-width characters made plain and invisible ones dropped; case and punctuation kept."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", text)
    return "".join(character for character in plain if unicodedata.category(character) != "Cf")


def _pieces(text: str) -> Iterator[str]:
    """The text as a whole and each of its lines, where they are long enough to mean something."""
    for piece in dict.fromkeys((text, *text.splitlines())):
        if len(normalise(piece)) >= MINIMUM_FINGERPRINTED:
            yield piece


def _walk(
    value: object,
    hidden: frozenset[str] = frozenset(),
    path: str = "$",
    names: tuple[str, ...] = (),
    named: bool = False,
) -> Iterator[Field]:
    yield Field(path, names, named, value)
    if isinstance(value, Mapping):
        for number, key in enumerate(sorted(value, key=str)):
            if not isinstance(key, str):
                raise ValueError(f"field {number} at {path} is not named by a string: such a document is not JSON")
            shown = f"<field {number}>" if key in hidden else key
            yield from _walk(value[key], hidden, f"{path}.{shown}", (*names, key), True)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _walk(item, hidden, f"{path}[{index}]", names)
    elif not (value is None or isinstance(value, bool | int | float | str)):
        raise ValueError(f"{type(value).__name__} at {path} cannot be read by the checks: give text, numbers or lists")
