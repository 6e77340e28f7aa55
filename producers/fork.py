"""Forks: a campaign in a namespace of its own, with another one's events up to a round's report, going on under other settings.

What a copy is stands in log.copies, where it ends in fork_cut, how it is written in fork_log. The same call again changes
nothing, or finishes what was broken off.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bat_events.deciders.in_force import SettingRefused, changed_settings
from bat_events.domain.lineage import fork_of
from bat_events.errors import ConfigurationError, LogError
from bat_events.events.campaign import CampaignForked, SettingChanged
from bat_events.log.interface import CrashPoint
from bat_events.producers.fork_cut import Cutting
from bat_events.producers.fork_log import LAST, ForkLog
from bat_events.producers.import_log import Say, Target
from bat_events.producers.imports import check_topics, store_evidence
from bat_events.replay.archive_reader import ArchiveReader
from bat_events.service.runtime import no_crash


@dataclass(frozen=True, kw_only=True)
class ForkResult:
    """What a fork did. `written` counts copies; 0 where all of it was there."""

    campaign: str
    copies: int
    written: int
    settings: tuple[SettingChanged, ...]


def fork_id(origin: str, name: str) -> str:
    """The id of a fork. Raises ConfigurationError for a name that none can have."""
    try:
        return fork_of(origin, name)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def fork_campaign(
    folder: Path,
    target: Target,
    say: Say,
    *,
    number: int,
    values: Mapping[str, Any],
    name: str,
    without_cells: bool = False,
    crash: CrashPoint = no_crash,
) -> ForkResult:
    """Fork the campaign of an archive at the report of round `number`. `values` maps settings to their new values.

    Raises ConfigurationError for what cannot be set, LogError where no fork can begin there or the namespace does not fit,
    ArchiveError for a damaged archive. Nothing is written before everything that is there was compared.
    """
    archive = ArchiveReader(folder)
    if archive.manifest.only_round is not None:
        raise LogError(f"{folder} holds round {archive.manifest.only_round} only: fork from a whole campaign")
    if archive.manifest.heldout != "included" and not without_cells:
        raise LogError(
            f"{folder} holds no held-out cells: a fork could not compare a later checkpoint with the best so far, and would hold "
            "every one. Export with --heldout, or say --without-cells if that is wanted"
        )
    check_topics(archive.manifest, target)
    say(f"looking for the cut of round {number}")
    cut = Cutting(archive, number).cut()
    try:
        settings = changed_settings(cut.started, cut.forks, values)
    except SettingRefused as error:
        raise ConfigurationError(f"--set {error}") from None
    campaign = fork_id(archive.manifest.campaign, name)
    copies = sum(cut.counts.values())
    with ForkLog(campaign, target) as log:
        known = log.forked()
        if known is not None:
            refuse_another(known, campaign, number, settings)
            return ForkResult(campaign=campaign, copies=copies, written=0, settings=settings)
        log.refuse_others()
        there = log.compare(archive, cut)
        log.publish_schemas(archive, crash)
        for entry in archive.manifest.evidence:
            store_evidence(folder, entry.plane, archive, target, say)
        written = log.write(archive, cut, there, say, crash)
        log.finish(archive, cut, number, settings, there[LAST], crash)
    written += cut.counts[LAST] - there[LAST]
    return ForkResult(campaign=campaign, copies=copies, written=written, settings=settings)


def refuse_another(known: CampaignForked, campaign: str, number: int, settings: tuple[SettingChanged, ...]) -> None:
    """Raises LogError where the fork on the log is not the one that is asked for."""
    if (known.round, known.settings) != (number, settings):
        said = ", ".join(f"{s.name}={s.after}" for s in known.settings) or "no other settings"
        raise LogError(f"{campaign} is there already, forked at round {known.round} with {said}: choose another --name")
