"""Is training still healthy: the signals that end a round early, with the last healthy weights as its candidate."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bat_events.domain.vocabulary import Focus


@dataclass(frozen=True, kw_only=True)
class HealthSettings:
    """Limits of a healthy step. Facts section 6 asks for finite metrics and no collapse; the figures are this project's.

    A policy below 90 % valid actions collapsed in small trials (it never ended a turn); a rate is read only where there
    are `minimum_turns` turns, for one invalid turn in eight is noise.
    """

    minimum_valid_action_rate: float = 0.9
    minimum_entropy: float = 0.05  # mean nats per sampled token
    maximum_zero_variance_share: float = 0.6
    minimum_turns: int = 1


@dataclass(frozen=True, kw_only=True)
class StepSignals:
    """What one step, or several pooled, showed. `actions` holds (valid actions, turns) per focus.

    `numbers` are further metrics that must be finite, by name (loss, gradient norm, KL).
    """

    actions: Mapping[Focus, tuple[int, int]]
    entropy: float
    zero_variance_groups: int
    groups: int
    numbers: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Health:
    """The verdict; `reasons` is empty exactly when healthy."""

    healthy: bool
    reasons: tuple[str, ...]


def step_health(signals: StepSignals, settings: HealthSettings | None = None) -> Health:
    """Judge one step, or several pooled. Raises ValueError on counts that cannot be."""
    settings = settings or HealthSettings()
    if not 0 <= signals.zero_variance_groups <= signals.groups or signals.groups == 0:
        raise ValueError(f"{signals.zero_variance_groups} zero-variance groups of {signals.groups}: cannot be")
    metrics = {"entropy": signals.entropy, **signals.numbers}
    reasons = [f"{name} is {value}" for name, value in sorted(metrics.items()) if not math.isfinite(value)]
    for focus in Focus:
        valid, turns = signals.actions.get(focus, (0, 0))
        if not 0 <= valid <= turns:
            raise ValueError(f"{focus}: {valid} valid actions in {turns} turns: cannot be")
        if turns >= max(settings.minimum_turns, 1) and valid / turns < settings.minimum_valid_action_rate:
            limit = settings.minimum_valid_action_rate
            reasons.append(f"{focus}: {valid} of {turns} actions valid, below {limit:g}")
    if signals.entropy < settings.minimum_entropy:
        reasons.append(f"entropy {signals.entropy:.4f} is below {settings.minimum_entropy:g}")
    share = signals.zero_variance_groups / signals.groups
    if share > settings.maximum_zero_variance_share:
        reasons.append(f"zero-variance share {share:.3f} is above {settings.maximum_zero_variance_share:g}")
    return Health(healthy=not reasons, reasons=tuple(reasons))


def pooled(steps: Sequence[StepSignals]) -> StepSignals:
    """Several steps as one: counts added, entropy and numbers averaged. Raises ValueError on no steps.

    A single step has eight groups, so its shares are coarse; judging the last few pooled tells a trend from a draw.
    """
    if not steps:
        raise ValueError("no steps to pool")
    counts = {focus: [step.actions[focus] for step in steps if focus in step.actions] for focus in Focus}
    names = sorted({name for step in steps for name in step.numbers})
    return StepSignals(
        actions={
            focus: (sum(valid for valid, _ in found), sum(turns for _, turns in found))
            for focus, found in counts.items()
            if found
        },
        entropy=_mean([step.entropy for step in steps]),
        zero_variance_groups=sum(step.zero_variance_groups for step in steps),
        groups=sum(step.groups for step in steps),
        numbers={name: _mean([step.numbers[name] for step in steps if name in step.numbers]) for name in names},
    )


def _mean(values: Sequence[float]) -> float:
    # sum, not fsum: fsum raises on infinities of both signs, and a broken number must come out as broken.
    return sum(values) / len(values)
