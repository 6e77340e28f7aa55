"""TRL's GRPOTrainer, fed with recorded rollouts in place of generated ones.

TRL computes the log-probabilities (its fused head: fp32 for fp32 weights, after temperature), the clipped ratio, the KL
estimate and the loss. What it would make itself comes from the log: token ids and masks, the behaviour log-probabilities
(TRL leaves them out of the ratio unless vLLM samples, so they are set as `old_per_token_logps`), and the advantages.

One micro-batch is one group, padded to the group size with rows that have no unmasked token. TRL's mean over the rows of
a micro-batch would dilute a short group, so the loss is scaled by padded rows over real rows: every group of a step weighs the
same, however many of its rollouts survived, and the planned mix of the pools is kept.
"""

import tempfile
from dataclasses import dataclass
from typing import Any

import torch
from datasets import Dataset
from trl.trainer import grpo_config, grpo_trainer
from trl.trainer.utils import add_fused_lm_head

from bat_events.training.interface import TrainGroup
from bat_events.training.settings import GrpoSettings

_GRPOTrainer: Any = grpo_trainer.GRPOTrainer  # its own annotations are narrower than what it takes
_GRPOConfig: Any = grpo_config.GRPOConfig


@dataclass(frozen=True)
class GroupMeasure:
    """What one group's pass measured, before the update; the means are per sampled token."""

    loss: float  # as it enters the mean over groups
    tokens: int
    entropy: float
    kl: float
    clip_ratio: float
    logprob_gap: float


class RecordedGrpoTrainer(_GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer whose batches are `TrainGroup`s; `measures` collects what each pass saw."""

    def __init__(
        self, model: Any, reference: Any, tokenizer: Any, settings: GrpoSettings, *, device: str, seed: int
    ) -> None:
        self.measures: list[GroupMeasure] = []
        self._policy_logps: Any = None
        self._scratch = tempfile.TemporaryDirectory(prefix="bat-grpo-")
        args = _GRPOConfig(
            output_dir=self._scratch.name,
            per_device_train_batch_size=settings.group_size,
            num_generations=settings.group_size,
            steps_per_generation=1,
            gradient_accumulation_steps=1,  # set per step to its number of groups
            num_iterations=1,
            beta=0.0,  # TRL would load a reference by the config's name; it is attached below
            epsilon=settings.clip,
            temperature=settings.temperature,
            top_p=1.0,
            top_k=0,
            loss_type="grpo",
            scale_rewards="none",
            importance_sampling_level="token",
            use_bias_correction_kl=False,  # the plain k3 estimate; TRL's default multiplies it by the ratio
            shuffle_dataset=False,
            learning_rate=settings.learning_rate,
            lr_scheduler_type="constant",
            warmup_steps=0,
            weight_decay=0.0,
            max_grad_norm=settings.max_grad_norm,
            use_cpu=device == "cpu",
            bf16=settings.bf16,
            activation_checkpointing=settings.activation_checkpointing,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            seed=seed % 2**32,
        )
        super().__init__(
            model=model,
            reward_funcs=_no_reward,
            args=args,
            train_dataset=Dataset.from_dict({"prompt": [""] * settings.group_size}),
            processing_class=tokenizer,
        )
        self.beta = settings.beta
        if settings.beta:
            reference.requires_grad_(False)
            reference.eval()
            add_fused_lm_head(reference, temperature=settings.temperature)
            self.ref_model = self.accelerator.prepare_model(reference, evaluation_mode=True)

    def close(self) -> None:
        """Remove the scratch folder that TRL asks for."""
        self._scratch.cleanup()

    def _prepare_inputs(self, generation_batch: TrainGroup) -> dict[str, Any]:
        """TRL's version shuffles rows and slices a generation batch; here the micro-batch is the group, in its order."""
        return self._generate_and_score_completions(generation_batch)

    def _generate_and_score_completions(self, inputs: TrainGroup) -> dict[str, Any]:
        device, rows = self.accelerator.device, list(inputs.rollouts)
        missing = self.num_generations - len(rows)
        width = max(len(row.response_ids) for row in rows)
        pad = int(self._tokenizer.pad_token_id)

        def padded(values: Any, fill: float) -> list[Any]:
            return [*values, *[fill] * (width - len(values))]

        ids = [padded(row.response_ids, pad) for row in rows] + [[pad] * width] * missing
        present = [padded([1] * len(row.response_ids), 0) for row in rows] + [[0] * width] * missing
        sampled = [padded(row.response_mask, 0) for row in rows] + [[0] * width] * missing
        behaviour = [padded(row.logprobs, 0.0) for row in rows] + [[0.0] * width] * missing
        prompt = torch.tensor([list(rows[0].prompt_ids)] * self.num_generations, device=device)
        batch: dict[str, Any] = {
            "prompt_ids": prompt,
            "prompt_mask": torch.ones_like(prompt),
            "completion_ids": torch.tensor(ids, device=device),
            "completion_mask": torch.tensor(present, device=device),
            "tool_mask": torch.tensor(sampled, device=device),
            "advantages": torch.tensor([row.advantage for row in rows] + [0.0] * missing, device=device),
            "old_per_token_logps": torch.tensor(behaviour, dtype=torch.float32, device=device),
            "rows": len(rows),
        }
        if self.beta:
            with torch.no_grad():
                batch["ref_per_token_logps"], _, _ = self._get_per_token_logps_and_entropies(
                    self.ref_model,
                    torch.cat([prompt, batch["completion_ids"]], dim=1),
                    torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
                    width,
                )
        return batch

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        result = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        if torch.is_grad_enabled():
            self._policy_logps = result[0].detach()
        return result

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        self._metrics["train"].clear()
        loss = super()._compute_loss(model, inputs) * (self.num_generations / inputs["rows"])
        mask = inputs["completion_mask"] * inputs["tool_mask"]
        tokens = int(mask.sum())
        gap = ((self._policy_logps - inputs["old_per_token_logps"]).abs() * mask).sum() / max(tokens, 1)
        metrics = self._metrics["train"]
        self.measures.append(
            GroupMeasure(
                loss=float(loss.detach()) * self.current_gradient_accumulation_steps,
                tokens=tokens,
                entropy=metrics["entropy"][-1],
                kl=metrics["kl"][-1] if self.beta else 0.0,
                clip_ratio=metrics["clip_ratio/region_mean"][-1],
                logprob_gap=float(gap),
            )
        )
        return loss


def _no_reward(**_: Any) -> list[float]:
    raise AssertionError("rewards and advantages are the domain's; TRL must not ask for them")
