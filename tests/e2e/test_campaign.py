"""A tiny campaign on the real Kafka, through the command line: events, audit, replay, and the controls."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bat_events.events.rollouts import RewardScored, RolloutCompleted
from bat_events.events.rounds import CampaignFinished, GroupRequested, RoundPlanned
from bat_events.events.training import TrainingStepCompleted
from bat_events.log.local_kafka import LocalKafka
from tests.e2e.commands import Home, finished

pytestmark = [pytest.mark.kafka, pytest.mark.sandbox]

SCRIPTED = Path(__file__).parents[2] / "bat_events" / "campaigns" / "scripted.yaml"


@pytest.fixture(scope="module")
def home(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A finished campaign of the scripted stand-ins: 2 rounds, 2 steps, 4 groups of 2."""
    home = Home(tmp_path_factory.mktemp("home"), bootstrap=kafka.bootstrap, namespace="e2e-scripted")
    assert "tiny" in home.run("campaign", "start", str(SCRIPTED), "--id", "tiny")
    with home.serving(), home.serving("rollout"):  # a second rollout worker shares the work
        home.wait(finished, "round")
        home.workers = home.counts("rollout")  # type: ignore[attr-defined]
        home.wait(lambda _: bool(_finished_rows(home)), "round", timeout_s=60)
        home.live = home.ask("SELECT count(*) AS n FROM events WHERE type = 'RewardScored'")  # type: ignore[attr-defined]
    return home


def _finished_rows(home: Home) -> list[dict[str, Any]]:
    return [r for r in home.ask("SELECT count(*) AS n FROM events WHERE type = 'CampaignFinished'") if r["n"]]


def test_every_transition_is_on_the_log_and_fits(home: Home) -> None:
    facts = home.facts()
    count = Counter(type(fact.event).__name__ for fact in facts)
    assert len({fact.id for fact in facts}) == len(facts)
    assert count["CampaignStarted"] == count["CampaignFinished"] == count["ColdStartCompleted"] == 1
    assert count["CheckpointProduced"] == count["EvaluationRequested"] == count["EvaluationReported"] == 3
    assert count["CheckpointPromoted"] + count["CheckpointHeld"] == 3
    assert count["TargetStagePrescribed"] == count["RoundPlanned"] == count["RoundCompleted"] == 2
    assert count["TrainingStepCompleted"] == 4
    assert count["GroupRequested"] == 16
    assert count["RolloutCompleted"] == count["RewardScored"] == 32
    assert count["EvaluationCellScored"] == 3 * 2 * 4
    assert count["SynthesisRequested"] == count["StateSynthesized"] == count["LeakageVerdict"] == count["StateAdmitted"]
    assert {name for name in count if name.endswith(("Failed", "Withheld"))} == set()


def test_causes_lead_back_to_the_campaigns_start(home: Home) -> None:
    facts = {fact.id: fact for fact in home.facts()}
    for fact in facts.values():
        seen, at = 0, fact
        while at.envelope.cause != "0" * 32:
            at, seen = facts[at.envelope.cause], seen + 1
            assert seen < 60
        assert type(at.event).__name__ == "CampaignStarted"


def test_a_step_is_four_groups_of_the_planned_pools(home: Home) -> None:
    facts = home.facts("round", "group", "training")
    for plan in (fact.event for fact in facts if isinstance(fact.event, RoundPlanned)):
        for step in plan.steps:
            pools = Counter(slot.pool.value for slot in step.slots)
            assert pools == {"s_target": 2, "s_mix": 1, "e2e": 1}
            assert all(
                slot.focus.value == plan.target_stage.value for slot in step.slots if slot.pool.value == "s_target"
            )
    trained = [g.group for f in facts if isinstance(f.event, TrainingStepCompleted) for g in f.event.groups]
    asked = [fact.event.group for fact in facts if isinstance(fact.event, GroupRequested)]
    assert sorted(trained) == sorted(asked)


