"""Cold start: makes the first weights and their tokenizer from demonstrations, with TRL's SFTTrainer.

It begins from nothing, or from pretrained weights where `model.pretrained` names them; everything after that is the same.

What it promises: the rows are token ids made by the chat protocol that the rollouts use, only what an assistant turn
samples (its call and its end-of-turn token) has loss; the validation rows are chosen by their digest, so that a larger
corpus keeps them; weights whose sampled first turns are valid too rarely are refused.
"""

import ast
import hashlib
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoTokenizer, TrainerCallback
from transformers.trainer_callback import PrinterCallback
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from bat_events.policy.chat import TokenizerChat, write_chat_file
from bat_events.policy.interface import ChatProtocol, ExecuteCode, FinalAnswer, Sampling
from bat_events.policy.tokenizer import train_tokenizer
from bat_events.policy.transformers_engine import TransformersEngine
from bat_events.training.interface import ColdStartResult, Demonstration, Progress, TrainingFault
from bat_events.training.model import make_model
from bat_events.training.pretrained import adopt
from bat_events.training.settings import SftSettings, TrainingSettings

IGNORED = -100  # the label of a token without loss


@dataclass(frozen=True)
class Row:
    """One demonstration as token ids; `labels` repeat the id where a token has loss, else IGNORED."""

    ids: tuple[int, ...]
    labels: tuple[int, ...]
    prompt_tokens: int

    @property
    def digest(self) -> str:
        """SHA-256 of the ids, hex."""
        return hashlib.sha256(",".join(map(str, self.ids)).encode()).hexdigest()


def encode(demonstration: Demonstration, chat: ChatProtocol) -> Row:
    """The transcript that a rollout making these actions would have."""
    ids = list(chat.start(demonstration.system, demonstration.prompt))
    labels = [IGNORED] * len(ids)
    prompt_tokens = len(ids)
    for turn, code in enumerate(demonstration.actions):
        action = chat.render(ExecuteCode(language="python", code=code))
        ids += action
        labels += action
        if turn + 1 < len(demonstration.actions) or demonstration.final is not None:
            observed = chat.observe(demonstration.observations[turn])
            ids += observed
            labels += [IGNORED] * len(observed)
    if demonstration.final is not None:
        said = chat.render(FinalAnswer(text=demonstration.final))
        ids += said
        labels += said
    return Row(tuple(ids), tuple(labels), prompt_tokens)


def split(rows: Sequence[Row], share: float) -> tuple[list[Row], list[Row]]:
    """Training and validation rows. Equal rows fall on one side; neither side is empty (raises TrainingFault)."""
    limit = int(share * 2**32)
    held = [row for row in rows if int(row.digest[:8], 16) < limit]
    kept = [row for row in rows if int(row.digest[:8], 16) >= limit]
    if not held or not kept:
        raise TrainingFault(f"{len(rows)} demonstrations are too few to hold {share:.0%} back; give at least a hundred")
    return kept, held


def cold_start(
    corpus: Sequence[Demonstration], folder: Path, settings: TrainingSettings, *, seed: int, progress: Progress
) -> ColdStartResult:
    """Train tokenizer and weights into `folder`. Raises TrainingFault for a corpus or a result that cannot be used."""
    if not corpus or any(not d.actions or len(d.observations) < len(d.actions) - (d.final is None) for d in corpus):
        raise TrainingFault(
            "the cold-start corpus needs demonstrations with an action, and an observation before each further turn"
        )
    model_settings, sft = settings.model, settings.sft
    prompts = [text for d in corpus for text in (d.system, d.prompt)]
    pretrained = model_settings.pretrained is not None
    model: Any = adopt(model_settings, prompts, folder, progress) if pretrained else None
    if not pretrained:
        progress(f"tokenizer: training on {len(corpus)} demonstrations")
        train_tokenizer(
            prompts,
            [text for d in corpus for text in (*d.actions, *d.observations, d.final or "")],
            folder,
            pieces=model_settings.pieces,
            max_shared_blocks=model_settings.max_shared_blocks,
            min_line_share=model_settings.min_line_share,
        )
        write_chat_file(folder, model_settings.action_format)
    chat = TokenizerChat(folder)
    encoded = [encode(demonstration, chat) for demonstration in corpus]
    positions = int(model.config.max_position_embeddings) if pretrained else model_settings.max_positions
    fitting = [row for row in encoded if len(row.ids) <= min(sft.max_tokens, positions)]
    if len(fitting) < len(encoded):
        progress(f"cold start: {len(encoded) - len(fitting)} demonstrations are too long and left out")
    train, validation = split(fitting, sft.validation_share)
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    size = len(tokenizer)
    if not pretrained:
        model = make_model(
            model_settings, vocabulary=size, end_id=chat.end_id, pad_id=int(tokenizer.pad_token_id), seed=seed
        )
    model = model.to(settings.device)
    tokens = sum(len(row.ids) for row in fitting) / len(fitting)
    progress(f"cold start: {model.num_parameters():,} parameters, {size} tokens, {tokens:.0f} tokens a demonstration")
    train_loss = _train(model, tokenizer, train, settings, seed=seed, progress=progress)
    validation_loss = _loss(model, validation, sft)
    model.save_pretrained(str(folder))
    rate = _valid_actions(folder, chat, validation, settings, seed=seed)
    progress(f"cold start: loss {train_loss:.3f}, validation {validation_loss:.3f}, valid actions {rate:.0%}")
    if not math.isfinite(train_loss) or not math.isfinite(validation_loss):
        raise TrainingFault(
            f"the cold start's loss is not finite ({train_loss}, {validation_loss}); lower learning_rate"
        )
    if rate < sft.min_valid_actions:
        raise TrainingFault(
            f"only {rate:.0%} of sampled first turns are valid actions, {sft.min_valid_actions:.0%} are required; "
            "raise sft.steps or give cleaner demonstrations"
        )
    return ColdStartResult(
        steps=sft.steps,
        rows_train=len(train),
        rows_validation=len(validation),
        train_loss=train_loss,
        validation_loss=validation_loss,
        valid_action_rate=rate,
    )


