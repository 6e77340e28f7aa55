"""A tokenizer trained on a few demonstrations, once for all policy tests."""

from pathlib import Path

import pytest
from policy_texts import SYSTEM, card, chat_with

from bat_events.policy.chat import TokenizerChat
from bat_events.policy.tokenizer import train_tokenizer


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    cards = [card(m, n) for m in ("ct", "mr", "us") for n in ("low", "medium", "high")] * 4
    turns = [f'm.plan("{method}", {level})' for method in ("median", "otsu", "atlas") for level in (1, 2, 3)] * 4
    train_tokenizer(
        [text for c in cards for text in (SYSTEM, c)],
        turns,
        folder,
        pieces=420,
        max_shared_blocks=32,
        min_line_share=0.05,
    )
    return folder


@pytest.fixture(params=["compact", "qwen3-json", "qwen3-xml"])
def chat(request: pytest.FixtureRequest, tokenizer_folder: Path, tmp_path: Path) -> TokenizerChat:
    return chat_with(tokenizer_folder, str(request.param), tmp_path)


@pytest.fixture
def compact(tokenizer_folder: Path, tmp_path: Path) -> TokenizerChat:
    return chat_with(tokenizer_folder, "compact", tmp_path)
