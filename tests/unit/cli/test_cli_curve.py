"""The learning curve in the terminal: what it shows, in 80 columns and without colour."""

from io import StringIO

import pytest
from rich.console import Console

from bat_events.cli.curve import HEIGHT, learning_curve
from bat_events.deciders.campaign import CampaignView
from bat_events.domain.vocabulary import Stage
from bat_events.events.boundary import EvaluationReported
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted, TargetStagePrescribed
from bat_events.events.training import TrainingStepCompleted
from tests.support.campaigns import CAMPAIGN, told

OVERALL = (0.25, 0.5, 0.4)
BEST = (0.25, 0.5, 0.5)


def campaign(rewards: list[float]) -> CampaignView:
    """A baseline, a promoted round 1 and a held round 2, each of these mean rewards by step."""
    view = CampaignView(CAMPAIGN)
    for number, (overall, best) in enumerate(zip(OVERALL, BEST, strict=True)):
        view.apply(told(EvaluationReported, round=number, cells=140, overall=overall))
        if number == 2:
            view.apply(told(CheckpointHeld, round=2, overall=overall, best_overall=best))
        else:
            view.apply(told(CheckpointPromoted, round=number, baseline=number == 0, best_overall=best))
        if number:
            view.apply(told(TargetStagePrescribed, round=number, target_stage=Stage.S3))
            for step, reward in enumerate(rewards):
                view.apply(told(TrainingStepCompleted, round=number, step=step, reward=reward))
    return view


def shown(view: CampaignView, *, width: int = 80, plain: bool = False) -> list[str]:
    """The lines as a terminal without colour has them."""
    file = StringIO()
    Console(file=file, width=width, no_color=True).print(learning_curve(view, width=width, plain=plain))
    return file.getvalue().splitlines()


def test_bars_are_as_long_as_overall_and_best_so_far_is_marked() -> None:
    lines = shown(campaign([0.2, 0.4]))
    assert lines[0] == "Overall on 140 held-out cells, bars from 0 to 0.5; │ is best-so-far"
    baseline, promoted, held = lines[1:4]
    assert baseline.split()[:4] == ["round", "0", "baseline", "0.2500"]
    assert promoted.split()[:4] == ["round", "1", "promoted", "0.5000"]
    assert held.split()[:4] == ["round", "2", "held", "0.4000"]
    assert [line.count("█") for line in (baseline, promoted, held)] == [24, 48, 38]
    assert promoted.index("│") == held.index("│") > baseline.index("│")


def test_rewards_are_columns_of_one_scale_and_are_called_no_evidence() -> None:
    lines = shown(campaign([0.1, 0.2, 0.3]))
    start = next(at for at, line in enumerate(lines) if line.startswith("Mean practice reward"))
    assert "not evidence" in lines[start + 1]
    columns = lines[start + 2 : start + 2 + HEIGHT]
    heights = [sum(line.ljust(80)[at] == "█" for line in columns) for at in range(8, 15)]
    assert heights == [2, 4, 6, 0, 2, 4, 6]  # a gap between the rounds
    assert columns[0].startswith("  0.30 ")
    assert "1  " in lines[start + 2 + HEIGHT]


@pytest.mark.parametrize("steps", [1, 12, 50, 400])
@pytest.mark.parametrize("width", [40, 80, 150])
def test_nothing_is_wider_than_the_terminal(steps: int, width: int) -> None:
    lines = shown(campaign([0.5 + 0.3 * (step % 2) for step in range(steps)]), width=width)
    assert max(map(len, lines[1:4])) <= width
    columns = [line for line in lines if "┤" in line or "└" in line]
    assert len(columns) == HEIGHT + 1
    assert max(map(len, columns)) <= width


def test_many_steps_share_a_column_and_the_heading_says_so() -> None:
    assert "one column for 3 steps" in "\n".join(shown(campaign([0.4] * 100)))
    assert "one column a step" in "\n".join(shown(campaign([0.4] * 30)))


def test_a_terminal_without_block_characters_gets_ascii() -> None:
    assert "\n".join(shown(campaign([0.2, 0.4]), plain=True)).isascii()


def test_a_campaign_without_reports_has_no_curve() -> None:
    assert not learning_curve(CampaignView(CAMPAIGN))


def test_a_round_that_is_being_evaluated_is_open() -> None:
    view = CampaignView(CAMPAIGN)
    view.apply(told(EvaluationReported, round=0, cells=8, overall=0.0))
    (line,) = [line for line in shown(view) if "round 0" in line]
    assert line.split() == ["round", "0", "open", "0.0000"]
