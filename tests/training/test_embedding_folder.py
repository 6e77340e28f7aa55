"""A local model's vectors: the mean over a text's own tokens, whatever stands beside it in a batch."""

from pathlib import Path

import numpy as np
import pytest

from bat_events.embedding import embedder
from bat_events.embedding.folder import Folder
from bat_events.policy.tokenizer import train_tokenizer
from bat_events.settings import EmbeddingSettings

TEXTS = [
    "one short text",
    "a text that is a good deal longer than the first one, with more words in it",
    "one short text",
]


def test_vectors_do_not_depend_on_what_they_are_batched_with(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    size = train_tokenizer(TEXTS, TEXTS, tmp_path / "tiny", pieces=300, max_shared_blocks=2, min_line_share=0.5)
    config = transformers.Qwen3Config(
        vocab_size=size, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8,
    )  # fmt: skip
    transformers.Qwen3Model(config).save_pretrained(tmp_path / "tiny")
    made = embedder(EmbeddingSettings(model=str(tmp_path / "tiny")))
    assert isinstance(made, Folder)
    together = made.embed(TEXTS)
    assert together.shape == (3, 16)
    assert np.allclose(together[0], together[2])
    assert np.allclose(together[0], made.embed(TEXTS[:1])[0], atol=1e-5)
    assert not np.allclose(together[0], together[1], atol=1e-2)
    assert (made.name, made.embed([]).shape) == ("tiny", (0, 16))
