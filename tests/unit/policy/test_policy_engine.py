"""The in-process engine: reproducible, exact in its log-probabilities, indifferent to how rows are batched."""

from collections import Counter
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from bat_events.policy.chat import TokenizerChat
from bat_events.policy.interface import Generation, Sampling
from bat_events.policy.transformers_engine import TransformersEngine
from bat_events.training.model import load_model, make_model
from bat_events.training.settings import ModelSettings

pytestmark = pytest.mark.torch

TINY = ModelSettings(layers=2, width=32, heads=2, kv_heads=1, feed_forward=64)


@pytest.fixture(scope="module")
def checkpoint(tokenizer_folder: Path) -> Path:
    """A random policy, sharpened so that its choices differ in probability."""
    tokenizer = AutoTokenizer.from_pretrained(str(tokenizer_folder))
    end, pad = int(tokenizer.eos_token_id), int(tokenizer.pad_token_id)
    model = make_model(TINY, vocabulary=len(tokenizer), end_id=end, pad_id=pad, seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4.0 if parameter.dim() > 1 else 1.0)
    model.save_pretrained(str(tokenizer_folder))
    return tokenizer_folder


@pytest.fixture
def engine(checkpoint: Path) -> TransformersEngine:
    engine = TransformersEngine(threads=1)
    engine.load(checkpoint)
    return engine


PROMPTS = [[7, 8, 9, 10], [11, 12], [13, 14, 15, 16, 17, 18, 19], [20]]


def recomputed(folder: Path, prompt: list[int], generation: Generation, temperature: float) -> list[float]:
    """Log-probabilities of one whole sequence in a single pass without a cache."""
    ids = torch.tensor([[*prompt, *generation.token_ids]])
    with torch.no_grad():
        logits = load_model(folder, device="cpu")(input_ids=ids).logits[0, len(prompt) - 1 : -1]
    logprobs = torch.log_softmax(logits / temperature, dim=-1)
    return logprobs.gather(1, ids[0, len(prompt) :, None])[:, 0].tolist()


def test_equal_calls_give_equal_results(engine: TransformersEngine) -> None:
    sampling = Sampling(temperature=1.0, max_new_tokens=12, seed=5)
    first = engine.generate(PROMPTS, sampling)
    assert engine.generate(PROMPTS, sampling) == first
    assert engine.generate(PROMPTS, Sampling(temperature=1.0, max_new_tokens=12, seed=6)) != first


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_log_probabilities_are_those_of_the_whole_sequence_after_temperature(
    engine: TransformersEngine, checkpoint: Path, temperature: float
) -> None:
    sampling = Sampling(temperature=temperature, max_new_tokens=10, seed=1)
    for prompt, generation in zip(PROMPTS, engine.generate(PROMPTS, sampling), strict=True):
        expected = recomputed(checkpoint, prompt, generation, temperature)
        assert generation.logprobs == pytest.approx(expected, abs=1e-5)


def test_a_row_does_not_depend_on_the_rows_beside_it(engine: TransformersEngine) -> None:
    sampling = Sampling(temperature=1.0, max_new_tokens=12, seed=9)
    beside = engine.generate(PROMPTS, sampling)[0]
    alone = engine.generate(PROMPTS[:1], sampling)[0]
    assert beside.token_ids == alone.token_ids
    assert beside.logprobs == pytest.approx(alone.logprobs, abs=1e-5)


def test_rows_with_one_prompt_draw_apart(engine: TransformersEngine) -> None:
    rows = engine.generate([PROMPTS[0]] * 8, Sampling(temperature=1.0, max_new_tokens=8, seed=2))
    assert len({row.token_ids for row in rows}) > 1


