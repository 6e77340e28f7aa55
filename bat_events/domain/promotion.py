"""The gate's rule: is a candidate promoted or held.

Two modes. "reference" is the published rule: no score may fall by more than a fixed threshold, and no gain is asked
for; losses below the thresholds add up from round to round. "paired" (the default) asks that the gain over the
best-so-far be real: the lower one-sided 80 % bound of the paired Overall difference is above zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from bat_events.domain.evaluation import Comparison, Summary
from bat_events.domain.vocabulary import Stage, Track

Mode = Literal["paired", "reference"]


@dataclass(frozen=True, kw_only=True)
class GateSettings:
    """Thresholds, in score points. The reference ones are the published rule's; a drop is old minus new."""

    overall_drop: float = 0.01
    task_drop: float = 0.03
    track_drop: float = 0.05
    stage_drop: float = 0.03
    guarded_stages: tuple[Stage, ...] = (Stage.S3, Stage.S4, Stage.S5)
    overall_cliff: float = 0.20  # implied by overall_drop; kept because the published rule states both
    paired_gain: float = 0.0
    paired_stage_drop: float = 0.15


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What the reference gate reads of an evaluation: raw means."""

    overall: float
    task: float
    tracks: Mapping[Track, float] = field(default_factory=dict)  # Overall per track
    stages: Mapping[Stage, float] = field(default_factory=dict)

    @classmethod
    def of(cls, summary: Summary) -> "Standing":
        """The standing of a summarised evaluation."""
        return cls(
            overall=summary.overall,
            task=summary.task,
            tracks={track: means.overall for track, means in summary.tracks.items()},
            stages={stage: means.raw for stage, means in summary.stages.items()},
        )


@dataclass(frozen=True, kw_only=True)
class Check:
    """One condition of the gate. `value` is None where it could not be computed, which fails the check."""

    name: str
    passed: bool
    value: float | None
    threshold: float | None


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Promoted only if every check passed; `reasons` says what failed, or what carried the promotion."""

    promoted: bool
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]


def decide(
    mode: Mode,
    *,
    candidate: Standing,
    baseline: Standing | None,
    comparison: Comparison | None,
    healthy: bool,
    settings: GateSettings | None = None,
) -> Decision:
    """Promote or hold a candidate.

    `baseline` is the report that it is held against (reference: the last promoted; paired: best-so-far) and `comparison`
    the paired differences from it. Without a baseline the report is the first one and becomes the baseline, whatever
    its scores. Raises ValueError where there is a baseline but no comparison.
    """
    settings = settings or GateSettings()
    if baseline is None:
        return Decision(promoted=True, reasons=("the first report is the baseline",), checks=())
    if comparison is None:
        raise ValueError("a candidate with a baseline needs its paired comparison: evaluate both on one matrix")
    if mode == "reference":
        checks = _reference(candidate, baseline, settings)
    elif mode == "paired":
        checks = _paired(comparison, settings)
    else:
        raise ValueError(f"gate mode {mode!r} is unknown: use 'paired' or 'reference'")
    checks = (_flag("pairing", comparison.complete), _flag("health", healthy), *checks)
    failed = [check for check in checks if not check.passed]
    if failed:
        return Decision(promoted=False, reasons=tuple(_failure(check) for check in failed), checks=checks)
    return Decision(promoted=True, reasons=(_carried(mode, comparison),), checks=checks)


def _reference(candidate: Standing, baseline: Standing, settings: GateSettings) -> tuple[Check, ...]:
    # Raw float comparison, as published: a drop from 0.53 to 0.50 is 0.030000000000000027 and fails at 0.03.
    overall = baseline.overall - candidate.overall
    checks = [
        Check(
            name="overall_drop", passed=overall <= settings.overall_drop, value=overall, threshold=settings.overall_drop
        ),
        _drop("task_drop", baseline.task, candidate.task, settings.task_drop),
    ]
    for track in Track:
        if track in baseline.tracks:
            name = f"track_drop:{track}"
            checks.append(_drop(name, baseline.tracks[track], candidate.tracks.get(track), settings.track_drop))
    for stage in settings.guarded_stages:
        if stage in baseline.stages:
            name = f"stage_drop:{stage}"
            checks.append(_drop(name, baseline.stages[stage], candidate.stages.get(stage), settings.stage_drop))
    cliff = Check(
        name="overall_cliff", passed=overall < settings.overall_cliff, value=overall, threshold=settings.overall_cliff
    )
    return (*checks, cliff)


def _paired(comparison: Comparison, settings: GateSettings) -> tuple[Check, ...]:
    lower = comparison.overall.lower80
    gain = Check(
        name="overall_gain_lower80",
        passed=lower is not None and lower > settings.paired_gain,
        value=lower,
        threshold=settings.paired_gain,
    )
    drops = [
        _drop(f"stage_drop:{stage}", 0.0, comparison.stages[stage].mean, settings.paired_stage_drop)
        for stage in Stage
        if stage in comparison.stages
    ]
    return (gain, *drops)


def _flag(name: str, holds: bool) -> Check:
    return Check(name=name, passed=holds, value=1.0 if holds else 0.0, threshold=1.0)


def _drop(name: str, before: float, after: float | None, threshold: float) -> Check:
    # Written as a positive test, so that NaN fails it.
    value = None if after is None else before - after
    return Check(name=name, passed=value is not None and value <= threshold, value=value, threshold=threshold)


def _failure(check: Check) -> str:
    if check.name == "pairing":
        return "pairing: the two evaluations do not have the same cells"
    if check.name == "health":
        return "health: the training round was not healthy"
    if check.value is None:
        return f"{check.name}: cannot be computed, too few cells"
    relation = "not above" if check.name == "overall_gain_lower80" else "beyond"
    return f"{check.name}: {check.value:.4f} is {relation} {check.threshold:g}"


def _carried(mode: Mode, comparison: Comparison) -> str:
    gain = comparison.overall
    if mode == "reference":
        return f"no score fell beyond its threshold (Overall {gain.mean:+.4f}, n {comparison.n})"
    return f"Overall gain {gain.mean:+.4f} over best-so-far, lower 80 % bound {gain.lower80:+.4f}, n {comparison.n}"