def test_advantages_are_rewards_less_their_groups_mean(home: Home) -> None:
    rewards = {f.event.rollout: f.event.reward for f in home.facts("reward") if isinstance(f.event, RewardScored)}
    steps = [f.event for f in home.facts("training") if isinstance(f.event, TrainingStepCompleted)]
    for group in (group for step in steps for group in step.groups):
        mean = sum(rewards[row.rollout] for row in group.rollouts) / len(group.rollouts)
        for row in group.rollouts:
            assert row.reward == rewards[row.rollout]
            assert row.advantage == pytest.approx(rewards[row.rollout] - mean, abs=1e-12)


def test_rollouts_ran_isolated_and_carry_what_they_cost(home: Home) -> None:
    for fact in home.facts("rollout"):
        assert isinstance(fact.event, RolloutCompleted)
        assert fact.event.sandbox == "bubblewrap"
        assert len(fact.event.response_mask) == fact.event.response_tokens
        assert len(fact.event.response_ids) == len(fact.event.logprobs) == 4 * fact.event.response_tokens
        cost = fact.envelope.cost
        assert cost is not None
        assert cost.wall_s and cost.sandbox_s and cost.tokens_out  # noqa: PT018


def test_the_audit_answers_while_the_loop_runs_and_after_it(home: Home) -> None:
    assert home.live == [{"n": 32}]  # type: ignore[attr-defined]
    assert home.ask("SELECT count(*) AS n FROM events WHERE type = 'RewardScored'") == [{"n": 32}]
    assert home.ask("SELECT count(*) AS n FROM events WHERE topic LIKE 'heldout%'") == [{"n": 0}]
    rounds = json.loads(home.run("audit", "rounds", "--format", "json"))
    assert len(rounds["rows"]) == 3
    assert "promotions" in home.run("audit", "--list")
    assert "error" in _error(home, "audit", "--sql", "DELETE FROM events")
    assert home.run("audit", "groups_without_reward", "--format", "csv").strip().count("\n") == 0


def test_two_rollout_workers_share_the_work(home: Home) -> None:
    workers: dict[int, int] = home.workers  # type: ignore[attr-defined]
    assert len(workers) == 2
    assert sum(workers.values()) == 32
    assert min(workers.values()) > 0


def test_every_decision_is_reproduced(home: Home) -> None:
    out = home.run("replay")
    assert "decisions reproduced" in out
    assert "decisions reproduced" in home.run("replay", "tiny", "--round", "2")


def test_status_list_and_tail_tell_of_it(home: Home) -> None:
    status = json.loads(home.run("campaign", "status", "--json"))
    assert [row["round"] for row in status["rounds"]] == [0, 1, 2]
    assert all(row["Overall"] is not None for row in status["rounds"])
    assert "finished" in home.run("campaign", "list")
    tail = home.run("log", "tail", "-n", "5", "--topic", "round", "--body").strip().splitlines()
    assert "CampaignFinished" in "".join(tail)


def test_a_second_campaign_can_follow_be_paused_and_cancelled(home: Home) -> None:
    home.run("campaign", "start", str(SCRIPTED), "--id", "second")
    assert "is open" in _error(home, "campaign", "start", str(SCRIPTED), "--id", "third")
    assert "paused" in home.run("campaign", "pause", "second")
    assert "paused" in home.run("campaign", "list")
    home.run("campaign", "resume", "second")
    home.run("campaign", "cancel", "second")
    with home.serving("planner"):
        facts = home.wait(lambda found: len(_ends(found)) == 2, "round", timeout_s=60)
    assert [event.outcome for event in _ends(facts)] == ["completed", "cancelled"]
    assert home.run("campaign", "list").count("cancelled") == 1


def _ends(facts: Any) -> list[CampaignFinished]:
    return [fact.event for fact in facts if isinstance(fact.event, CampaignFinished)]


def _error(home: Home, *words: str) -> str:
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "bat_events.cli.main", *words], env=home.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    return done.stderr
