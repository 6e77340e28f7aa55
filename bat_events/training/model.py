"""The small policy's weights before training, and what a checkpoint folder is.

A checkpoint folder holds config.json, generation_config.json, model.safetensors, the tokenizer's files and, for the small
policy, bat_chat.json: `AutoModelForCausalLM` and `AutoTokenizer` load it, whatever made it. Equal weights give equal bytes.
"""

import hashlib
import shutil
from pathlib import Path
from typing import Any

import torch

from bat_events.training.settings import ModelSettings

_WEIGHT_SUFFIXES = (".safetensors", ".safetensors.index.json", ".bin")


def make_model(settings: ModelSettings, *, vocabulary: int, end_id: int, pad_id: int, seed: int) -> Any:
    """A fresh Qwen3 model in fp32; equal arguments give equal weights on a CPU."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=settings.width,
        intermediate_size=settings.feed_forward or settings.width * 8 // 3 // 32 * 32,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.kv_heads,
        head_dim=settings.width // settings.heads,
        max_position_embeddings=settings.max_positions,
        tie_word_embeddings=True,
        attention_dropout=0.0,
        # The library's 0.02 suits wide models; at this width it kept choices from being learned (docs/training.md).
        initializer_range=settings.width**-0.5,
        bos_token_id=None,
        eos_token_id=end_id,
        pad_token_id=pad_id,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config)


def load_model(folder: Path, *, device: str, dtype: str = "float32") -> Any:
    """The causal model of a checkpoint folder, from local files only."""
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(
        str(folder), dtype=dtype, attn_implementation="sdpa", local_files_only=True
    )
    return model.to(device)


def save_checkpoint(model: Any, folder: Path, *, like: Path) -> None:
    """Write `model` as a checkpoint folder whose files other than weights are those of folder `like`, byte for byte.

    Raises ValueError where `folder` is `like`: a round needs its first weights to the end.
    """
    if folder.resolve() == like.resolve():
        raise ValueError(f"{folder} is the folder that the round began from; write its weights elsewhere")
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(str(folder))
    for file in sorted(like.iterdir()):
        if file.is_file() and not file.name.endswith(_WEIGHT_SUFFIXES):
            shutil.copyfile(file, folder / file.name)


def weights_digest(folder: Path) -> str:
    """SHA-256 over the names and bytes of a folder's weight files, hex; raises ValueError where it has none."""
    digest = hashlib.sha256()
    files = sorted(f for f in folder.iterdir() if f.name.endswith(_WEIGHT_SUFFIXES))
    if not files:
        raise ValueError(f"{folder} holds no weights")
    for file in files:
        with file.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").digest()
        digest.update(file.name.encode() + b"\0" + content)
    return digest.hexdigest()
