"""Which settings hold when: those that a campaign began with, and from a fork's cut on those that the fork changed.

A fork at round N holds from the gate's decision on round N on: for that decision, the prescription after it, and all later
rounds. What was copied stays what the origin's settings gave.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from bat_events.domain import rubric
from bat_events.events.campaign import CampaignForked, CampaignStarted, SettingChanged
from bat_events.events.plan import CampaignPlan

RUBRIC = "rubric"

SETTABLE: Mapping[str, str] = {
    "gate.mode": "which promotion rule decides",
    "gate.max_stage_drop": "paired gate: the largest fall of a stage mean that passes",
    "target_rule": "which stage means the teacher reads",
    "rounds": "how many rounds the campaign has in all",
    RUBRIC: "the version of the rubric that the judge makes rewards by; held-out cells stay under the origin's",
    "sampling.temperature": "of practice rollouts",
    "grpo.learning_rate": "of the policy update",
    "grpo.beta": "KL weight of the policy update",
    "grpo.clip": "clip range of the policy update",
    "grpo.max_grad_norm": "of the policy update",
    "health.min_valid_actions": "below it a step is unhealthy",
    "health.min_entropy": "below it a step is unhealthy",
    "health.max_zero_variance": "above it a step is unhealthy",
}
"""What a fork may change. Everything else shapes what was copied: the bank's states, groups and their size, held-out cells."""


def pinned_version(started: CampaignStarted, name: str) -> int | None:
    """The version of a decider, or of another rule, that a campaign pins; None where it pins none."""
    return next((part.version for part in started.logic if part.name == name), None)


def pinned_rubric(started: CampaignStarted) -> int:
    """The version of the rubric that a campaign pins: 1 where it pins none, as the first campaigns did."""
    return pinned_version(started, rubric.NAME) or 1


class SettingRefused(ValueError):
    """A fork cannot change this setting, or not to this value."""


def changed_settings(
    started: CampaignStarted, forks: Sequence[CampaignForked], values: Mapping[str, Any]
) -> tuple[SettingChanged, ...]:
    """The settings that differ from those in force, by name. Raises SettingRefused naming setting, value and reason."""
    plan, version = plan_in_force(started, forks), rubric_at_end(started, forks)
    found = []
    for name, value in sorted(values.items()):
        if name not in SETTABLE:
            raise SettingRefused(f"{name} cannot be set: it shapes what is copied. Settable: {', '.join(SETTABLE)}")
        before: Any = version if name == RUBRIC else _get(plan, name)
        if name == RUBRIC:
            if type(value) is not int or value not in rubric.VERSIONS:
                raise SettingRefused(
                    f"rubric {value!r} is not here: choose one of {', '.join(map(str, rubric.VERSIONS))}"
                )
            after: Any = value
        else:
            after = _get(_with(plan, {name: value}), name)
        if after != before:
            found.append(SettingChanged(name=name, before=json.dumps(before), after=json.dumps(after)))
    return tuple(found)


def plan_for(started: CampaignStarted, forks: Sequence[CampaignForked], number: int) -> CampaignPlan:
    """The plan under which a round's report is decided on."""
    return plan_in_force(started, [fork for fork in forks if fork.round <= number])


def plan_in_force(started: CampaignStarted, forks: Sequence[CampaignForked]) -> CampaignPlan:
    """The plan after all of these forks, in their order."""
    if not forks:
        return started.plan
    values = {s.name: json.loads(s.after) for fork in forks for s in fork.settings if s.name != RUBRIC}
    return _with(started.plan, values)


def rubric_for(started: CampaignStarted, forks: Sequence[CampaignForked], number: int) -> int:
    """The version of the rubric that rewards of a round's rollouts are made by."""
    return rubric_at_end(started, [fork for fork in forks if fork.round < number])


def rubric_at_end(started: CampaignStarted, forks: Sequence[CampaignForked]) -> int:
    """The version of the rubric after all of these forks."""
    found = [json.loads(s.after) for fork in forks for s in fork.settings if s.name == RUBRIC]
    return found[-1] if found else pinned_rubric(started)


def _get(plan: CampaignPlan, name: str) -> Any:
    data: Any = plan.model_dump(mode="json")
    for part in name.split("."):
        data = data[part]
    return data


def _with(plan: CampaignPlan, values: Mapping[str, Any]) -> CampaignPlan:
    data = plan.model_dump(mode="json")
    for name, value in values.items():
        *groups, last = name.split(".")
        place = data
        for group in groups:
            place = place[group]
        place[last] = float(value) if isinstance(place[last], float) and type(value) is int else value
    try:
        return CampaignPlan.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SettingRefused(f"{where}={first['input']!r}: {first['msg']}") from None
