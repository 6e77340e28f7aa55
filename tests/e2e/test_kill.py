"""kill -9 in mid-round: the campaign ends with the same event ids and the same bodies as an undisturbed run.

Real weights on the CPU engine, the same seeds and the same secrets; only the processes die.
"""

import os
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from bat_events.codec import Fact
from bat_events.events.rounds import GroupRequested
from bat_events.events.training import TrainingStepCompleted
from bat_events.log.local_kafka import LocalKafka
from tests.e2e.commands import SEAL_TOPICS, Home, closed, finished, identities

pytestmark = [pytest.mark.kafka, pytest.mark.sandbox, pytest.mark.torch]

PLAN: dict[str, Any] = {
    "benchmark": "mini",
    "tracks": ["segmentation", "enhancement"],
    "rounds": 1,
    "steps_per_round": 3,
    "group_size": 2,
    "seed": 3,
    "pools": {"s_target": 2, "s_mix": 1, "e2e": 1},
    "evaluation": {"repeats": 2, "temperature": 0.7},
    "model": {"layers": 2, "width": 64, "heads": 4, "vocabulary": 512},
    "cold_start": {"demonstrations": 120, "steps": 20, "batch_size": 8, "min_valid_actions": 0.0},
    "limits": {"max_turn_tokens": 24, "max_response_tokens": 256},
    "health": {"min_valid_actions": 0.0, "min_entropy": 0.0, "max_zero_variance": 1.0},
}


def _run(home: Home, plan: Path, disturb: Any = None) -> list[Fact]:
    home.run("campaign", "start", str(plan), "--id", "same")
    with home.serving():
        if disturb is not None:
            disturb(home)
        home.wait(finished, "round", timeout_s=400)
        home.wait(closed, *SEAL_TOPICS, timeout_s=60)
        time.sleep(2.0)  # the auditor and the bank go on for a moment
    return home.facts()


def _kill(home: Home, service: str) -> None:
    os.kill(home.pid_of(service), signal.SIGKILL)


def _disturb(home: Home) -> None:
    """Each of the four dies in mid-round, the rollout worker with a group in flight."""
    home.wait(lambda facts: any(isinstance(f.event, GroupRequested) for f in facts), "group", timeout_s=300)
    _kill(home, "rollout")
    _kill(home, "auditor")
    home.wait(lambda facts: any(isinstance(f.event, TrainingStepCompleted) for f in facts), "training", timeout_s=300)
    _kill(home, "trainer")
    _kill(home, "planner")
    home.wait(lambda facts: sum(isinstance(f.event, TrainingStepCompleted) for f in facts) >= 2, "training")
    _kill(home, "trainer")
    _kill(home, "rollout")


@pytest.mark.timeout(1200)
def test_killed_services_end_where_an_undisturbed_run_ends(kafka: LocalKafka, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(yaml.safe_dump(PLAN))
    calm = Home(tmp_path / "calm", kafka=kafka, namespace="kill-calm")
    calm.path.mkdir()
    expected = identities(_run(calm, plan))

    stormy = Home(tmp_path / "stormy", kafka=kafka, namespace="kill-stormy")
    stormy.path.mkdir()
    shutil.copytree(calm.path / "secrets", stormy.path / "secrets")  # held-out instances derive from them
    facts = _run(stormy, plan, _disturb)
    found = identities(facts)

    differing = {
        i: (expected.get(i), found.get(i)) for i in expected.keys() | found.keys() if expected.get(i) != found.get(i)
    }
    assert not differing, f"{len(differing)} of {len(expected)} events differ, such as {next(iter(differing.items()))}"
    assert len(facts) == len(found), "an event was committed twice"

    trained = Counter(g.group for f in facts if isinstance(f.event, TrainingStepCompleted) for g in f.event.groups)
    asked = {f.event.group for f in facts if isinstance(f.event, GroupRequested)}
    assert set(trained) == asked
    assert set(trained.values()) == {1}
    open_events = sum(1 for fact in facts if not fact.topic.startswith("heldout."))
    assert stormy.ask("SELECT count(*) AS n FROM events") == [{"n": open_events}]
    assert "decisions reproduced, and every score recomputed" in stormy.run("replay", "--heldout")
