"""A campaign as a list of what happened, when, and caused by what, in the order of time.

Events of single states and rollouts are many and alike: they are counted, and listed only where that is asked for.
"""

import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bat_events.codec import Codec, Fact
from bat_events.domain.canonical import canonical_json
from bat_events.events.campaign import CampaignStarted
from bat_events.events.envelope import format_time
from bat_events.replay.index import started_among
from bat_events.replay.line_facts import decoded
from bat_events.replay.lines import Line, lines_of
from bat_events.replay.source import Source

FORMAT = 1
SINGLE = frozenset(
    {
        "SynthesisRequested",
        "StateSynthesized",
        "SynthesisFailed",
        "LeakageVerdict",
        "StateAdmitted",
        "StateRefused",
        "StateRetired",
        "GroupRequested",
        "GroupAbandoned",
        "RolloutCompleted",
        "RolloutFailed",
        "RewardScored",
        "RewardShadowed",
        "RewardWithheld",
    }
)
"""Types of which a campaign has thousands."""

_SAID = (
    "round",
    "step",
    "target_stage",
    "corrective",
    "outcome",
    "overall",
    "task",
    "agentic",
    "cells",
    "missing",
    "reward",
    "healthy",
    "checkpoint",
    "reasons",
    "reason",
    "rounds",
    "decider",
    "version",
)


@dataclass(frozen=True, kw_only=True)
class Happened:
    """One event. `cause_type` is None where the cause is the campaign's own beginning or an event that is not listed."""

    time: str
    type: str
    id: str
    at: str
    round: int | None
    by: str
    what: str
    cause: str
    cause_type: str | None


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Events in order of time. `counted` are those that are not listed, by type."""

    source: str
    campaign: str
    events: tuple[Happened, ...]
    counted: Mapping[str, int]


def timeline(
    source: Source, *, campaign: str | None = None, round: int | None = None, single: bool = False
) -> Timeline:
    """What happened, of one round or of all; `single`: also states and rollouts. What is newer than compared is left out.

    Raises ReplayError where the campaign is not there, and what reading raises.
    """
    codec = Codec()
    for text in source.schemas():
        codec.learn(text)
    streams = lines_of(source)
    control = [line for where in [w for w in streams if w[0] == "campaign"] for line in streams.pop(where)]
    begun = [decoded(codec, line) for line in control if line.type.startswith("bat.CampaignStarted.")]
    chosen, _ = started_among(begun, {line.campaign for line in control}, campaign, source.name)
    found: list[tuple[Line, Fact]] = []
    counted: Counter[str] = Counter()
    types: dict[str, str] = {}
    for lines in [iter(control), *streams.values()]:
        for line in lines:
            judged = source.judged
            if line.campaign != chosen or (judged and line.offset >= judged[(line.topic, line.partition)]):
                continue
            name = line.type.removeprefix("bat.").partition(".")[0]
            if name not in SINGLE or single:
                types[line.id] = name
            if round is not None and line.round != round:
                continue
            if name in SINGLE and not single:
                counted[name] += 1
            else:
                found.append((line, decoded(codec, line)))
    found = _in_order(found)
    return Timeline(
        source=source.name,
        campaign=chosen,
        events=tuple(_happened(line, fact, types) for line, fact in found),
        counted=dict(sorted(counted.items())),
    )


def _in_order(found: list[tuple[Line, Fact]]) -> list[tuple[Line, Fact]]:
    """By time; at one moment, which decisions share with what they decide on, causes first."""
    lines = {line.id: line for line, _ in found}
    depths: dict[str, int] = {}

    def depth(line: Line) -> int:
        chain = [line]
        while (cause := lines.get(chain[-1].cause)) is not None and cause.moment == line.moment and cause not in chain:
            chain.append(cause)
        for number, part in enumerate(reversed(chain)):
            depths.setdefault(part.id, number)
        return depths[line.id]

    return sorted(found, key=lambda e: (e[0].moment, depth(e[0]), e[0].topic, e[0].partition, e[0].offset))


def _happened(line: Line, fact: Fact, types: Mapping[str, str]) -> Happened:
    return Happened(
        time=format_time(line.time),
        type=fact.event.type_name(),
        id=line.id,
        at=f"{line.topic}[{line.partition}]@{line.offset}",
        round=line.round,
        by=line.logic,
        what=_what(fact),
        cause=line.cause,
        cause_type=types.get(line.cause),
    )


def _what(fact: Fact) -> str:
    event = fact.event
    if isinstance(event, CampaignStarted):
        return f"{event.plan.rounds} rounds of {event.plan.steps_per_round} steps, gate {event.plan.gate.mode}"
    parts = []
    for name in _SAID:
        value = getattr(event, name, None)
        if value is None or name == "round":
            continue
        if isinstance(value, tuple):
            value = "; ".join(map(str, value))
        elif isinstance(value, float):
            value = f"{value:.4f}"
        elif name == "checkpoint":
            value = str(value)[:12]
        parts.append(f"{name} {value}")
    return ", ".join(parts)


def timeline_json(found: Timeline) -> str:
    """Canonical JSON with a line end."""
    data = {**asdict(found), "timeline_format": FORMAT}
    return canonical_json(json.loads(json.dumps(data))).decode() + "\n"


def timeline_table(found: Timeline) -> str:
    """As plain text, one event a line."""
    buffer = io.StringIO()
    console = Console(file=buffer, width=160, force_terminal=False, color_system=None, highlight=False)
    table = Table(box=None, pad_edge=False)
    for name in ("when", "round", "what", "", "by", "caused by"):
        table.add_column(name, overflow="fold" if not name else "ignore")
    for event in found.events:
        cause = f"{event.cause_type or ''} {event.cause[:8]}".strip() if event.cause.strip("0") else "-"
        number = "-" if event.round is None else str(event.round)
        table.add_row(
            event.time[:19] + "Z", number, f"{event.type} {event.id[:8]}", escape(event.what), event.by, cause
        )
    console.print(table)
    if found.counted:
        console.print("not listed: " + ", ".join(f"{count:,} {name}" for name, count in found.counted.items()))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
