"""One GRPO round: a fresh AdamW, a constant learning rate, and the round's first weights as the KL reference.

TRL's own loop (`train()`) draws its batches from a dataset and decides when to step and to save. Here the log decides, one step
at a time, with weights read between steps; so the round drives TRL's pieces itself: its `training_step` once per group
(forward, loss, backward), then one clipped optimizer step. Nothing runs in a second thread, a fault leaves the weights of
the step before, and everything that a step depends on (weights, optimizer, scheduler, RNG) is in hand to be saved.

What it promises: on a CPU, at a fixed thread count, going on from a recovery folder gives the same bytes as not having
stopped. One process; more than one is refused.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from bat_events.domain.vocabulary import Pool
from bat_events.training.interface import Progress, StepResult, TrainGroup, TrainingFault
from bat_events.training.model import load_model, save_checkpoint, weights_digest
from bat_events.training.recorded import GroupMeasure, RecordedGrpoTrainer
from bat_events.training.settings import TrainingSettings

STATE_FILE = "training_state.safetensors"
ROUND_FILE = "round.json"  # written last: a folder without it is not a recovery folder
_MEAN_TOLERANCE = 1e-3  # advantages are recorded rounded


class GrpoRound:
    """`RoundTrainer` on TRL. Make it from the round's first weights, or go on from a recovery folder of the same round."""

    def __init__(
        self,
        start: Path,
        *,
        recovery: Path | None,
        total_steps: int,
        settings: TrainingSettings,
        seed: int,
        progress: Progress,
    ) -> None:
        """Raises TrainingFault where the recovery folder is another round's or incomplete."""
        self._start, self._settings, self._progress = start, settings, progress
        self._total_steps = total_steps
        self._identity = {
            "start": weights_digest(start),
            "seed": seed,
            "total_steps": total_steps,
            "grpo": settings.grpo.model_dump(mode="json"),
        }
        record = None if recovery is None else self._read_record(recovery)
        weights = start if recovery is None else recovery
        self._trainer: Any = RecordedGrpoTrainer(
            load_model(weights, device=settings.device),
            # Always of the round's first weights, whatever the policy's config says it was loaded from.
            load_model(start, device=settings.device) if settings.grpo.beta else None,
            AutoTokenizer.from_pretrained(str(start)),
            settings.grpo,
            device=settings.device,
            seed=seed,
        )
        if self._trainer.accelerator.num_processes != 1:
            raise TrainingFault("this trainer runs in one process; do not start it under a distributed launcher")
        self._trainer.create_optimizer_and_scheduler(num_training_steps=total_steps)
        self._steps_done = 0
        if recovery is not None and record is not None:
            self._restore(recovery, record)

    @property
    def steps_done(self) -> int:
        """Updates so far in this round, those before a recovery included."""
        return self._steps_done

    def step(self, groups: Sequence[TrainGroup]) -> StepResult:
        """One update on all groups. Raises TrainingFault, weights unchanged, on wrong groups or a number not finite."""
        self._check(groups)
        trainer = self._trainer
        trainer.measures.clear()
        trainer.current_gradient_accumulation_steps = len(groups)
        trainer.model.zero_grad()
        for group in groups:
            trainer.training_step(trainer.model, group, None)
        norm = trainer.accelerator.clip_grad_norm_(trainer.model.parameters(), trainer.args.max_grad_norm)
        result = _summary(groups, trainer.measures, float(norm))
        numbers = (result.loss, result.grad_norm, result.entropy, result.kl, result.clip_ratio, result.logprob_gap)
        if not all(map(math.isfinite, numbers)):
            trainer.model.zero_grad()
            raise TrainingFault(
                f"step {self._steps_done + 1} is not finite: {result}; the weights of step {self._steps_done} are kept"
            )
        trainer.optimizer.step()
        trainer.lr_scheduler.step()
        trainer.model.zero_grad()
        self._steps_done += 1
        self._progress(
            f"step {self._steps_done}/{self._total_steps}: {len(groups)} groups, {sum(result.tokens_by_pool.values())} "
            f"tokens, entropy {result.entropy:.3f}, kl {result.kl:.4f}, gradient {result.grad_norm:.3f}"
        )
        return result

    def save_weights(self, folder: Path) -> None:
        save_checkpoint(self._trainer.accelerator.unwrap_model(self._trainer.model), folder, like=self._start)

    def save_recovery(self, folder: Path) -> None:
        self.save_weights(folder)
        state = self._trainer.optimizer.state_dict()["state"]
        tensors = {f"optimizer.{i}.{name}": value for i, slots in state.items() for name, value in slots.items()}
        tensors["rng.cpu"] = torch.get_rng_state()
        if self._settings.device == "cuda":
            tensors["rng.cuda"] = torch.cuda.get_rng_state()
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, str(folder / STATE_FILE))
        record = {
            "identity": self._identity,
            "steps_done": self._steps_done,
            "scheduler": self._trainer.lr_scheduler.state_dict(),
        }
        (folder / ROUND_FILE).write_text(json.dumps(record, sort_keys=True) + "\n", encoding="utf-8")

    def close(self) -> None:
        self._trainer.close()

    def _read_record(self, recovery: Path) -> dict[str, Any]:
        file = recovery / ROUND_FILE
        if not file.is_file():
            raise TrainingFault(f"{recovery} is not a complete recovery folder: {ROUND_FILE} is missing")
        record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        for name, expected in self._identity.items():
            if record["identity"].get(name) != expected:
                raise TrainingFault(
                    f"{recovery} belongs to another round: {name} is {record['identity'].get(name)!r} there, "
                    f"{expected!r} here; begin the round from {self._start} or give its own recovery folder"
                )
        return record

    def _restore(self, recovery: Path, record: dict[str, Any]) -> None:
        tensors = load_file(str(recovery / STATE_FILE))
        torch.set_rng_state(tensors.pop("rng.cpu"))
        if "rng.cuda" in tensors:
            torch.cuda.set_rng_state(tensors.pop("rng.cuda"))
        slots: dict[int, dict[str, Any]] = {}
        for name, tensor in tensors.items():
            _, index, slot = name.split(".", 2)
            slots.setdefault(int(index), {})[slot] = tensor
        optimizer = self._trainer.optimizer
        optimizer.load_state_dict({"state": slots, "param_groups": optimizer.state_dict()["param_groups"]})
        self._trainer.lr_scheduler.load_state_dict(record["scheduler"])
        self._steps_done = int(record["steps_done"])

    def _check(self, groups: Sequence[TrainGroup]) -> None:
        """TRL groups rows by their place alone, so a mix-up here would train silently on wrong baselines."""
        size = self._settings.grpo.group_size
        slots = [group.slot for group in groups]
        if not groups or slots != sorted(set(slots)) or len({group.group for group in groups}) != len(groups):
            raise TrainingFault(f"a step needs distinct groups in slot order, not slots {slots}")
        if self._steps_done >= self._total_steps:
            raise TrainingFault(f"all {self._total_steps} steps of this round are done")
        for group in groups:
            where, rows = f"group {group.group} (slot {group.slot})", group.rollouts
            if not 2 <= len(rows) <= size:
                raise TrainingFault(f"{where} has {len(rows)} rollouts; 2 to {size} can be trained")
            if len({tuple(row.prompt_ids) for row in rows}) != 1 or not rows[0].prompt_ids:
                raise TrainingFault(f"{where} mixes rollouts of different states: their prompts differ")
            for row in rows:
                if (
                    not len(row.response_ids) == len(row.response_mask) == len(row.logprobs)
                    or 1 not in row.response_mask
                ):
                    raise TrainingFault(
                        f"{where}: ids, mask and log-probabilities must have one length and a sampled token"
                    )
            mean = sum(row.advantage for row in rows) / len(rows)
            if not abs(mean) <= _MEAN_TOLERANCE:
                raise TrainingFault(
                    f"{where}: advantages must be finite and centred on the group's mean, not {mean:+.4f}"
                )


def _summary(groups: Sequence[TrainGroup], measures: Sequence[GroupMeasure], norm: float) -> StepResult:
    tokens = sum(m.tokens for m in measures)
    by_pool: Counter[Pool] = Counter()
    for group, measure in zip(groups, measures, strict=True):
        by_pool[group.pool] += measure.tokens

    def per_token(name: str) -> float:
        return sum(float(getattr(m, name)) * m.tokens for m in measures) / tokens

    return StepResult(
        loss=sum(m.loss for m in measures) / len(measures),
        grad_norm=norm,
        entropy=per_token("entropy"),
        kl=per_token("kl"),
        clip_ratio=per_token("clip_ratio"),
        tokens_by_pool=dict(by_pool),
        logprob_gap=per_token("logprob_gap"),
    )
