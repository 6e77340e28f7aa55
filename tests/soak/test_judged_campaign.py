"""A tiny campaign on the real loop whose judge asks a model over HTTP, which fails now and then: missing is not zero."""

import hashlib
import json
from pathlib import Path

import pytest

from bat_events.events.rollouts import RewardScored, RewardShadowed, RewardWithheld, RolloutCompleted
from bat_events.events.rounds import CampaignFinished
from bat_events.events.training import TrainingStepCompleted
from bat_events.log.local_kafka import LocalKafka
from tests.e2e.commands import Home, finished
from tests.support.chat_server import Call, chat_server, gives

pytestmark = [pytest.mark.kafka, pytest.mark.sandbox]

CAMPAIGN = """
benchmark: mini
tracks: [segmentation]
rounds: 1
steps_per_round: 1
group_size: 4
seed: 1
engine: scripted
trainer: scripted
pools: {s_target: 1, s_mix: 2, e2e: 2}
cold_start: {demonstrations: 12}
evaluation: {repeats: 4, temperature: 0.7}
health: {max_zero_variance: 1.0}
"""


def now_and_then(call: Call) -> None:
    """Two of five questions are never answered, always the same ones."""
    asked = hashlib.sha256(call.body["messages"][-1]["content"].encode()).digest()
    if asked[0] < 2 * 256 // 5:
        call.send(500, b'{"error": {"message": "no"}}')
    else:
        gives(0.5)(call)


def test_rewards_that_a_judge_could_not_give_are_missing_and_the_campaign_goes_on(
    kafka: LocalKafka, tmp_path: Path
) -> None:
    home = Home(tmp_path, kafka=kafka, namespace="e2e-judged")
    file = tmp_path / "judged.yaml"
    file.write_text(CAMPAIGN)
    with chat_server(now_and_then) as first, chat_server(gives(0.75)) as second:
        home.env |= {
            "BAT_JUDGE__ENDPOINT": first.endpoint,
            "BAT_JUDGE__MODEL": "first",
            "BAT_JUDGE__RETRIES": "1",
            "BAT_JUDGE__RETRY_WAIT_S": "0",
            "BAT_JUDGE__SHADOW__ENDPOINT": second.endpoint,
            "BAT_JUDGE__SHADOW__MODEL": "second",
            "BAT_JUDGE__SHADOW__SHARE": "1",
        }
        home.run("campaign", "start", str(file), "--id", "judged")
        with home.serving():
            home.wait(finished, "round")
            home.wait(lambda facts: _shadowed(facts) >= 1, "reward")
    facts = home.facts()
    scored = {f.event.rollout: f.event for f in facts if isinstance(f.event, RewardScored)}
    withheld = {f.event.rollout: f.event for f in facts if isinstance(f.event, RewardWithheld)}
    rolled = {f.event.rollout for f in facts if isinstance(f.event, RolloutCompleted)}
    assert withheld
    assert {event.reason for event in withheld.values()} == {"judge_unavailable"}
    assert scored.keys() | withheld.keys() == rolled
    assert {(event.judge, event.model) for event in scored.values()} == {("evidence+text-1", "first")}
    texts = [text for event in scored.values() for text in event.texts]
    assert texts
    items = {(event.rollout, item.item): item.score for event in scored.values() for item in event.items}
    for rollout, event in scored.items():
        assert all(items[(rollout, text.item)] == min(text.asked, text.cap) for text in event.texts)
    (step,) = [f.event for f in facts if isinstance(f.event, TrainingStepCompleted)]
    for group in step.groups:
        mean = sum(scored[row.rollout].reward for row in group.rollouts) / len(group.rollouts)
        assert len(group.rollouts) >= 2
        assert [row.advantage for row in group.rollouts] == pytest.approx(
            [scored[row.rollout].reward - mean for row in group.rollouts]
        )
    assert any(len(group.rollouts) < 4 for group in step.groups)
    assert [f.event.outcome for f in facts if isinstance(f.event, CampaignFinished)] == ["completed"]
    shadows = [f.event for f in facts if isinstance(f.event, RewardShadowed)]
    assert {event.model for event in shadows} == {"second"}
    assert json.loads(home.run("replay", "judged", "--heldout", "--json"))["exit_code"] == 0
    asked = {f"{text.judgement}" for text in texts}
    store = home.path / "artifacts"
    assert all((store / digest[:2] / digest).is_file() for digest in asked)


def _shadowed(facts: object) -> int:
    return sum(isinstance(fact.event, RewardShadowed) for fact in facts)  # type: ignore[attr-defined]
