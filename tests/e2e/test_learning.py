"""`make bench-learning` as a user runs it, on the scripted stand-ins: campaign, measures, report, pictures, and again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bat_events.benchmark.confirmation import CONFIRMATION_KEY, confirmation_keys
from bat_events.events.bank import SynthesisRequested
from bat_events.events.plan import CampaignPlan
from bat_events.log.local_kafka import LocalKafka
from bat_events.service.context import secret
from tests.e2e.commands import Home

pytestmark = [pytest.mark.kafka, pytest.mark.sandbox]

ROOT = Path(__file__).parents[2]
SCRIPTED = ROOT / "bat_events" / "campaigns" / "scripted.yaml"


def bench(home: Home, folder: Path, file: Path, code: int, *more: str) -> str:
    words = ["--seeds", "5", "--file", str(file), "--home", str(folder), "--docs", str(folder / "docs"), *more]
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "learning.py"), *words, "--instances", "3", "--probe", "1"],
        env=home.env,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == code, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def changed(file: Path, **changes: int) -> Path:
    """The scripted campaign with other settings."""
    file.write_text(yaml.safe_dump({**yaml.safe_load(SCRIPTED.read_text()), **changes}))
    return file


def test_a_seed_is_run_measured_reported_and_not_run_again(kafka: LocalKafka, tmp_path: Path) -> None:
    folder = tmp_path / "learning"
    home = Home(folder / "seed-5", kafka=kafka, namespace="learning-5")
    small = changed(tmp_path / "small.yaml", rounds=1, steps_per_round=2)
    first = bench(home, folder, small, 0)
    assert "episodes" in first
    told = json.loads((folder / "report.json").read_text())
    (seed,) = told["seeds"]
    assert seed["plan"]["seed"] == 5
    assert len(seed["measures"]) == 4
    tracks = len(seed["plan"]["tracks"])
    for name, found in seed["measures"].items():
        cells = tracks * (3 if name.startswith("confirmation") else 18)
        assert found["pairs"] + found["missing"] == cells
        assert len(found["before"]["cells"]) + len(found["before"]["lost"]) == cells
    assert [row["round"] for row in seed["rounds"]] == [0, 1]
    assert len(seed["steps"]) == 2
    assert (folder / "report.md").read_text() in first
    for picture in ("learning.png", "learning-effect.png"):
        assert (folder / "docs" / picture).read_bytes().startswith(b"\x89PNG")

    # The confirmation seeds stand nowhere on the log; the same search finds the bank's.
    plan = CampaignPlan.model_validate(seed["plan"])
    made = secret(folder, CONFIRMATION_KEY)
    keys = confirmation_keys(made, benchmark="mini", campaign_seed=5, tracks=plan.tracks, instances=3)
    facts = home.facts()
    log = "\n".join(fact.event.model_dump_json() for fact in facts)
    practised = next(fact.event.seed for fact in facts if isinstance(fact.event, SynthesisRequested))
    assert str(practised) in log
    assert [key for key in keys if str(key.seed) in log or str(key.seed) in (folder / "report.json").read_text()] == []

    before = {fact.id for fact in facts}
    again = bench(home, folder, small, 0)
    assert "episodes" not in again
    assert {fact.id for fact in home.facts()} == before
    assert json.loads((folder / "report.json").read_text()) == told

    other = changed(tmp_path / "other.yaml", rounds=1, steps_per_round=2, group_size=3)
    refused = bench(home, folder, other, 1)
    assert "other settings: group_size" in refused
    assert "--fresh" in refused
