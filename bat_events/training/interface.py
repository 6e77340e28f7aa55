"""What a trainer is given and gives back: plain values, so that the reactor that feeds it from the log needs no torch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bat_events.domain.vocabulary import Focus, Pool

Progress = Callable[[str], None]  # one human-readable line: what is being done and how far it is


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """One episode of the cold-start corpus: what the policy sees and what it should do, turn by turn.

    Only assistant turns carry loss. `observations[i]` follows `actions[i]`; the last action may have none.
    """

    system: str
    prompt: str
    actions: Sequence[str]  # python source of one execute_code call each
    observations: Sequence[str]
    focus: Focus
    final: str | None = None  # what the policy says to end its episode; needs an observation of the last action


@dataclass(frozen=True, kw_only=True)
class ColdStartResult:
    """What cold-start SFT measured; losses are mean nats per supervised token."""

    steps: int
    rows_train: int
    rows_validation: int
    train_loss: float
    validation_loss: float
    valid_action_rate: float  # share of sampled first turns on validation prompts that are valid actions


@dataclass(frozen=True, kw_only=True)
class TrainRollout:
    """One rollout as the log recorded it. `response_ids`, `response_mask` and `logprobs` have one length.

    `response_mask` is 1 where the policy sampled the token, 0 where the runtime put it (observations, headers);
    `logprobs` are the behaviour log-probabilities, 0.0 where the mask is 0. `advantage` is the domain's, not TRL's.
    """

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    response_mask: Sequence[int]
    logprobs: Sequence[float]
    reward: float
    advantage: float
    valid_actions: int  # turns that parsed as actions
    turns: int


@dataclass(frozen=True, kw_only=True)
class TrainGroup:
    """The surviving rollouts of one group: two at least, `group_size` at most. Rows missing are masked, not zero."""

    group: str
    slot: int
    pool: Pool
    focus: Focus
    rollouts: Sequence[TrainRollout]


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """What one GRPO update measured. Every number is finite or the step raises TrainingFault."""

    loss: float
    grad_norm: float
    entropy: float  # mean nats per sampled token
    kl: float  # mean k3 estimate against the round's first weights, per sampled token
    clip_ratio: float
    tokens_by_pool: Mapping[Pool, int]  # sampled (mask 1) tokens
    logprob_gap: float  # mean absolute difference of trainer and behaviour log-probability before the update


class TrainingFault(RuntimeError):
    """Training could not go on; the message says why and what was last healthy."""


class RoundTrainer(Protocol):
    """The GRPO trainer of one round: a fresh optimizer, and the round's first weights as the KL reference."""

    def step(self, groups: Sequence[TrainGroup]) -> StepResult:
        """One update on one whole step's groups, in slot order."""
        ...

    def save_weights(self, folder: Path) -> None:
        """Write a folder that Engine.load takes (weights, config, tokenizer)."""
        ...

    def save_recovery(self, folder: Path) -> None:
        """Write everything needed to go on bit-identically on a CPU: weights, optimizer, scheduler, RNG, step count."""
        ...

    def close(self) -> None: ...


class TrainerBackend(Protocol):
    """Makes cold starts and round trainers; `name` is recorded in events."""

    name: str

    def cold_start(
        self, corpus: Sequence[Demonstration], folder: Path, *, seed: int, progress: Progress
    ) -> ColdStartResult:
        """Train the first weights and tokenizer into `folder`. Raises TrainingFault below the accepted action validity."""
        ...

    def round_trainer(
        self, start: Path, *, recovery: Path | None, total_steps: int, seed: int, progress: Progress
    ) -> RoundTrainer:
        """Begin a round from checkpoint folder `start`, or go on from a recovery folder of the same round."""
        ...
