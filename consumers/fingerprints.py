"""How fingerprints stand on the log: written by the held-out plane, read by the leakage gate, under a key of this home."""

import hashlib
from collections.abc import Iterable, Mapping

from bat_events.benchmark.interface import Task
from bat_events.codec import Fact
from bat_events.domain.leakage import RULE, Fingerprints
from bat_events.domain.leakage.fingerprints import pack, unpack_hashes, unpack_sketches
from bat_events.domain.leakage.keyed import SEAL_BYTES
from bat_events.domain.leakage.sketch import PERMUTATIONS
from bat_events.errors import ConfigurationError
from bat_events.events.boundary import HeldoutFingerprintsPublished
from bat_events.events.fingerprints import HeldoutNgramsPublished, SharedTextDeclared

FINGERPRINT_KEY = "fingerprint.key"
_BLOCK = 32  # bytes of a Digest
MAXIMUM_WINDOWS = 800_000  # of 8 bytes each: a record has to stay below the broker's limit of 8 MiB


def task_texts(task: Task) -> list[str]:
    """Everything that a task shows, as the checks read it: its texts, its files, and what the files are called."""
    files = {**task.inputs, **task.files}
    return [task.system, task.prompt, *files, *(file_text(content) for content in files.values())]


def file_text(content: bytes) -> str:
    """A file as text; of a file that is no text its digest, which finds a held-out image as surely as its pixels would."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content_digest(content)


def content_digest(content: bytes) -> str:
    """How a file that is no text stands in a document and among the fingerprints."""
    return f"sha256 {hashlib.sha256(content).hexdigest()}"


def as_events(
    known: Fingerprints, shared: Iterable[str], *, seed: int, instances: int
) -> tuple[SharedTextDeclared, HeldoutNgramsPublished, HeldoutFingerprintsPublished]:
    """What is published of complete fingerprints. Raises ValueError where they would not fit into a record."""
    windows, sketches, shingles = known.windows, known.sketches, known.shared
    if windows is None or sketches is None or shingles is None:
        raise ValueError("fingerprints without runs of words and sketches are not published: use make_fingerprints")
    if max(len(windows), len(shingles)) > MAXIMUM_WINDOWS:
        raise ValueError(
            f"{len(windows)} held-out runs and {len(shingles)} shared shingles: at most {MAXIMUM_WINDOWS} fit into a "
            "record; evaluate fewer repeats"
        )
    return (
        SharedTextDeclared(
            rule_version=RULE,
            seed=seed,
            instances=instances,
            texts=tuple(sorted({hashlib.sha256(text.encode()).hexdigest() for text in shared})),
            shingles=blocks(pack(shingles, known.key)),
            shingle_count=len(shingles),
        ),
        HeldoutNgramsPublished(
            rule_version=RULE,
            windows=blocks(pack(windows, known.key)),
            window_count=len(windows),
            sketches=blocks(pack(sketches, known.key)),
            sketch_count=len(sketches),
        ),
        HeldoutFingerprintsPublished(rule_version=RULE, fingerprints=tuple(sorted(known.exact))),
    )


def from_log(facts: Iterable[Fact], campaign: str, key: bytes) -> Fingerprints | None:
    """A campaign's fingerprints; None while one of the three kinds is missing.

    Raises ConfigurationError where they were made by another rule or under another key: they would find nothing.
    """
    found: Mapping[type, object] = {}
    for fact in facts:
        if fact.envelope.campaign == campaign:
            found = {type(fact.event): fact.event, **found}  # the first of a kind counts
    shared, ngrams, exact = (
        found.get(kind) for kind in (SharedTextDeclared, HeldoutNgramsPublished, HeldoutFingerprintsPublished)
    )
    for event in (shared, ngrams, exact):
        rule = getattr(event, "rule_version", RULE)
        if rule != RULE:
            raise ConfigurationError(
                f"campaign {campaign}: {type(event).__name__} was made by fingerprint rule {rule}, this gate reads rule "
                f"{RULE}: nothing is admitted; run evaluator and gate of one version, in a new campaign"
            )
    if (
        not isinstance(shared, SharedTextDeclared)
        or not isinstance(ngrams, HeldoutNgramsPublished)
        or not isinstance(exact, HeldoutFingerprintsPublished)
    ):
        return None
    try:
        return Fingerprints(
            key=key,
            exact=frozenset(exact.fingerprints),
            windows=unpack_hashes(unblocked(ngrams.windows, 8 * ngrams.window_count), key),
            shared=unpack_hashes(unblocked(shared.shingles, 8 * shared.shingle_count), key),
            sketches=unpack_sketches(unblocked(ngrams.sketches, 4 * PERMUTATIONS * ngrams.sketch_count), key),
        )
    except ValueError as error:
        raise ConfigurationError(f"campaign {campaign}: {error}; nothing is admitted") from None


def blocks(sealed: bytes) -> tuple[str, ...]:
    """Sealed bytes as digests of 32 bytes each, the last one filled with zeros."""
    padded = sealed + bytes(-len(sealed) % _BLOCK)
    return tuple(padded[at : at + _BLOCK].hex() for at in range(0, len(padded), _BLOCK))


def unblocked(blocks: Iterable[str], size: int) -> bytes:
    """The sealed bytes of `size` bytes of content."""
    return bytes.fromhex("".join(blocks))[: SEAL_BYTES + size]
