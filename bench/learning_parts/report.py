"""The result as markdown for docs/learning.md and as JSON: every cell's numbers, no seed, no text of an instance."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bat_events.domain.statistics import Interval

from .campaign import Campaign
from .cells import AGENTIC, OVERALL, STAGES, TASK, Measured
from .compare import Change, Comparison, OverSeeds, over_seeds
from .measure import Measure


@dataclass(frozen=True, kw_only=True)
class SeedResult:
    """One seed's campaign, what was measured (before, after) and how it compares, by the measure's name."""

    seed: int
    campaign: Campaign
    measures: tuple[Measure, ...]
    measured: Mapping[str, tuple[Measured, Measured]]
    comparisons: Mapping[str, Comparison]


def shared_measures(results: Sequence[SeedResult]) -> tuple[Measure, ...]:
    """The measures of all seeds: they have one campaign file."""
    return results[0].measures


def main_changes(results: Sequence[SeedResult], measure: Measure) -> list[Change]:
    """Each seed's change of the measure's main value."""
    return [result.comparisons[measure.name].values[measure.main] for result in results]


def verdict(results: Sequence[SeedResult], failed: Mapping[int, str]) -> list[str]:
    """Which intervals exclude zero, in sentences; nothing is rounded up."""
    lines = []
    above, intervals = 0, 0
    for measure in shared_measures(results):
        changes = main_changes(results, measure)
        told = [
            f"seed {result.seed} {_side(change.difference)}" for result, change in zip(results, changes, strict=True)
        ]
        pooled = over_seeds(changes)
        told.append(f"over seeds (t) {_side(pooled.difference)}")
        told.append(f"over seeds (bootstrap) {_side(pooled.bootstrap)}")
        found = [*(change.difference for change in changes), pooled.difference]
        above += sum(interval.above_zero for interval in found)
        intervals += len(found)
        lines.append(f"{measure.name}, {measure.main}: {'; '.join(told)}.")
    seeds = f"{len(results)} of {len(results) + len(failed)} seeds were run and measured"
    if failed:
        lines.append(f"INCOMPLETE: {seeds}; without them nothing is shown.")
    elif above == intervals:
        lines.append(f"SHOWN: all {intervals} intervals (per seed, and t over seeds) lie above zero; {seeds}.")
    else:
        lines.append(
            f"NOT SHOWN: {above} of {intervals} intervals (per seed, and t over seeds) lie above zero; {seeds}."
        )
    return lines


def markdown(results: Sequence[SeedResult], failed: Mapping[int, str]) -> str:
    """The report. Intervals are 95 %, two-sided; differences are after minus before."""
    plan = results[0].campaign.plan
    lines = [
        f"{len(plan.tracks)} tracks, {plan.rounds} rounds of {plan.steps_per_round} steps, K {plan.group_size}; seeds "
        + ", ".join(str(result.seed) for result in results)
        + ". Before: the cold start. After: the finally promoted checkpoint. Intervals: 95 %, two-sided, paired.",
        "",
        *_main_table(results),
        "",
        *(f"- {line}" for line in verdict(results, failed)),
        *(f"- Seed {seed} failed: {why}" for seed, why in failed.items()),
        *(
            f"- Seed {result.seed}: no candidate was promoted, so before and after are one checkpoint."
            for result in results
            if result.campaign.cold_start == result.campaign.best
        ),
    ]
    for measure in shared_measures(results):
        lines += ["", f"**{measure.name}**, means over seeds (t interval over seeds, n = {len(results)})", ""]
        lines += _detail_table(results, measure)
    lines += ["", "**The campaigns** (what the gate saw: best-so-far cannot fall, so this is not evidence)", ""]
    return "\n".join([*lines, *_campaign_table(results)]) + "\n"


def as_json(results: Sequence[SeedResult], failed: Mapping[int, str]) -> str:
    """Everything behind the report."""
    return json.dumps(
        {
            "verdict": verdict(results, failed),
            "failed": {str(seed): why for seed, why in failed.items()},
            "over_seeds": {
                measure.name: _pooled_json(over_seeds(main_changes(results, measure)))
                for measure in shared_measures(results)
            },
            "seeds": [_seed_json(result) for result in results],
        },
        indent=1,
    )


def _main_table(results: Sequence[SeedResult]) -> list[str]:
    lines = [
        "| measure | seed | pairs (missing) | before | after | difference | valid actions | zero |",
        "|---|---|---:|---:|---:|---|---|---|",
    ]
    for measure in shared_measures(results):
        changes = main_changes(results, measure)
        for result, change in zip(results, changes, strict=True):
            found = result.comparisons[measure.name]
            lines.append(
                f"| {measure.name}: {measure.main} | {result.seed} | {found.pairs} ({found.lost}) | {change.before:.3f} "
                f"| {change.after:.3f} | {_interval(change.difference)} | {_share(found.valid_before)} → "
                f"{_share(found.valid_after)} | {_side(change.difference)} |"
            )
        pooled = over_seeds(changes)
        for name, interval in (("all, t", pooled.difference), ("all, bootstrap", pooled.bootstrap)):
            lines.append(
                f"| {measure.name}: {measure.main} | {name} | | {pooled.before:.3f} | {pooled.after:.3f} "
                f"| {_interval(interval)} | | {_side(interval)} |"
            )
    return lines


def _detail_table(results: Sequence[SeedResult], measure: Measure) -> list[str]:
    found = [result.comparisons[measure.name] for result in results]
    rows: list[tuple[str, list[Change]]] = []

    def add(name: str, read: Callable[[Comparison], Change | None]) -> None:
        changes = [change for comparison in found if (change := read(comparison)) is not None]
        if changes:
            rows.append((name, changes))

    for value in (OVERALL, TASK, AGENTIC, *STAGES) if measure.kind == "confirmation" else (measure.main,):
        add(value, lambda comparison, value=value: comparison.values.get(value))  # type: ignore[misc]
    if measure.kind == "probe":
        for focus in found[0].focuses:
            add(f"{focus} states", lambda comparison, focus=focus: comparison.focuses.get(focus))  # type: ignore[misc]
    for track in found[0].tracks:
        add(f"{track}, {measure.main}", lambda comparison, track=track: comparison.tracks.get(track))  # type: ignore[misc]
    lines = ["| value | before | after | difference |", "|---|---:|---:|---|"]
    for name, changes in rows:
        pooled = over_seeds(changes)
        lines.append(f"| {name} | {pooled.before:.3f} | {pooled.after:.3f} | {_interval(pooled.difference)} |")
    return lines


def _campaign_table(results: Sequence[SeedResult]) -> list[str]:
    lines = ["| seed | round | practised | decision | Overall | best-so-far |", "|---|---|---|---|---:|---:|"]
    for result in results:
        for row in result.campaign.rounds:
            numbers = " | ".join("" if row[n] is None else f"{row[n]:.4f}" for n in ("Overall", "best-so-far"))
            lines.append(
                f"| {result.seed} | {row['round']} | {row['target_stage'] or ''} | {row['decision'] or ''} | {numbers} |"
            )
    return lines


def _seed_json(result: SeedResult) -> dict[str, Any]:
    campaign = result.campaign
    return {
        "seed": result.seed,
        "plan": campaign.plan.model_dump(mode="json"),
        "cold_start": campaign.cold_start,
        "best": campaign.best,
        "rounds": campaign.rounds,
        "steps": [asdict(step) for step in campaign.steps],
        "measures": {
            name: {
                "pairs": found.pairs,
                "missing": found.lost,
                "valid_actions": [found.valid_before, found.valid_after],
                "values": {value: _change_json(change) for value, change in found.values.items()},
                "tracks": {track.value: _change_json(change) for track, change in found.tracks.items()},
                "focuses": {focus.value: _change_json(change) for focus, change in found.focuses.items()},
                "before": result.measured[name][0].as_json(),
                "after": result.measured[name][1].as_json(),
            }
            for name, found in result.comparisons.items()
        },
    }


def _change_json(change: Change) -> dict[str, Any]:
    return {"before": change.before, "after": change.after, "difference": asdict(change.difference)}


def _pooled_json(pooled: OverSeeds) -> dict[str, Any]:
    return asdict(pooled)


def _interval(interval: Interval) -> str:
    if interval.lower is None or interval.upper is None:
        return f"{interval.mean:+.3f} (no interval: n {interval.n})"
    return f"{interval.mean:+.3f} [{interval.lower:+.3f}, {interval.upper:+.3f}]"


def _side(interval: Interval) -> str:
    if interval.lower is None:
        return "no interval"
    return "above zero" if interval.above_zero else "below zero" if interval.below_zero else "includes zero"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"
