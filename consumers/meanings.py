"""The optional check of meaning: how sketches of embeddings stand on the log, who makes them, who holds texts against them.

Off unless settings name an embedding model. Then the evaluator publishes a fourth event, and the gate clears nothing without it.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from bat_events.codec import Fact
from bat_events.consumers.fingerprints import blocks, unblocked
from bat_events.domain.leakage import CheckResult
from bat_events.domain.leakage.checks import MAXIMUM_FINDINGS
from bat_events.domain.leakage.keyed import seal, unseal
from bat_events.domain.leakage.meaning import BITS, CHECK, Meanings, alike, document_texts, own_sketches, pieces
from bat_events.embedding.interface import Embedder, EmbeddingFailed, model_digest
from bat_events.errors import ConfigurationError
from bat_events.events.fingerprints import HeldoutMeaningsPublished
from bat_events.service.runtime import Retryable

RULE = 1
_WIDTH = BITS // 8
_KEPT = 50_000


def published(
    made: Embedder, held: Sequence[str], shared: Sequence[str], key: bytes, similar: float
) -> HeldoutMeaningsPublished:
    """Sketches of the held-out sentences that say something else than shared text. Raises EmbeddingFailed."""
    known = set(pieces(shared))
    own = [piece for piece in pieces(held) if piece not in known]
    vectors = made.embed(own or ["nothing is held out"])
    signs = own_sketches(vectors, made.embed(sorted(known)), key, similar)[: len(own)]
    return HeldoutMeaningsPublished(
        rule_version=RULE,
        model=model_digest(made),
        dimensions=vectors.shape[1],
        similar=round(similar, 4),
        sketches=blocks(seal(signs.tobytes(), key)),
        sketch_count=len(signs),
    )


def meanings_from_log(facts: Iterable[Fact], campaign: str, key: bytes, made: Embedder) -> Meanings | None:
    """A campaign's sketches; None while they are not there. Raises ConfigurationError where they are of another model or rule."""
    for fact in facts:
        event = fact.event
        if fact.envelope.campaign != campaign or not isinstance(event, HeldoutMeaningsPublished):
            continue
        if event.rule_version != RULE or event.model != model_digest(made):
            raise ConfigurationError(
                f"campaign {campaign}: the sketches of meaning were made by another model than {made.name}, or by another rule "
                f"than {RULE} (by {event.rule_version}): nothing is admitted; set embedding.model alike for evaluator and gate"
            )
        try:
            content = unseal(unblocked(event.sketches, _WIDTH * event.sketch_count), key)
        except ValueError as error:
            raise ConfigurationError(f"campaign {campaign}: {error}; nothing is admitted") from None
        return Meanings(
            key=key,
            model=event.model,
            dimensions=event.dimensions,
            similar=event.similar,
            sketches=np.frombuffer(content, dtype=np.uint8).reshape(-1, _WIDTH),
        )
    return None


class MeaningScanner:
    """Holds documents against the sketches; keeps how near each sentence came, because states repeat sentences."""

    def __init__(self, made: Embedder, known: Meanings) -> None:
        self._made, self._known = made, known
        self._near: dict[str, float] = {}

    def check(self, document: Mapping[str, object]) -> CheckResult:
        """The check's result. Raises Retryable where no vectors came: what was not compared is not cleared."""
        said = pieces(document_texts(document))
        if not said:
            return CheckResult(name=CHECK, passed=True, evidence=("no sentence of 8 words",))
        self._compare(said)
        found = [
            f"sentence {number} of the document is near held-out text ({self._near[piece]:.2f})"
            for number, piece in enumerate(said)
            if self._near[piece] >= self._known.similar
        ]
        if not found:
            looked = f"{len(said)} sentences compared with {len(self._known.sketches)} sketches"
            return CheckResult(name=CHECK, passed=True, evidence=(looked,))
        more = len(found) - MAXIMUM_FINDINGS
        told = (*found[:MAXIMUM_FINDINGS], *([f"and {more} more"] if more > 0 else []))
        return CheckResult(name=CHECK, passed=False, evidence=told)

    def _compare(self, said: Sequence[str]) -> None:
        if len(self._near) > _KEPT:
            self._near.clear()
        new = [piece for piece in said if piece not in self._near]
        if not new:
            return
        try:
            near = alike(self._made.embed(new), self._known)
        except (EmbeddingFailed, ValueError) as error:
            raise Retryable(str(error)) from error
        self._near.update(zip(new, near.tolist(), strict=True))
