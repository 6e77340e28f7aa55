"""The few facts of a campaign that stand on its low-volume topics, read without its rollouts and states."""

from collections.abc import Collection
from dataclasses import replace

from bat_events.codec import Codec, Fact
from bat_events.events.campaign import CampaignStarted
from bat_events.events.rollouts import RolloutCompleted
from bat_events.replay.index import started_among
from bat_events.replay.line_facts import decoded
from bat_events.replay.lines import lines_of
from bat_events.replay.source import Source


def facts_of(source: Source, campaign: str | None, types: Collection[str], topics: Collection[str]) -> list[Fact]:
    """The campaign's facts of these types on these topics, by topic, partition and offset, each id once; rollouts
    without their packed tokens.

    `types` holds CampaignStarted; `campaign` None: the log must hold one. Raises ReplayError where the campaign is not there,
    and what reading raises.
    """
    codec = Codec()
    for text in source.schemas():
        codec.learn(text)
    found: list[Fact] = []
    seen: set[str] = set()
    names: set[str] = set()
    for (topic, _), lines in lines_of(source).items():
        if topic not in topics:
            continue
        for line in lines:
            name = line.type.removeprefix("bat.").partition(".")[0]
            names.add(line.campaign)
            if name in types and line.id not in seen and campaign in (None, line.campaign):
                seen.add(line.id)
                found.append(_light(decoded(codec, line)))
                line.value = b""
    begun = [fact for fact in found if isinstance(fact.event, CampaignStarted)]
    chosen, _ = started_among(begun, names, campaign, source.name)
    return [fact for fact in found if fact.envelope.campaign == chosen]


def _light(fact: Fact) -> Fact:
    """Without a rollout's packed tokens, which are most of a log."""
    event = fact.event
    if not isinstance(event, RolloutCompleted):
        return fact
    none = dict.fromkeys(("prompt_ids", "response_ids", "response_mask", "logprobs"), b"")
    return replace(fact, event=event.model_copy(update=none))
