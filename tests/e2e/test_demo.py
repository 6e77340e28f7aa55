"""`bat-events demo`: stopped by Ctrl-C it ends cleanly, and --resume goes on from the log, repeating no finished work."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bat_events.events.rounds import RoundPlanned
from bat_events.log.local_kafka import LocalKafka
from tests.e2e.commands import Home

pytestmark = [pytest.mark.kafka, pytest.mark.sandbox]

SCRIPTED = Path(__file__).parents[2] / "bat_events" / "campaigns" / "scripted.yaml"


def _demo(home: Home, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "bat_events.cli.main", "demo", *words],
        env=home.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _processes_of(home: Home) -> list[int]:
    """Processes that have this home in their environment, other than this test."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if f"BAT_NAMESPACE={home.namespace}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_a_demo_is_stopped_and_goes_on(kafka: LocalKafka, tmp_path: Path) -> None:
    home = Home(tmp_path / "home", kafka=kafka, namespace="e2e-demo")
    home.path.mkdir()
    first = _demo(home, "--file", str(SCRIPTED), "--id", "stopped")
    home.wait_for_topics()
    home.wait(lambda facts: any(isinstance(f.event, RoundPlanned) for f in facts), "round", timeout_s=120)
    first.send_signal(signal.SIGINT)
    out, _ = first.communicate(timeout=60)
    assert first.returncode == 130, out
    assert "--resume" in out
    assert _gone(home)
    before = {fact.id: fact.envelope.body_digest for fact in home.facts()}
    assert before

    summary = tmp_path / "summary.json"
    second = _demo(home, "--resume", "--json", str(summary))
    out, _ = second.communicate(timeout=240)
    assert second.returncode == 0, out
    assert "best-so-far" in out
    assert "bat-events replay stopped --heldout" in out
    assert _gone(home)

    facts = home.facts()
    assert Counter(fact.id for fact in facts).most_common(1)[0][1] == 1
    after = {fact.id: fact.envelope.body_digest for fact in facts}
    assert before.items() <= after.items()
    told: dict[str, Any] = json.loads(summary.read_text())
    assert told["state"] == "completed"
    assert [row["round"] for row in told["rounds"]] == [0, 1, 2]
    assert told["events"]["CampaignStarted"] == 1
    assert "decisions reproduced, and every score recomputed" in home.run("replay", "--heldout")


def test_there_is_nothing_to_resume_without_a_campaign(kafka: LocalKafka, tmp_path: Path) -> None:
    home = Home(tmp_path / "home", kafka=kafka, namespace="e2e-empty")
    process = _demo(home, "--resume")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "no campaign is open" in out


def _gone(home: Home) -> bool:
    deadline = time.monotonic() + 15
    while _processes_of(home):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True
