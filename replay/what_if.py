"""What another gate or target rule would have decided on a recorded campaign. Nothing is run: the reports are the record's.

The gate and the teacher of the versions that the campaign pins are asked again, over the same candidates and reports and another
plan. As long as every round starts from the same checkpoint and practises the same stage, the next report is what it would have
been. The first decision that changes either is where the record ends: what would have been trained and measured from there on,
no log can tell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from bat_events.codec import Fact
from bat_events.deciders.interface import Decider
from bat_events.deciders.versions import NEWEST, pinned_version
from bat_events.domain.lineage import is_fork
from bat_events.events.boundary import EvaluationReported
from bat_events.events.campaign import CampaignStarted
from bat_events.events.plan import CampaignPlan
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted, TargetStagePrescribed
from bat_events.replay.facts import facts_of
from bat_events.replay.registry import DECIDERS
from bat_events.replay.source import ReplayError, Source

SETTINGS = ("gate.mode", "gate.max_stage_drop", "target_rule")
"""What can be asked about: the settings that gate and teacher read, by their names in the campaign file."""

_TOPICS = ("campaign", "training", "boundary.report", "promotion", "curriculum")
_TYPES = (
    "CampaignStarted",
    "CheckpointProduced",
    "EvaluationReported",
    "CheckpointPromoted",
    "CheckpointHeld",
    "TargetStagePrescribed",
)

Promotion = CheckpointPromoted | CheckpointHeld


@dataclass(frozen=True, kw_only=True)
class WhatIfRound:
    """One round: what was decided and what would have been. The `would_*` are None where the record cannot tell.

    `target` is the stage prescribed after this round's decision, for the next round; None where there is none.
    """

    round: int
    overall: float
    decision: str
    would_decide: str | None
    reasons: tuple[str, ...]
    would_reasons: tuple[str, ...] | None
    target: str | None
    would_target: str | None
    differs: bool


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """The answer. `told_until` is the last round that the record tells; None: all of them."""

    source: str
    campaign: str
    settings: Mapping[str, Any]
    recorded_settings: Mapping[str, Any]
    rounds: tuple[WhatIfRound, ...]
    told_until: int | None
    why: str


def what_if(source: Source, changes: Mapping[str, str], *, campaign: str | None = None) -> WhatIf:
    """Ask. `changes` maps names of SETTINGS to values as text.

    Raises ReplayError for an unknown setting, a value that it cannot have, or a campaign that is not there.
    """
    facts = facts_of(source, campaign, _TYPES, _TOPICS)
    started = next(fact for fact in facts if isinstance(fact.event, CampaignStarted))
    event: CampaignStarted = started.event  # type: ignore[assignment]
    if is_fork(started.envelope.campaign):
        raise ReplayError(
            f"{started.envelope.campaign} is a fork, whose settings hold from a cut on: ask its origin, or fork it again"
        )
    other = replace(started, event=event.model_copy(update={"plan": changed_plan(event.plan, changes)}))
    rounds, told, why = _compare(facts, other)
    return WhatIf(
        source=source.name,
        campaign=started.envelope.campaign,
        settings={name: _get(other.event.plan, name) for name in changes},  # type: ignore[attr-defined]
        recorded_settings={name: _get(event.plan, name) for name in changes},
        rounds=tuple(rounds),
        told_until=told,
        why=why,
    )


def changed_plan(plan: CampaignPlan, changes: Mapping[str, str]) -> CampaignPlan:
    """The plan with other settings. Raises ReplayError."""
    data = plan.model_dump(mode="json")
    for name, text in changes.items():
        if name not in SETTINGS:
            raise ReplayError(f"--what-if {name}: no setting that decides; choose among {', '.join(SETTINGS)}")
        *groups, last = name.split(".")
        place = data
        for group in groups:
            place = place[group]
        try:
            place[last] = float(text) if isinstance(place[last], float) else text
        except ValueError:
            raise ReplayError(f"--what-if {name}={text}: a number is needed") from None
    try:
        return CampaignPlan.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ReplayError(f"--what-if {where}={first['input']!r}: {first['msg']}") from None


def _get(plan: CampaignPlan, name: str) -> Any:
    data: Any = plan.model_dump(mode="json")
    for part in name.split("."):
        data = data[part]
    return data


def _decider(name: str, started: CampaignStarted, campaign: str) -> Decider:
    newest = next(kind for kind in NEWEST if kind.name == name)
    logic = f"{name}/{pinned_version(started, name) or newest.version}"
    if logic not in DECIDERS:
        raise ReplayError(f"no decider {logic} here: install a newer bat-events")
    return DECIDERS[logic](campaign)


def _compare(facts: Sequence[Fact], started: Fact) -> tuple[list[WhatIfRound], int | None, str]:
    campaign = started.envelope.campaign
    event: CampaignStarted = started.event  # type: ignore[assignment]
    reports = {f.event.round: f.event for f in facts if isinstance(f.event, EvaluationReported)}
    decided = {f.event.round: f.event for f in facts if isinstance(f.event, CheckpointPromoted | CheckpointHeld)}
    prescribed = {f.event.round: f.event for f in facts if isinstance(f.event, TargetStagePrescribed)}
    gate = _decider("gate", event, campaign)
    teacher = _decider("teacher", event, campaign)
    for fact in facts:
        said = started if isinstance(fact.event, CampaignStarted) else fact
        gate.apply(said)
        if not isinstance(fact.event, CheckpointPromoted | CheckpointHeld):
            teacher.apply(said)
    would = {draft.round: draft for draft in gate.required()}
    found: list[WhatIfRound] = []
    told, why = None, "every round would have begun from the same checkpoint, with the same target"
    for number in sorted(decided):
        recorded = decided[number]
        draft = would.get(number)
        if told is not None or draft is None:
            found.append(_untold(recorded, prescribed.get(number + 1)))
            continue
        other: Promotion = draft.event  # type: ignore[assignment]
        place = next(f for f in facts if f.event is recorded)
        teacher.apply(replace(place, event=other))
        targets = [d.event for d in teacher.required() if d.round == number + 1]
        would_target: TargetStagePrescribed | None = targets[0] if targets else None  # type: ignore[assignment]
        row = _told(recorded, other, reports[number], prescribed.get(number + 1), would_target)
        found.append(row)
        change = _parts(recorded, other, prescribed.get(number + 1), would_target)
        if change and number < max(decided):
            told, why = number, change
    return found, told, why


def _parts(
    recorded: Promotion, other: Promotion, target: TargetStagePrescribed | None, would: TargetStagePrescribed | None
) -> str:
    """Why the next round would have been another one, in words; empty where it would not."""
    if _start(recorded) != _start(other):
        return f"round {recorded.round + 1} would have begun from {_start(other)[:12]}, and not from {_start(recorded)[:12]}"
    if target is not None and would is not None and target.target_stage != would.target_stage:
        return f"round {target.round} would have practised {would.target_stage}, and not {target.target_stage}"
    if other.best_so_far not in (recorded.best_so_far, _start(recorded)):
        best = other.best_so_far[:12]
        return f"round {recorded.round + 1} would have been held against {best}, which was not measured beside it"
    return ""


def _start(decision: Promotion) -> str:
    return decision.checkpoint if isinstance(decision, CheckpointPromoted) else decision.fallback


def _word(decision: Promotion) -> str:
    return "promoted" if isinstance(decision, CheckpointPromoted) else "held"


def _told(
    recorded: Promotion,
    other: Promotion,
    report: EvaluationReported,
    target: TargetStagePrescribed | None,
    would: TargetStagePrescribed | None,
) -> WhatIfRound:
    stage = None if target is None else target.target_stage.value
    would_stage = None if would is None else would.target_stage.value
    return WhatIfRound(
        round=recorded.round,
        overall=report.overall,
        decision=_word(recorded),
        would_decide=_word(other),
        reasons=recorded.reasons,
        would_reasons=other.reasons,
        target=stage,
        would_target=would_stage,
        differs=_word(recorded) != _word(other) or (target is not None and stage != would_stage),
    )


def _untold(recorded: Promotion, target: TargetStagePrescribed | None) -> WhatIfRound:
    return WhatIfRound(
        round=recorded.round,
        overall=recorded.overall,
        decision=_word(recorded),
        would_decide=None,
        reasons=recorded.reasons,
        would_reasons=None,
        target=None if target is None else target.target_stage.value,
        would_target=None,
        differs=False,
    )
