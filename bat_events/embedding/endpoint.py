"""Vectors from an OpenAI-compatible /v1/embeddings. Texts leave this process: point it at a server that you trust with them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bat_events.domain.leakage.meaning import Vectors
from bat_events.embedding.interface import EmbeddingFailed
from bat_events.errors import ConfigurationError

_BATCH = 64


class Endpoint:
    """See the module. One retry layer, the SDK's."""

    def __init__(self, *, url: str, model: str, key_file: Path | None, timeout_s: float) -> None:
        try:
            from openai import OpenAI
        except ImportError:
            raise ConfigurationError("embedding.endpoint needs the package openai: install bat-events[train]") from None
        try:
            key = key_file.read_text().strip() if key_file is not None else "none"
        except OSError as error:
            raise ConfigurationError(f"embedding.api_key_file {key_file} cannot be read: {error}") from None
        self.name = model
        self._client = OpenAI(base_url=url, api_key=key, timeout=timeout_s, max_retries=3)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder."""
        from openai import OpenAIError

        rows: list[list[float]] = []
        try:
            for at in range(0, len(texts), _BATCH):
                part = list(texts[at : at + _BATCH])
                reply = self._client.embeddings.create(model=self.name, input=part, encoding_format="float")
                found = sorted(reply.data, key=lambda item: item.index)
                if len(found) != len(part):
                    raise EmbeddingFailed(f"the embedding endpoint gave {len(found)} vectors for {len(part)} texts")
                rows += [item.embedding for item in found]
            return np.array(rows, dtype=np.float64).reshape(len(texts), -1)
        except OpenAIError as error:
            raise EmbeddingFailed(f"the embedding endpoint failed: {type(error).__name__}: {error}") from error
        except ValueError as error:
            raise EmbeddingFailed(f"the embedding endpoint gave vectors of several lengths: {error}") from None
