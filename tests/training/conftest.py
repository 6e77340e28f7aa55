"""A tiny checkpoint folder, made once."""

from pathlib import Path

import pytest
import torch
from training_rounds import TINY, demonstrations
from transformers import AutoTokenizer

from bat_events.policy.chat import write_chat_file
from bat_events.policy.tokenizer import train_tokenizer
from bat_events.training.model import make_model


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("start")
    corpus = demonstrations(40)
    train_tokenizer(
        [d.prompt for d in corpus],
        [a for d in corpus for a in d.actions],
        folder,
        pieces=TINY.pieces,
        max_shared_blocks=8,
        min_line_share=0.1,
    )
    write_chat_file(folder, "compact")
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    end, pad = int(tokenizer.eos_token_id), int(tokenizer.pad_token_id)
    model = make_model(TINY, vocabulary=len(tokenizer), end_id=end, pad_id=pad, seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4.0 if parameter.dim() > 1 else 1.0)
    model.save_pretrained(str(folder))
    return folder
