"""Puts campaigns on the log: started, paused, resumed, cancelled. One open campaign at a time in a namespace."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from bat_events import __version__
from bat_events.codec import Fact
from bat_events.deciders.interface import Draft
from bat_events.deciders.versions import newest_logic, pinned_version, refusal
from bat_events.domain.lineage import SEPARATOR, is_fork
from bat_events.domain.minimum import shortfall
from bat_events.errors import ConfigurationError, LogError
from bat_events.events.base import Event
from bat_events.events.campaign import (
    CampaignCancelled,
    CampaignPaused,
    CampaignResumed,
    CampaignStarted,
    LogicUpgraded,
)
from bat_events.events.ids import ROOT_CAUSE
from bat_events.events.plan import CampaignPlan
from bat_events.events.rounds import CampaignFinished
from bat_events.log.kafka import KafkaWriter
from bat_events.service.context import Context
from bat_events.service.emit import outgoing

SOURCE, LOGIC_NAME = "bat/campaign", "campaign/1"


@dataclass(frozen=True, kw_only=True)
class CampaignState:
    """One campaign as the log has it: open, paused, finished or cancelled."""

    campaign: str
    state: str
    started_at: datetime
    outcome: str | None
    plan: CampaignPlan


def load_plan(path: Path, overrides: dict[str, Any] | None = None) -> CampaignPlan:
    """A campaign file. Raises ConfigurationError naming file, field and what is wrong."""
    try:
        data = yaml.safe_load(path.read_text()) or {}
    except FileNotFoundError:
        raise ConfigurationError(f"campaign file {path} is not there") from None
    except yaml.YAMLError as error:
        raise ConfigurationError(f"campaign file {path} is no YAML: {error}") from None
    if not isinstance(data, dict):
        raise ConfigurationError(f"campaign file {path} must hold a mapping of settings")
    for dotted, value in (overrides or {}).items():
        _put(data, dotted, value)
    return parse_plan(data, str(path))


def parse_plan(data: dict[str, Any], where: str) -> CampaignPlan:
    """A plan from plain data. Raises ConfigurationError."""
    try:
        return CampaignPlan.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "(whole file)"
        raise ConfigurationError(f"{where}: {field}: {first['msg']} (got {first.get('input')!r})") from None


def _put(data: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    for name in parents:
        data = data.setdefault(name, {})
    data[last] = value


def list_campaigns(context: Context) -> list[CampaignState]:
    """Every campaign of the namespace, oldest first."""
    facts = [*context.read_all("campaign"), *context.read_all("round")]
    outcome = {f.envelope.campaign: f.event.outcome for f in facts if isinstance(f.event, CampaignFinished)}
    paused: dict[str, bool] = {}
    cancelled: set[str] = set()
    started: dict[str, tuple[datetime, CampaignStarted]] = {}
    for fact in facts:
        name = fact.envelope.campaign
        if isinstance(fact.event, CampaignStarted):
            started.setdefault(name, (fact.envelope.time, fact.event))
        elif isinstance(fact.event, CampaignPaused | CampaignResumed):
            paused[name] = isinstance(fact.event, CampaignPaused)
        elif isinstance(fact.event, CampaignCancelled):
            cancelled.add(name)
    states = []
    for name, (at, event) in started.items():
        state = "open"
        if name in outcome:
            state = "cancelled" if outcome[name] == "cancelled" else "finished"
        elif name in cancelled:
            state = "cancelling"
        elif paused.get(name):
            state = "paused"
        states.append(
            CampaignState(campaign=name, state=state, started_at=at, outcome=outcome.get(name), plan=event.plan)
        )
    return states


def start(context: Context, campaign: str, plan: CampaignPlan, *, benchmark_version: int) -> Draft:
    """Begin a campaign.

    Raises LogError while another one is open, or when the id was used; ConfigurationError for an id of a fork, and for a plan
    whose evaluations could never be reported.
    """
    check_evaluation(plan)
    if is_fork(campaign):
        raise ConfigurationError(
            f"campaign id {campaign!r}: {SEPARATOR!r} stands in the ids of forks only (`bat-events fork`)"
        )
    for known in list_campaigns(context):
        if known.campaign == campaign:
            raise LogError(f"campaign {campaign} is already on this log: choose another id")
        if known.state not in ("finished", "cancelled"):
            raise LogError(
                f"campaign {known.campaign} is {known.state} in namespace {context.settings.namespace}: wait for it, "
                f"cancel it, or use another namespace"
            )
    event = CampaignStarted(
        plan=plan,
        package_version=__version__,
        logic=newest_logic(),
        benchmark_version=benchmark_version,
    )
    return _publish(context, campaign, event, ROOT_CAUSE, 0)


def check_evaluation(plan: CampaignPlan) -> None:
    """Whether the plan's evaluations have cells enough for a report. Raises ConfigurationError."""
    if len(set(plan.tracks)) < len(plan.tracks):
        raise ConfigurationError(f"tracks: {', '.join(plan.tracks)}: name each once")
    short = shortfall(dict.fromkeys(plan.tracks, plan.evaluation.repeats))
    if short is not None:
        raise ConfigurationError(
            f"evaluation.repeats: {plan.evaluation.repeats} on {len(plan.tracks)} tracks is too little for a report, which must "
            f"not tell of single cells: {short}"
        )


