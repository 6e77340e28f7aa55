"""Settings of the small policy, of its cold start and of GRPO. Plain values: importing this needs no torch."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelSettings(_Frozen):
    """What a cold start begins from: nothing, or pretrained weights, which have their own sizes, positions and pieces."""

    pretrained: str | None = Field(
        default=None,
        description="a folder that transformers can load, or package:NAME (training.pretrained); None: nothing",
    )
    layers: int = Field(default=3, ge=1, description="transformer layers")
    width: int = Field(default=128, ge=16, description="hidden size; a multiple of heads")
    heads: int = Field(default=4, ge=1, description="query heads")
    kv_heads: int = Field(default=2, ge=1, description="key and value heads; divides heads")
    feed_forward: int | None = Field(
        default=None, ge=16, description="inner size of the feed-forward layers; 8/3 of width"
    )
    max_positions: int = Field(default=4096, ge=64, description="longest sequence in tokens")
    pieces: int = Field(default=640, ge=264, description="byte-level BPE vocabulary, bytes and control tokens included")
    max_shared_blocks: int = Field(default=512, ge=0, description="runs of prompt lines that become one token, at most")
    min_line_share: float = Field(default=0.005, gt=0, le=1, description="share of texts that make a line a token")
    action_format: Literal["compact", "qwen3-json", "qwen3-xml"] = Field(
        default="compact", description="how an action is spelled (policy.formats)"
    )


class SftSettings(_Frozen):
    """Cold-start SFT: done once, before the first round."""

    steps: int = Field(default=250, ge=1, description="optimizer steps")
    threads: int = Field(default=2, ge=1, description="torch threads on a CPU: little else runs during the cold start")
    batch_size: int = Field(default=24, ge=1, description="demonstrations per step")
    micro_batch: int = Field(default=8, ge=1, description="demonstrations per forward pass, at most")
    learning_rate: float = Field(default=2e-3, gt=0, description="peak learning rate; cosine to zero")
    warmup_steps: int = Field(default=10, ge=0, description="steps of linear warm-up")
    max_grad_norm: float = Field(default=1.0, gt=0, description="gradient clipping")
    max_tokens: int = Field(default=8192, ge=16, description="a longer demonstration is left out, never clipped")
    validation_share: float = Field(default=0.05, gt=0, lt=0.5, description="share of rows held back, by row digest")
    probe_prompts: int = Field(default=64, ge=1, description="validation prompts that the first weights are sampled on")
    probe_temperature: float = Field(default=1.0, ge=0, description="temperature of that sample")
    probe_tokens: int = Field(default=64, ge=1, description="longest first turn of that sample, in tokens")
    min_valid_actions: float = Field(default=0.9, ge=0, le=1, description="accepted share of valid actions")


class GrpoSettings(_Frozen):
    """One GRPO round. The paper's values differ where its model is a thousand times larger (docs/training.md)."""

    group_size: int = Field(default=8, ge=2, description="rollouts asked for per group; short groups are padded to it")
    learning_rate: float = Field(default=2e-4, gt=0, description="constant learning rate")
    beta: float = Field(default=0.006, ge=0, description="weight of the KL term against the round's first weights")
    temperature: float = Field(default=1.0, gt=0, description="temperature the rollouts were sampled at")
    clip: float = Field(default=0.2, gt=0, lt=1, description="the ratio is clipped to 1 ± clip")
    max_grad_norm: float = Field(default=1.0, gt=0, description="gradient clipping")
    bf16: bool = Field(default=False, description="autocast to bfloat16 (GPU only)")
    activation_checkpointing: bool = Field(default=False, description="trade time for memory (large models)")


class TrainingSettings(_Frozen):
    """Everything the trainer backend needs."""

    model: ModelSettings = ModelSettings()
    sft: SftSettings = SftSettings()
    grpo: GrpoSettings = GrpoSettings()
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="where weights live")
    threads: int = Field(
        default=1, ge=1, description="torch threads on a CPU; results are bit-identical per value only"
    )
