"""A stand-in for a trainer, for tests of the loop without torch. It is a fake and is called one.

It "learns" by arithmetic on recorded rewards: a focus practised in a step gains a fixed share of what it lacks, more
where rewards varied. Equal inputs give equal weights, so a run can be compared with another to the byte.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path

from bat_events.domain.vocabulary import Focus, Pool
from bat_events.policy.scripted import read_weights, write_weights
from bat_events.training.interface import (
    ColdStartResult,
    Demonstration,
    Progress,
    RoundTrainer,
    StepResult,
    TrainGroup,
)

START_QUALITY = 0.5
GAIN = 0.6


class ScriptedBackend:
    """See the module."""

    name = "scripted"

    def cold_start(
        self,
        corpus: Sequence[Demonstration],
        folder: Path,
        *,
        seed: int,  # noqa: ARG002
        progress: Progress,
    ) -> ColdStartResult:
        """See TrainerBackend."""
        progress(f"scripted cold start on {len(corpus)} demonstrations")
        write_weights(folder, {focus.value: START_QUALITY for focus in Focus})
        rows = len(corpus)
        return ColdStartResult(
            steps=0, rows_train=rows, rows_validation=0, train_loss=0.0, validation_loss=0.0, valid_action_rate=1.0
        )

    def round_trainer(
        self,
        start: Path,
        *,
        recovery: Path | None,
        total_steps: int,  # noqa: ARG002
        seed: int,  # noqa: ARG002
        progress: Progress,  # noqa: ARG002
    ) -> RoundTrainer:
        """See TrainerBackend."""
        return _ScriptedRound(recovery or start)


class _ScriptedRound:
    def __init__(self, folder: Path) -> None:
        self._quality = read_weights(folder)

    def step(self, groups: Sequence[TrainGroup]) -> StepResult:
        """See RoundTrainer."""
        size = 0.0
        for group in groups:
            spread = math.sqrt(sum(row.advantage**2 for row in group.rollouts) / len(group.rollouts))
            gain = GAIN * (1.0 - self._quality[group.focus]) * (0.25 + spread)
            self._quality[group.focus] = min(1.0, self._quality[group.focus] + gain)
            size += gain
        tokens = dict.fromkeys(Pool, 0)
        for group in groups:
            tokens[group.pool] += sum(sum(row.response_mask) for row in group.rollouts)
        return StepResult(
            loss=0.0, grad_norm=size, entropy=1.0, kl=0.0, clip_ratio=0.0, tokens_by_pool=tokens, logprob_gap=0.0
        )

    def save_weights(self, folder: Path) -> None:
        """See RoundTrainer."""
        write_weights(folder, {focus.value: self._quality[focus] for focus in Focus})

    def save_recovery(self, folder: Path) -> None:
        """See RoundTrainer."""
        self.save_weights(folder)
        (folder / "kind.json").write_text(json.dumps({"kind": "scripted recovery"}))

    def close(self) -> None:
        """See RoundTrainer."""