def pause(context: Context, campaign: str, reason: str) -> Draft:
    """Ask for no new work until `resume`."""
    return _control(context, campaign, CampaignPaused(reason=reason), ("open",))


def resume(context: Context, campaign: str, reason: str) -> Draft:
    """Go on after `pause`."""
    return _control(context, campaign, CampaignResumed(reason=reason), ("paused",))


def cancel(context: Context, campaign: str, reason: str) -> Draft:
    """End a campaign for good."""
    return _control(context, campaign, CampaignCancelled(reason=reason), ("open", "paused"))


def upgrade(context: Context, campaign: str, name: str, version: int, reason: str) -> Draft:
    """Let a decider go over to another version with the next round that is prescribed.

    Raises LogError for a campaign that is not open, ConfigurationError where that version cannot go on there.
    """
    facts = [f for f in context.read_all("campaign") if f.envelope.campaign == campaign]
    started = next((f.event for f in facts if isinstance(f.event, CampaignStarted)), None)
    if started is not None:
        asked = [f.event.version for f in facts if isinstance(f.event, LogicUpgraded) and f.event.decider == name]
        in_force = asked[-1] if asked else pinned_version(started, name) or 1
        wrong = refusal(in_force, name, version)
        if wrong is not None:
            raise ConfigurationError(f"campaign {campaign}: {wrong}")
    event = LogicUpgraded(decider=name, version=version, reason=reason)
    return _control(context, campaign, event, ("open", "paused"))


def _control(context: Context, campaign: str, event: Event, allowed: tuple[str, ...]) -> Draft:
    known = {state.campaign: state for state in list_campaigns(context)}
    if campaign not in known:
        raise LogError(f"campaign {campaign} is not in namespace {context.settings.namespace}")
    if known[campaign].state not in allowed:
        raise LogError(f"campaign {campaign} is {known[campaign].state}: this needs one that is {' or '.join(allowed)}")
    facts: list[Fact] = [f for f in context.read_all("campaign") if f.envelope.campaign == campaign]
    return _publish(context, campaign, event, facts[-1].id, 0)


def _publish(context: Context, campaign: str, event: Event, cause: str, ordinal: int) -> Draft:
    draft = Draft(event=event, campaign=campaign, cause=cause, ordinal=ordinal, key=campaign)
    record = outgoing(draft, source=SOURCE, logic=LOGIC_NAME, time=datetime.now(UTC), partitions=context.partitions)
    KafkaWriter(bootstrap=context.bootstrap, namespace=context.settings.namespace, name="campaign").publish([record])
    return draft
