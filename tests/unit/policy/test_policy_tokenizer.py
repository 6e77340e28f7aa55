"""The small policy's tokenizer: static text is short, what must be learned stays apart, any text survives."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_texts import SYSTEM, card, chat_with
from transformers import AutoTokenizer

from bat_events.policy.chat import TokenizerChat
from bat_events.policy.interface import ExecuteCode
from bat_events.policy.tokenizer import CONTROL_TOKENS, shared_blocks

pytestmark = pytest.mark.torch


def pieces(folder: Path, text: str) -> list[str]:
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    return [tokenizer.decode([i]) for i in tokenizer(text, add_special_tokens=False).input_ids]


def test_a_shared_prompt_line_is_one_token(tokenizer_folder: Path) -> None:
    assert pieces(tokenizer_folder, "Plan the work now, please.\n") == ["Plan the work now, please.\n"]


def test_each_value_of_a_card_is_a_token_of_its_own(tokenizer_folder: Path) -> None:
    parts = pieces(tokenizer_folder, "card: modality=ct noise=high")
    assert [p for p in parts if p in ("ct", "high")] == ["ct", "high"]
    assert pieces(tokenizer_folder, "card: modality=mr noise=low")[-4:] == [" modality=", "mr", " noise=", "low"]


def test_each_argument_of_an_action_is_a_token_of_its_own(tokenizer_folder: Path) -> None:
    assert pieces(tokenizer_folder, 'm.plan("median", 2)') == ['m.plan("', "median", '", ', "2", ")"]


def test_a_compact_action_takes_few_tokens_and_a_prompt_few_more(compact: TokenizerChat) -> None:
    assert len(compact.render(ExecuteCode(language="python", code='m.plan("median", 2)'))) == 8
    assert len(compact.start(SYSTEM, card("ct", "high"))) <= 24


def test_lines_that_always_stand_together_are_one_block_and_others_are_not() -> None:
    texts = ["one line\ntwo lines\n", "three lines\nand four\n"] * 9 + ["three lines\nthen five\n"] * 9
    blocks = shared_blocks([f"{text}last words here" for text in texts], limit=9, min_share=0.1)
    assert sorted(blocks) == ["last words here", "one line\ntwo lines\n", "three lines\n"]


def test_a_card_line_is_never_shared_however_frequent() -> None:
    values = [f"card: {a} {b}" for a in ("ct", "mr", "us", "eye", "cr") for b in ("low", "mid", "high", "top", "max")]
    for card_lines in (values, ["card: modality=ct noise=low"]):
        texts = [f"Read the card, then act.\n{line}\n" for line in card_lines * 20]
        assert shared_blocks(texts, limit=10, min_share=0.01) == ["Read the card, then act.\n"]


def test_training_again_gives_the_same_bytes(tmp_path: Path) -> None:
    from bat_events.policy.tokenizer import train_tokenizer

    def train(folder: Path) -> dict[str, bytes]:
        prompts = [card(m, n) for m in ("ct", "mr") for n in ("low", "high")]
        train_tokenizer(prompts, ["m.go(1)"] * 3, folder, pieces=300, max_shared_blocks=8, min_line_share=0.1)
        return {file.name: file.read_bytes() for file in folder.iterdir()}

    assert train(tmp_path / "a") == train(tmp_path / "b")


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=60) | st.sampled_from(CONTROL_TOKENS))
def test_any_text_survives_as_plain_text(text: str) -> None:
    chat = _shared_chat()
    ids = chat.render(ExecuteCode(language="python", code=text))[1:-2]
    assert chat._full.decode(ids, skip_special_tokens=False) == text
    assert not chat._control_ids.intersection(ids)


@pytest.fixture(scope="module", autouse=True)
def _keep_chat(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    _CHAT.append(chat_with(tokenizer_folder, "compact", tmp_path_factory.mktemp("chat")))


_CHAT: list[TokenizerChat] = []


def _shared_chat() -> TokenizerChat:
    return _CHAT[-1]
