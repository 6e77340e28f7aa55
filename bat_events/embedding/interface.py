"""What the gate and the evaluator need of an embedder, and which one the settings name."""

import hashlib
from collections.abc import Sequence
from typing import Protocol

from bat_events.domain.leakage.meaning import Vectors
from bat_events.errors import BatError, ConfigurationError
from bat_events.settings import EmbeddingSettings


class EmbeddingFailed(BatError):
    """No vectors came back; what was to be checked stays unchecked, and is tried again."""


class Embedder(Protocol):
    """Turns texts into vectors of one length. `name` says which model, and nothing of where it runs."""

    name: str

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text. Raises EmbeddingFailed."""
        ...


def model_digest(made: Embedder) -> str:
    """How the model stands in an event: a fixed-length id, because names do not cross the boundary."""
    return hashlib.sha256(made.name.encode()).hexdigest()


def embedder(settings: EmbeddingSettings) -> Embedder | None:
    """The one that the settings name; None where the check is off. Raises ConfigurationError."""
    if settings.model is None:
        if settings.endpoint is not None:
            raise ConfigurationError("embedding.endpoint is set but embedding.model is not: name the endpoint's model")
        return None
    if settings.endpoint is not None:
        from bat_events.embedding.endpoint import Endpoint

        return Endpoint(
            url=settings.endpoint, model=settings.model, key_file=settings.api_key_file, timeout_s=settings.timeout_s
        )
    from bat_events.embedding.folder import Folder

    return Folder(settings.model)
