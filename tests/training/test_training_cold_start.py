"""Cold start: loss on what the policy samples and on nothing else, weights that act, refusal of weights that do not."""

from pathlib import Path

import pytest
from training_rounds import demonstrations, quiet, settings

from bat_events.policy.chat import TokenizerChat
from bat_events.policy.interface import ExecuteCode
from bat_events.training.interface import TrainingFault
from bat_events.training.settings import SftSettings
from bat_events.training.sft import IGNORED, Row, encode, split
from bat_events.training.trl_backend import TrlBackend

pytestmark = pytest.mark.torch

SFT = SftSettings(
    steps=60, threads=1, batch_size=8, micro_batch=4, learning_rate=1e-2, probe_prompts=32, probe_tokens=24
)


def test_only_assistant_actions_and_their_end_have_loss(start: Path) -> None:
    chat = TokenizerChat(start)
    (demonstration,) = demonstrations(1)
    row = encode(demonstration, chat)
    supervised = [label for label in row.labels if label != IGNORED]
    actions = [chat.render(ExecuteCode(language="python", code=code)) for code in demonstration.actions]
    assert supervised == [*actions[0], *actions[1]]
    assert all(label in (IGNORED, token) for token, label in zip(row.ids, row.labels, strict=True))
    opening = chat.start(demonstration.system, demonstration.prompt)
    assert list(row.ids) == [*opening, *actions[0], *chat.observe("planned"), *actions[1]]
    assert row.prompt_tokens == len(opening)


def test_the_split_follows_each_row_whatever_else_the_corpus_holds() -> None:
    rows = [Row(ids=(i, i + 1), labels=(IGNORED, i + 1), prompt_tokens=1) for i in range(400)]
    train, validation = split(rows, 0.05)
    assert 5 <= len(validation) <= 40
    assert len(train) + len(validation) == 400
    assert set(split(rows[:300], 0.05)[1]) == set(validation) & set(rows[:300])
    with pytest.raises(TrainingFault, match="too few"):
        split(rows[:1], 0.05)


def test_a_cold_start_makes_weights_that_act_and_is_reproducible(tmp_path: Path) -> None:
    lines: list[str] = []
    backend = TrlBackend(settings(sft=SFT))
    result = backend.cold_start(demonstrations(200), tmp_path / "a", seed=1, progress=lines.append)
    assert result.valid_action_rate >= 0.9
    assert result.validation_loss < 1.0
    assert result.rows_train + result.rows_validation == 200
    assert any("step 60/60" in line for line in lines)
    again = backend.cold_start(demonstrations(200), tmp_path / "b", seed=1, progress=quiet)
    assert again == result
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_weights_that_rarely_act_are_refused(tmp_path: Path) -> None:
    backend = TrlBackend(settings(sft=SFT.model_copy(update={"steps": 1})))
    with pytest.raises(TrainingFault, match="valid actions"):
        backend.cold_start(demonstrations(200), tmp_path, seed=1, progress=quiet)


def test_a_corpus_without_actions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingFault, match="corpus"):
        TrlBackend(settings()).cold_start([], tmp_path, seed=1, progress=quiet)
