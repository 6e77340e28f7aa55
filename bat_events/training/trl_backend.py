"""The trainer backend on TRL. TRL takes seconds to import, so that happens when something is trained, not before."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bat_events.training.interface import ColdStartResult, Demonstration, Progress, RoundTrainer
from bat_events.training.settings import TrainingSettings


class TrlBackend:
    """`TrainerBackend`: cold start with SFTTrainer, rounds with GRPOTrainer.

    Sets torch's thread count for the whole process, because sums over another number of threads round differently and a
    resumed round must give the same bytes.
    """

    name = "trl"

    def __init__(self, settings: TrainingSettings | None = None) -> None:
        self.settings = settings if settings is not None else TrainingSettings()

    def cold_start(
        self, corpus: Sequence[Demonstration], folder: Path, *, seed: int, progress: Progress
    ) -> ColdStartResult:
        _use(self.settings.sft.threads)
        from bat_events.training.sft import cold_start

        return cold_start(corpus, folder, self.settings, seed=seed, progress=progress)

    def round_trainer(
        self, start: Path, *, recovery: Path | None, total_steps: int, seed: int, progress: Progress
    ) -> RoundTrainer:
        _use(self.settings.threads)
        from bat_events.training.grpo import GrpoRound

        return GrpoRound(
            start, recovery=recovery, total_steps=total_steps, settings=self.settings, seed=seed, progress=progress
        )


def _use(threads: int) -> None:
    import torch
    from transformers.utils import logging

    torch.set_num_threads(threads)
    silence: Any = logging.disable_progress_bar
    silence()  # progress is reported by lines, through the caller
