"""Scoring recorded rollouts again: the same rubric changes nothing, another one shows what it changes, and nothing is made up."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_runtime import FakeLogContext, receipt
from typer.testing import CliRunner

from bat_events.benchmark import judging
from bat_events.benchmark.body import evidence_body, state_body
from bat_events.benchmark.interface import Evidence, Grade, TaskKey
from bat_events.benchmark.judging import Rubric
from bat_events.benchmark.registry import benchmark
from bat_events.benchmark.rejudge import Rejudged, rejudge, rubric_of
from bat_events.cli.main import app
from bat_events.codec import Fact
from bat_events.consumers.judge import Judge
from bat_events.domain.vocabulary import Focus, Outcome, Split, Track
from bat_events.errors import ConfigurationError
from bat_events.events.rollouts import RewardScored, RolloutCompleted
from bat_events.replay.archive_evidence import artifact_path
from tests.archive.logs import export
from tests.replay.loop import CAMPAIGN, Loop
from tests.replay.memory import falsify, pick
from tests.support.campaigns import started, told

MINI = benchmark("mini")


def generous(grade: Grade) -> Grade:
    """Every item is worth its whole point, but for the first, which no longer counts."""
    items = tuple(replace(item, score=1.0) for item in grade.items[1:])
    return replace(grade, items=items)


@pytest.fixture
def second_rubric(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rubric 2 is here."""
    monkeypatch.setitem(judging.RUBRICS, 2, Rubric(version=2, title="generous", apply=generous))


class Recorded:
    """Rollouts that plan and write something, their evidence in a store, and what the judge said of them."""

    def __init__(self, folder: Path) -> None:
        self.context = FakeLogContext.on(folder, started())
        key = TaskKey(track=Track.SEGMENTATION, focus=Focus.S1, outcome=Outcome.SUCCESS, seed=1, split=Split.PRACTICE)
        task = MINI.build(key)
        files = {**task.files, "plan/plan.md": b"a plan"}
        seen = Evidence(receipts=(receipt(),), files=files, inputs_intact=True, end="final")
        self.body = self.context.store.put_json(state_body(task, benchmark=MINI.name, version=MINI.version))
        self.evidence = self.context.store.put(evidence_body(seen, ["pass"]))
        self.facts: list[Fact] = []
        for index in range(4):
            fact = told(
                RolloutCompleted,
                focus=Focus.S1,
                body=self.body,
                evidence=self.evidence,
                index=index,
                rollout=f"{index:032x}",
            )
            (draft,) = Judge(self.context).handle(fact)
            self.facts += [fact, replace(fact, event=draft.event, topic="reward")]

    def again(self, version: int | None = None, **changes: Any) -> Rejudged:
        return rejudge(
            self.facts, MINI, self.context.store.get_json, rubric_of(version), recorded_version=MINI.version, **changes
        )


def test_the_rubric_that_judged_changes_nothing(tmp_path: Path) -> None:
    found = Recorded(tmp_path).again(1)
    assert (found.rollouts, found.changes, found.not_rejudged, found.exit_code) == (4, [], {}, 0)
    assert (found.recorded_rubrics, found.advantage_shift) == ((1,), 0.0)


@pytest.mark.usefixtures("second_rubric")
def test_another_rubric_shows_what_it_changes_and_the_record_stays(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    before = [fact.event for fact in recorded.facts]
    found = recorded.again()
    assert (found.rubric, len(found.changes)) == (2, 4)
    change = found.changes[0]
    assert change.reward is not None
    assert change.would == 1.0 > change.reward
    assert "gone" in change.why
    assert found.pools[change.pool].would_mean == 1.0
    assert [fact.event for fact in recorded.facts] == before


def test_lost_evidence_is_listed_and_counts_as_nothing(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    lost: RolloutCompleted = recorded.facts[0].event  # type: ignore[assignment]
    recorded.facts[0] = replace(recorded.facts[0], event=lost.model_copy(update={"evidence": "ab" * 32}))
    found = recorded.again(1)
    assert (found.rollouts, found.changes, found.exit_code) == (3, [], 3)
    assert sum(found.not_rejudged.values()) == 1


def test_a_rubric_that_is_not_here_is_named() -> None:
    with pytest.raises(ConfigurationError, match="no rubric version 9 here; here are 1"):
        rubric_of(9)


@pytest.mark.usefixtures("second_rubric")
def test_the_command_reads_an_archive_with_its_evidence(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    records = Loop(seed=7).run()
    number, fact = pick(records, lambda f: isinstance(f.event, RolloutCompleted) and f.event.focus is Focus.S1)
    records[number] = falsify(records[number], body={"body": recorded.body, "evidence": recorded.evidence})
    export(records, tmp_path / "log", CAMPAIGN)
    for digest in (recorded.body, recorded.evidence):
        path = artifact_path(tmp_path / "log", "training", digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(recorded.context.store.get(digest))
    ask = ["--home", str(tmp_path), "rejudge", CAMPAIGN, "--archive", str(tmp_path / "log")]
    run = CliRunner().invoke(app, [*ask, "--json"])
    data = json.loads(run.stdout)
    assert (run.exit_code, data["rubric"], data["rollouts"]) == (3, 2, 1)  # of the others the evidence is not there
    assert [change["rollout"] for change in data["changes"]] == [fact.event.rollout]  # type: ignore[attr-defined]
    reward = next(f.event for f in recorded.facts if isinstance(f.event, RewardScored))
    assert reward.rubric_version == 1
    assert "rollouts were not scored again" in CliRunner().invoke(app, ask).stdout
