"""The cold-start corpus: demonstrations of practice instances, part right, part not, from the campaign's seed.

Two thirds are stage-local, one third end to end; cells of the source grid are gone through in order, so every track,
stage and outcome is met. Nothing held out is read: instances are of the practice split, under seeds of their own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bat_events.benchmark.interface import Benchmark, TaskKey
from bat_events.domain.canonical import digest, seed63
from bat_events.domain.vocabulary import Focus, Outcome, Split
from bat_events.events.plan import CampaignPlan
from bat_events.sandbox.observation import clip_observation
from bat_events.training.interface import Demonstration, Progress

FINAL = "done"  # how a demonstration ends its episode
_REPORT_EVERY = 250


def build_corpus(benchmark: Benchmark, plan: CampaignPlan, progress: Progress) -> list[Demonstration]:
    """`plan.cold_start.demonstrations` episodes."""
    tracks = [track for track in benchmark.tracks() if track in plan.tracks]
    count = plan.cold_start.demonstrations
    outcomes = list(Outcome)
    local = [focus for focus in Focus if focus is not Focus.E2E]
    rows = []
    for number in range(count):
        focus = Focus.E2E if number % 3 == 2 else local[(number - number // 3) % len(local)]
        key = TaskKey(
            track=tracks[(number // 3) % len(tracks)],
            focus=focus,
            outcome=outcomes[(number // (3 * len(tracks))) % len(outcomes)],
            # three rows share their images: drawing those is what takes the time
            seed=seed63("cold-start", plan.seed, number // 3),
            split=Split.PRACTICE,
        )
        task = benchmark.build(key)
        played = benchmark.demonstration(
            key, seed=seed63("demonstration", plan.seed, number), quality=plan.cold_start.quality
        )
        played = played[: plan.limits.max_turns]
        rows.append(
            Demonstration(
                system=task.system,
                prompt=task.prompt,
                actions=[code for code, _ in played],
                observations=[clip_observation(seen, plan.limits.max_observation_chars) for _, seen in played],
                focus=focus,
                final=FINAL,
            )
        )
        if (number + 1) % _REPORT_EVERY == 0 or number + 1 == count:
            progress(f"cold start: {number + 1} of {count} demonstrations")
    return rows


def corpus_digest(rows: Sequence[Demonstration]) -> str:
    """SHA-256 of the corpus."""
    return digest(
        [
            [row.system, row.prompt, list(row.actions), list(row.observations), row.focus.value, row.final]
            for row in rows
        ]
    )


def corpus_body(rows: Sequence[Demonstration]) -> dict[str, Any]:
    """The corpus as JSON data: the artefact that is scanned before it is trained on."""
    return {
        "kind": "corpus",
        "rows": [
            {
                "system": row.system,
                "prompt": row.prompt,
                "actions": list(row.actions),
                "observations": list(row.observations),
                "focus": row.focus.value,
                "final": row.final,
            }
            for row in rows
        ],
    }


def corpus_from_body(body: Mapping[str, Any]) -> list[Demonstration]:
    """The inverse of `corpus_body`. Raises ValueError on something else."""
    if body.get("kind") != "corpus":
        raise ValueError(f"not a corpus body: kind {body.get('kind')!r}")
    return [Demonstration(**{**row, "focus": Focus(row["focus"])}) for row in body["rows"]]
