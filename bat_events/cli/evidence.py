"""Recorded evidence for who scores rollouts again: the store's, or an archive's."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bat_events.artifacts import ArtifactError, ArtifactStore
from bat_events.settings import Settings

if TYPE_CHECKING:
    from bat_events.benchmark.rejudge import Fetch
    from bat_events.events.campaign import CampaignStarted
    from bat_events.replay import Score, ScoreOf


def fetch_of(settings: Settings, archive: Path | None) -> "Fetch":
    """The JSON of an artefact by digest. What it gives raises ArtifactError where one is not there, or was changed."""
    if archive is None:
        return ArtifactStore(settings.artifact_root(), cache=settings.home.absolute() / "cache").get_json
    from bat_events.replay.archive_evidence import artifact_path

    def fetch(digest: str) -> Any:
        try:
            content = artifact_path(archive, "training", digest).read_bytes()
        except OSError as error:
            raise ArtifactError(f"artefact {digest} is not in {archive}") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise ArtifactError(f"artefact {digest} in {archive} was changed")
        return json.loads(content)

    return fetch


def score_of(settings: Settings, archive: Path | None) -> "ScoreOf":
    """How replay scores a campaign's rollouts again: with the grader of the benchmark that its plan names."""

    def of(started: "CampaignStarted") -> "Score":
        from bat_events.benchmark.registry import benchmark
        from bat_events.benchmark.rejudge import score_again

        graders = benchmark(started.plan.benchmark)
        return score_again(graders, fetch_of(settings, archive), recorded_version=started.benchmark_version)

    return of
