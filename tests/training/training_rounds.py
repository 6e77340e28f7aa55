"""What the training tests share: a tiny checkpoint, rollouts sampled from it, and weights compared."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from bat_events.domain.vocabulary import Focus, Pool
from bat_events.policy.interface import Sampling
from bat_events.policy.transformers_engine import TransformersEngine
from bat_events.training.grpo import GrpoRound
from bat_events.training.interface import Demonstration, TrainGroup, TrainRollout
from bat_events.training.model import load_model
from bat_events.training.settings import GrpoSettings, ModelSettings, SftSettings, TrainingSettings

TINY = ModelSettings(layers=2, width=32, heads=2, kv_heads=1, feed_forward=64, pieces=300)


def settings(*, sft: SftSettings | None = None, **grpo: Any) -> TrainingSettings:
    """Settings of a tiny run; GRPO's by name."""
    return TrainingSettings(model=TINY, sft=sft or SftSettings(), grpo=GrpoSettings(**{"group_size": 4, **grpo}))


def quiet(_: str) -> None:
    """No progress."""


def round_of(start: Path, *, recovery: Path | None = None, seed: int = 1, steps: int = 8, **grpo: Any) -> GrpoRound:
    """A round with TINY settings."""
    return GrpoRound(start, recovery=recovery, total_steps=steps, settings=settings(**grpo), seed=seed, progress=quiet)


def demonstrations(count: int) -> list[Demonstration]:
    """Two-turn demonstrations whose argument follows from the card."""
    return [
        Demonstration(
            system="Use the library.",
            prompt=f"Plan, then run it.\ncase {i % 40}\ncard: noise={noise}",
            actions=[f'm.plan("{noise}")', "m.run()"],
            observations=["planned", "ran"],
            focus=Focus.S1,
        )
        for i in range(count)
        for noise in (("low", "high")[i % 2],)
    ]


@cache
def sampled_group(
    start: Path, *, slot: int = 0, rows: int = 4, temperature: float = 1.0, prompt: tuple[int, ...] = (9, 10, 11)
) -> TrainGroup:
    """Rollouts of two turns with an observation between them, as the log would record them; rewards differ by row."""
    engine = TransformersEngine()
    engine.load(start)
    first = engine.generate([prompt] * rows, Sampling(temperature=temperature, max_new_tokens=4 + slot, seed=slot))
    seen = (20, 21, 22)
    second = engine.generate(
        [[*prompt, *g.token_ids, *seen] for g in first], Sampling(temperature=temperature, max_new_tokens=3, seed=50)
    )
    mean = (rows - 1) / 2 / rows
    rollouts = [
        TrainRollout(
            prompt_ids=prompt,
            response_ids=(*a.token_ids, *seen, *b.token_ids),
            response_mask=(*[1] * len(a.token_ids), *[0] * len(seen), *[1] * len(b.token_ids)),
            logprobs=(*a.logprobs, *[0.0] * len(seen), *b.logprobs),
            reward=i / rows,
            advantage=i / rows - mean,
            valid_actions=2,
            turns=2,
        )
        for i, (a, b) in enumerate(zip(first, second, strict=True))
    ]
    return TrainGroup(group=f"g{slot}", slot=slot, pool=list(Pool)[slot % 3], focus=Focus.S1, rollouts=rollouts)


def with_rollouts(group: TrainGroup, **changes: Any) -> TrainGroup:
    """The group with fields of every rollout changed; a value may be a function of the rollout."""
    return replace(
        group,
        rollouts=[
            replace(row, **{k: v(row) if callable(v) else v for k, v in changes.items()}) for row in group.rollouts
        ],
    )


def weights(trainer: GrpoRound, folder: Path) -> dict[str, torch.Tensor]:
    """The trainer's weights, through its own save."""
    trainer.save_weights(folder)
    return dict(load_model(folder, device="cpu").state_dict())


def distance(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    """Largest absolute difference of any weight."""
    return max(float((a[name] - b[name]).abs().max()) for name in a)
