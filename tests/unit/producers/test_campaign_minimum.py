"""A campaign whose evaluations could never be reported is refused when it is started, not after its first hour."""

from importlib import resources
from pathlib import Path

import pytest

from bat_events.domain.vocabulary import Track
from bat_events.errors import ConfigurationError
from bat_events.events.plan import CampaignPlan, EvaluationPlan
from bat_events.producers.campaigns import check_evaluation, load_plan, start
from bat_events.service.context import Context
from bat_events.service.runtime import Status
from bat_events.settings import load_settings
from tests.support.campaigns import PLAN

FILES = sorted(Path(str(resources.files("bat_events") / "campaigns")).glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_campaign_file_has_cells_enough(file: Path) -> None:
    check_evaluation(load_plan(file))


def test_there_are_campaign_files() -> None:
    assert {file.stem for file in FILES} >= {"demo", "quick", "scripted"}


def plan(repeats: int, *tracks: Track) -> CampaignPlan:
    return PLAN.model_copy(update={"tracks": tracks, "evaluation": EvaluationPlan(repeats=repeats)})


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (plan(1, *Track), "evaluation.repeats: 1 on 7 tracks .* each track needs 2"),
        (plan(3, Track.VQA), "there are 3 in all, and 4 are needed"),
        (plan(9), "there are 0 in all"),
        (plan(4, Track.VQA, Track.VQA), "name each once"),
    ],
)
def test_a_campaign_with_too_few_cells_does_not_start(made: CampaignPlan, words: str, tmp_path: Path) -> None:
    nowhere = Context(settings=load_settings(home=tmp_path), bootstrap="no broker", status=Status(service="campaign"))
    with pytest.raises(ConfigurationError, match=words):
        start(nowhere, "c1", made, benchmark_version=1)


def test_the_smallest_campaigns_start() -> None:
    check_evaluation(plan(2, Track.VQA, Track.REPORT))
    check_evaluation(plan(4, Track.VQA))