def test_the_next_turn_reads_only_what_is_new_and_computes_the_same(checkpoint: Path) -> None:
    reusing, fresh = TransformersEngine(reuse_turns=True), TransformersEngine()
    reusing.load(checkpoint)
    fresh.load(checkpoint)
    prompts = [list(p) for p in PROMPTS]
    fed: list[int] = []
    inner = reusing._feed

    def counting(batch: object, chunks: list[list[int]]) -> object:
        fed.append(sum(map(len, chunks)))
        return inner(batch, chunks)  # type: ignore[arg-type]

    reusing._feed = counting  # type: ignore[method-assign, assignment]
    for turn in range(3):
        sampling = Sampling(temperature=1.0, max_new_tokens=6, seed=turn)
        fed.clear()
        rows, again = reusing.generate(prompts, sampling), fresh.generate(prompts, sampling)
        for row, other in zip(rows, again, strict=True):
            assert row.token_ids == other.token_ids
            assert row.logprobs == pytest.approx(other.logprobs, abs=1e-5)
        if turn:
            assert fed[0] <= 4 * 4  # two new ids a row, and at most the last sampled one
        prompts = [[*p, *row.token_ids, 30, 31] for p, row in zip(prompts, rows, strict=True)]
        if turn == 1:
            prompts = [prompts[2], prompts[0]]  # an episode ended, and the order changed


@pytest.mark.parametrize("reuse_turns", [False, True])
def test_an_episode_done_again_computes_the_very_same_numbers(checkpoint: Path, reuse_turns: bool) -> None:
    engine = TransformersEngine(reuse_turns=reuse_turns)
    engine.load(checkpoint)

    def episode() -> list[Generation]:
        first = engine.generate(PROMPTS, Sampling(temperature=1.0, max_new_tokens=5, seed=1))
        longer = [[*p, *g.token_ids, 30] for p, g in zip(PROMPTS, first, strict=True)]
        return [*first, *engine.generate(longer, Sampling(temperature=1.0, max_new_tokens=5, seed=2))]

    assert episode() == episode()


def test_sampled_frequencies_follow_the_distribution(engine: TransformersEngine, checkpoint: Path) -> None:
    count = 3000
    rows = engine.generate([PROMPTS[0]] * count, Sampling(temperature=0.7, max_new_tokens=1, seed=4))
    drawn = Counter(row.token_ids[0] for row in rows)
    with torch.no_grad():
        logits = load_model(checkpoint, device="cpu")(input_ids=torch.tensor([PROMPTS[0]])).logits[0, -1]
    expected = torch.softmax(logits / 0.7, dim=-1)
    for token, probability in enumerate(expected.tolist()):
        deviation = (probability * (1 - probability) / count) ** 0.5
        assert abs(drawn[token] / count - probability) < 5 * deviation + 1e-3


def test_a_turn_ends_at_the_end_token_or_at_the_limit(engine: TransformersEngine, checkpoint: Path) -> None:
    end = TokenizerChat(checkpoint).end_id
    rows = engine.generate([[7]] * 400, Sampling(temperature=3.0, max_new_tokens=40, seed=0))
    stopped = [row for row in rows if row.finish == "stop"]
    cut = [row for row in rows if row.finish == "length"]
    assert stopped
    assert cut
    assert all(row.token_ids.index(end) == len(row.token_ids) - 1 for row in stopped)
    assert all(end not in row.token_ids and len(row.token_ids) == 40 for row in cut)


def test_temperature_zero_is_greedy(engine: TransformersEngine, checkpoint: Path) -> None:
    (row,) = engine.generate(PROMPTS[:1], Sampling(temperature=0, max_new_tokens=3, seed=0))
    with torch.no_grad():
        logits = load_model(checkpoint, device="cpu")(input_ids=torch.tensor([[*PROMPTS[0], *row.token_ids]])).logits[0]
    assert list(row.token_ids) == logits[len(PROMPTS[0]) - 1 : -1].argmax(-1).tolist()
    assert set(row.logprobs) == {0.0}


def test_wrong_calls_say_what_is_wrong(engine: TransformersEngine) -> None:
    with pytest.raises(RuntimeError, match="load"):
        TransformersEngine().generate(PROMPTS, Sampling(temperature=1, max_new_tokens=1, seed=0))
    with pytest.raises(ValueError, match="empty prompt"):
        engine.generate([[]], Sampling(temperature=1, max_new_tokens=1, seed=0))
    assert engine.generate([], Sampling(temperature=1, max_new_tokens=1, seed=0)) == []