def _order(rows: Sequence[Row], settings: SftSettings, seed: int) -> list[int]:
    """Row indices in the order of training: epochs shuffled by `seed`, each batch sorted so that micro-batches pad little."""
    generator = torch.Generator().manual_seed(seed)
    needed, order = settings.steps * settings.batch_size, list[int]()
    while len(order) < needed:
        order += torch.randperm(len(rows), generator=generator).tolist()
    batches = (order[at : at + settings.batch_size] for at in range(0, needed, settings.batch_size))
    return [i for batch in batches for i in sorted(batch, key=lambda i: (len(rows[i].ids), i))]


def _train(
    model: Any, tokenizer: Any, rows: Sequence[Row], settings: TrainingSettings, *, seed: int, progress: Progress
) -> float:
    """Run the steps; the mean loss of the last tenth of them, nats per supervised token."""
    sft = settings.sft
    micro_batch = math.gcd(sft.batch_size, sft.micro_batch)
    dataset = Dataset.from_dict(
        {"input_ids": [list(row.ids) for row in rows], "labels": [list(row.labels) for row in rows]}
    ).select(_order(rows, sft, seed))
    losses: list[float] = []

    class Report(TrainerCallback):
        def on_log(self, *call: Any, **details: Any) -> None:
            step, logs = call[1].global_step, details.get("logs") or {}
            if "loss" in logs:
                losses.append(float(logs["loss"]))
                if step % max(sft.steps // 20, 1) == 0:
                    progress(f"cold start: step {step}/{sft.steps}, loss {losses[-1]:.3f}")

    with tempfile.TemporaryDirectory(prefix="bat-sft-") as scratch:
        trainer: Any = SFTTrainer(
            model=model,
            args=SFTConfig(
                output_dir=scratch,
                max_steps=sft.steps,
                per_device_train_batch_size=micro_batch,
                gradient_accumulation_steps=sft.batch_size // micro_batch,
                learning_rate=sft.learning_rate,
                lr_scheduler_type="cosine",
                warmup_steps=min(sft.warmup_steps, sft.steps // 5),
                weight_decay=0.0,
                max_grad_norm=sft.max_grad_norm,
                max_length=None,
                train_sampling_strategy="sequential",
                dataset_kwargs={"skip_prepare_dataset": True},
                use_cpu=settings.device == "cpu",
                bf16=False,
                activation_checkpointing=False,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                dataloader_pin_memory=False,
                seed=seed % 2**32,
            ),
            train_dataset=dataset,
            processing_class=tokenizer,
            callbacks=[Report()],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    tail = losses[-max(len(losses) // 10, 1) :]
    return sum(tail) / len(tail)


def _loss(model: Any, rows: Sequence[Row], settings: SftSettings) -> float:
    """Mean negative log-likelihood over supervised tokens, nats."""
    total, count = 0.0, 0
    model.eval()
    ordered = sorted(rows, key=lambda row: len(row.ids))
    with torch.inference_mode():
        for at in range(0, len(ordered), settings.micro_batch):
            part = ordered[at : at + settings.micro_batch]
            width = max(len(row.ids) for row in part)
            ids = torch.tensor([[*row.ids, *[0] * (width - len(row.ids))] for row in part], device=model.device)
            labels = torch.tensor(
                [[*row.labels, *[IGNORED] * (width - len(row.ids))] for row in part], device=model.device
            )
            mask = torch.tensor(
                [[1] * len(row.ids) + [0] * (width - len(row.ids)) for row in part], device=model.device
            )
            logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
            nll = torch.nn.functional.cross_entropy(
                logits.transpose(1, 2), labels[:, 1:], ignore_index=IGNORED, reduction="sum"
            )
            total += float(nll)
            count += int((labels[:, 1:] != IGNORED).sum())
    return total / count


def _valid_actions(
    folder: Path, chat: ChatProtocol, rows: Sequence[Row], settings: TrainingSettings, *, seed: int
) -> float:
    """Share of sampled first turns on validation prompts that are one call with python that compiles."""
    sft = settings.sft
    prompts = [row.ids[: row.prompt_tokens] for row in rows]
    prompts = [prompts[i % len(prompts)] for i in range(max(sft.probe_prompts, len(prompts)))][: sft.probe_prompts]
    engine = TransformersEngine(device=settings.device)
    engine.load(folder)
    sampling = Sampling(temperature=sft.probe_temperature, max_new_tokens=sft.probe_tokens, seed=seed)
    turns = [chat.parse(generation.token_ids) for generation in engine.generate(prompts, sampling)]
    return sum(isinstance(turn, ExecuteCode) and compiles(turn.code) for turn in turns) / len(turns)


def compiles(code: str) -> bool:
    """Whether `code` is python by its grammar."""
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
