"""Vectors of a local model that transformers can load: the mean of its last hidden states over a text's tokens."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bat_events.domain.leakage.meaning import Vectors
from bat_events.embedding.interface import EmbeddingFailed
from bat_events.errors import ConfigurationError

_BATCH = 16
_MAXIMUM_TOKENS = 256


class Folder:
    """See the module; runs on the CPU with one thread, because it stands beside other work."""

    def __init__(self, folder: str) -> None:
        path = Path(folder)
        if not (path / "config.json").exists():
            raise ConfigurationError(f"embedding.model {folder}: not a folder that transformers can load")
        try:
            import torch
            from transformers import AutoModel, AutoTokenizer
        except ImportError:
            raise ConfigurationError("embedding.model needs transformers: install bat-events[train]") from None
        torch.set_num_threads(1)
        self._torch: Any = torch
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self._model: Any = AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32).eval()
        self.name = path.resolve().name

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder."""
        rows = []
        try:
            with self._torch.no_grad():
                for at in range(0, len(texts), _BATCH):
                    part = self._tokenizer(
                        list(texts[at : at + _BATCH]),
                        return_tensors="pt",
                        padding=True,
                        truncation=True,
                        max_length=_MAXIMUM_TOKENS,
                    )
                    hidden = self._model(**part).last_hidden_state
                    mask = part["attention_mask"][..., None]
                    rows.append(((hidden * mask).sum(1) / mask.sum(1)).double().numpy())
        except RuntimeError as error:
            raise EmbeddingFailed(f"the embedding model failed: {error}") from error
        return np.concatenate(rows) if rows else np.zeros((0, int(self._model.config.hidden_size)))
