"""Samples in process with transformers, one batch at a time, on a CPU or one GPU.

What it promises: log-probabilities are fp32, after temperature, over the whole vocabulary, and equal the trainer's to 1e-5;
each row draws from a generator of its own, seeded by (seed, row), so a row's tokens depend on the other rows only through
rounding; an equal call gives an equal result.

Why not `generate()`: it draws all rows from one generator, so one row more or less changes every other row; it returns
scores only as the whole vocabulary's, step by step; and it is a fifth slower for the small policy. Equal prompts in a call are
read once.

With `reuse_turns` the engine also keeps the last batch's keys and values: a batch whose every prompt continues a row of the
batch before (the next turn of the same episodes) feeds only what is new, and anything else starts afresh. An episode done again
from its first turn still gives the very same bits; one that is taken up in its middle may differ by rounding, so it is off unless
asked for.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bat_events.policy.interface import Generation, Sampling


class TransformersEngine:
    """`Engine` over any causal-model folder that AutoModelForCausalLM loads."""

    name = "transformers"

    def __init__(
        self,
        *,
        device: Literal["cpu", "cuda"] = "cpu",
        dtype: Literal["float32", "bfloat16"] = "float32",
        threads: int | None = None,
        reuse_turns: bool = False,
    ) -> None:
        """`threads` sets torch's thread count for the whole process (results are bit-identical per count only)."""
        self._device, self._dtype, self._threads, self._reuse = device, dtype, threads, reuse_turns
        self._model: Any = None
        self._stop: frozenset[int] = frozenset()
        self._pad = 0
        self._batch: _Batch | None = None

    def load(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        silence: Any = logging.disable_progress_bar
        silence()
        if self._threads is not None:
            torch.set_num_threads(self._threads)
        self._batch = None
        model: Any = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=self._dtype, attn_implementation="sdpa", local_files_only=True
        )
        self._model = model.to(self._device).eval()
        stop = model.generation_config.eos_token_id
        if stop is None:
            raise ValueError(f"{folder}: neither generation_config.json nor config.json names an eos_token_id")
        self._stop = frozenset([stop] if isinstance(stop, int) else stop)
        pad = model.generation_config.pad_token_id
        self._pad = next(iter(sorted(self._stop))) if pad is None else pad
        # Holes in the cache are masked columns; a recurrent layer has no columns to mask.
        kinds = set(getattr(model.config.get_text_config(), "layer_types", None) or ["full_attention"])
        self._masks_holes = kinds == {"full_attention"}

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Generation]:
        import torch

        if self._model is None:
            raise RuntimeError("no weights: call load(folder) first")
        if sampling.max_new_tokens < 1 or sampling.temperature < 0:
            raise ValueError("max_new_tokens must be at least 1 and temperature not negative")
        if any(not prompt for prompt in prompts):
            raise ValueError("an empty prompt has no next token")
        if not prompts:
            return []
        rows = [tuple(prompt) for prompt in prompts]
        with torch.inference_mode():
            try:
                batch, logits = self._open(rows)
                generations = self._sample(batch, logits, sampling)
                batch.transcripts = [row + g.token_ids for row, g in zip(rows, generations, strict=True)]
            except BaseException:
                self._batch = None
                raise
        self._batch = batch if self._reuse and self._masks_holes else None
        return generations

    def _open(self, prompts: list[tuple[int, ...]]) -> tuple["_Batch", Any]:
        """A batch that has read `prompts`, and the logits of each row's next token."""
        previous, self._batch = self._batch, None
        sources = previous.continued_by(prompts) if previous is not None else None
        if previous is not None and sources is not None:
            previous.select(sources)
            return previous, self._feed(
                previous, [prompt[n:] for prompt, n in zip(prompts, previous.lengths, strict=True)]
            )
        unique = list(dict.fromkeys(prompts)) if self._masks_holes else prompts
        batch = _Batch(lengths=[0] * len(unique))
        logits = self._feed(batch, unique)
        if len(unique) < len(prompts):
            place = {prompt: i for i, prompt in enumerate(unique)}
            order = [place[prompt] for prompt in prompts]
            batch.select(order)
            logits = logits[order]
        return batch, logits

    def _feed(self, batch: "_Batch", chunks: Sequence[Sequence[int]]) -> Any:
        """Run left-padded `chunks` through the model, one per row; the last column's logits."""
        import torch

        width = max(len(chunk) for chunk in chunks)
        ids = [[self._pad] * (width - len(chunk)) + list(chunk) for chunk in chunks]
        new = [[0] * (width - len(chunk)) + [1] * len(chunk) for chunk in chunks]
        offsets = [known - (width - len(chunk)) for known, chunk in zip(batch.lengths, chunks, strict=True)]
        mask = torch.tensor(new, device=self._device)
        batch.mask = mask if batch.mask is None else torch.cat([batch.mask, mask], dim=1)
        positions = torch.tensor(offsets, device=self._device)[:, None] + torch.arange(width, device=self._device)
        output = self._model(
            input_ids=torch.tensor(ids, device=self._device),
            attention_mask=batch.mask,
            position_ids=positions.clamp(min=0),
            cache=batch.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        batch.cache = output.cache
        batch.lengths = [known + len(chunk) for known, chunk in zip(batch.lengths, chunks, strict=True)]
        return output.logits[:, -1]

    def _sample(self, batch: "_Batch", logits: Any, sampling: Sampling) -> list[Generation]:
        import torch

        count, limit = len(batch.lengths), sampling.max_new_tokens
        draws = torch.stack([_draws(sampling.seed, row, limit) for row in range(count)]).to(self._device)
        tokens: list[list[int]] = [[] for _ in range(count)]
        logprobs: list[list[float]] = [[] for _ in range(count)]
        finished = [False] * count
        for step in range(limit):
            chosen, chosen_logprobs = _choose(logits, draws[:, step], sampling.temperature)
            fed: list[list[int]] = []
            for row, (token, logprob) in enumerate(zip(chosen.tolist(), chosen_logprobs.tolist(), strict=True)):
                fed.append([] if finished[row] else [token])
                if not finished[row]:
                    tokens[row].append(token)
                    logprobs[row].append(logprob)
                    finished[row] = token in self._stop
            if all(finished) or step + 1 == limit:
                break
            logits = self._feed(batch, fed)
        return [
            Generation(token_ids=tuple(t), logprobs=tuple(p), finish="stop" if done else "length")
            for t, p, done in zip(tokens, logprobs, finished, strict=True)
        ]


@dataclass
class _Batch:
    """Keys and values of some rows. A masked column of a row is padding, or came after the row had ended."""

    lengths: list[int]  # per row: how many ids of its transcript have keys and values in the cache
    transcripts: list[tuple[int, ...]] = field(default_factory=list)  # per row: prompt and all that was sampled
    cache: Any = None
    mask: Any = None  # [rows, columns], 1 where a column holds one of the row's ids

    def continued_by(self, prompts: Sequence[tuple[int, ...]]) -> list[int] | None:
        """For each prompt the row that it continues, or None where one of them continues no row."""
        sources = []
        for prompt in prompts:
            for row, transcript in enumerate(self.transcripts):
                if len(prompt) > len(transcript) and prompt[: len(transcript)] == transcript:
                    sources.append(row)
                    break
            else:
                return None
        return sources

    def select(self, rows: Sequence[int]) -> None:
        """Keep `rows` only, in this order, repeats allowed."""
        import torch

        if list(rows) != list(range(len(self.lengths))):
            index = torch.tensor(rows, device=self.mask.device)
            self.cache.batch_select_indices(index)
            self.mask = self.mask[index]
        self.lengths = [self.lengths[row] for row in rows]
        self.transcripts = []


def _draws(seed: int, row: int, count: int) -> Any:
    """`count` uniform numbers in [0, 1) for one row, fp64; a prefix of those for a larger count."""
    import torch

    digest = hashlib.sha256(f"{seed}:{row}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    return torch.rand(count, generator=generator, dtype=torch.float64)


def _choose(logits: Any, draws: Any, temperature: float) -> tuple[Any, Any]:
    """One token per row by inverting the cumulative distribution, and its log-probability.

    Greedy (temperature 0) takes the most likely token; its distribution has one outcome, so the log-probability is 0.
    """
    import torch

    if temperature == 0:
        chosen = logits.argmax(dim=-1)
        return chosen, torch.zeros(len(chosen))
    logprobs = torch.log_softmax(logits.float() / temperature, dim=-1)
    cumulative = logprobs.double().exp().cumsum(dim=-1)
    target = draws[:, None] * cumulative[:, -1:]
    chosen = torch.searchsorted(cumulative, target, right=True).clamp(max=logits.shape[-1] - 1)
    return chosen[:, 0], logprobs.gather(1, chosen)[:, 0]
