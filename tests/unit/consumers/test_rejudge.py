"""Scoring recorded rollouts again: the same rubric changes nothing, another one shows what it changes, and nothing is made up."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_runtime import FakeLogContext
from typer.testing import CliRunner

from bat_events.benchmark.body import evidence_body, state_body, workspace_json
from bat_events.benchmark.interface import TaskKey
from bat_events.benchmark.play import Rollout, rollout
from bat_events.benchmark.registry import benchmark
from bat_events.benchmark.rejudge import Rejudged, rejudge, rubric_of
from bat_events.cli.main import app
from bat_events.codec import Fact
from bat_events.consumers.judge import Judge
from bat_events.domain import rubric
from bat_events.domain.canonical import digest
from bat_events.domain.receipts import chain_start
from bat_events.domain.vocabulary import Focus, Outcome, Split, Track
from bat_events.errors import ConfigurationError
from bat_events.events.campaign import CampaignStarted, LogicVersion
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted, TextScore
from bat_events.replay.archive_evidence import artifact_path
from bat_events.sandbox.receipts import sign_receipts
from bat_events.signing import SigningKey
from tests.archive.logs import export
from tests.replay.loop import CAMPAIGN, Loop
from tests.replay.memory import falsify, pick
from tests.support.campaigns import started, told

MINI = benchmark("mini")


class Recorded:
    """Rollouts of one stage, their evidence in a store, and what the judge said of them under a pinned rubric.

    One call failed and did the work, another exited 0 and wrote nothing: only rubric 1 takes that for work.
    """

    def __init__(self, folder: Path, pinned: int = rubric.NEWEST) -> None:
        begun = started()
        assert isinstance(begun.event, CampaignStarted)
        logic = (*begun.event.logic, LogicVersion(name=rubric.NAME, version=pinned))
        begun = replace(begun, event=begun.event.model_copy(update={"logic": logic}))
        self.context = FakeLogContext.on(folder, begun)
        key = TaskKey(track=Track.SEGMENTATION, focus=Focus.S1, outcome=Outcome.SUCCESS, seed=1, split=Split.PRACTICE)
        task = MINI.build(key)
        made = Rollout(task)
        made.note("work", rollout(task, MINI.expert(key)).files, exit_code=1)
        made.note("pass", made.files)
        seen = made.evidence()
        self.body = self.context.store.put_json(state_body(task, benchmark=MINI.name, version=MINI.version))
        self.evidence = self.context.store.put(evidence_body(seen, ["work", "pass"]))
        self.facts: list[Fact] = []
        self._calls, self._workspace = made.receipts, digest(workspace_json(task))
        for index in range(4):
            fact = told(RolloutCompleted, focus=Focus.S1, index=index, **self.named("a" * 32, f"{index:032x}"))
            (draft,) = Judge(self.context).handle(fact)
            self.facts += [fact, replace(fact, event=draft.event, topic="reward")]

    def named(self, group: str, name: str) -> dict[str, Any]:
        """What a rollout that did this says of itself."""
        start = chain_start(group=group, rollout=name, body=self.body, workspace=self._workspace)
        signed = sign_receipts(self._calls, start=start, evidence=self.evidence, end="final", key=SigningKey(b"k" * 32))
        names = {"group": group, "rollout": name, "body": self.body, "evidence": self.evidence, "end": "final"}
        return {**names, **vars(signed)}

    def again(self, version: int | None = None, **changes: Any) -> Rejudged:
        return rejudge(
            self.facts, MINI, self.context.store.get_json, rubric_of(version), recorded_version=MINI.version, **changes
        )


@pytest.mark.parametrize("version", rubric.VERSIONS)
def test_the_rubric_that_judged_changes_nothing(tmp_path: Path, version: int) -> None:
    found = Recorded(tmp_path, version).again(version)
    assert (found.rollouts, found.changes, found.not_rejudged, found.exit_code) == (4, [], {}, 0)
    assert (found.recorded_rubrics, found.advantage_shift) == ((version,), 0.0)


def test_another_rubric_shows_what_it_changes_and_the_record_stays(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    before = [fact.event for fact in recorded.facts]
    found = recorded.again(1)
    assert (found.rubric, found.recorded_rubrics, len(found.changes)) == (1, (2,), 4)
    change = found.changes[0]
    assert (change.reward, change.why) == (0.0, "cap 0 -> 1")
    assert change.would is not None
    assert change.would > 0.0
    assert found.pools[change.pool].would_mean == change.would
    assert [fact.event for fact in recorded.facts] == before
    back = Recorded(tmp_path / "first", 1).again()
    assert (back.rubric, [(c.reward, c.would) for c in back.changes]) == (2, [(change.would, 0.0)] * 4)


def test_what_a_model_said_of_a_text_still_lowers_its_item(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, 1)
    reward = recorded.facts[1].event
    assert isinstance(reward, RewardScored)
    item = next(item for item in reward.items if item.score > 0.0)
    said = TextScore(item=item.item, asked=0.0, cap=item.score, judgement="ab" * 32)
    recorded.facts[1] = replace(recorded.facts[1], event=reward.model_copy(update={"texts": (said,)}))
    (change,) = recorded.again(1).changes
    assert (change.index, change.why) == (0, f"{item.stage}:{item.item} {item.score:g} -> 0")


def test_what_its_receipts_do_not_prove_stays_without_a_reward(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    forged = recorded.facts[0].event.model_copy(update={"seal": "0" * 128})
    recorded.facts[0] = replace(recorded.facts[0], event=forged)
    (draft,) = Judge(recorded.context).handle(recorded.facts[0])
    recorded.facts[1] = replace(recorded.facts[1], event=draft.event)
    assert isinstance(draft.event, RewardWithheld)
    found = recorded.again(2)
    assert (found.rollouts, found.changes) == (4, [])


def test_lost_evidence_is_listed_and_counts_as_nothing(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    lost: RolloutCompleted = recorded.facts[0].event  # type: ignore[assignment]
    recorded.facts[0] = replace(recorded.facts[0], event=lost.model_copy(update={"evidence": "ab" * 32}))
    found = recorded.again()
    assert (found.rollouts, found.changes, found.exit_code) == (3, [], 3)
    assert sum(found.not_rejudged.values()) == 1


def test_a_rubric_that_is_not_here_is_named() -> None:
    with pytest.raises(ConfigurationError, match="no rubric version 9 here; here are 1, 2"):
        rubric_of(9)


def test_the_command_reads_an_archive_with_its_evidence(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    records = Loop(seed=7).run()
    number, fact = pick(records, lambda f: isinstance(f.event, RolloutCompleted) and f.event.focus is Focus.S1)
    event = fact.event
    assert isinstance(event, RolloutCompleted)
    records[number] = falsify(records[number], body=recorded.named(event.group, event.rollout))
    export(records, tmp_path / "log", CAMPAIGN)
    for name in (recorded.body, recorded.evidence):
        path = artifact_path(tmp_path / "log", "training", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(recorded.context.store.get(name))
    ask = ["--home", str(tmp_path), "rejudge", CAMPAIGN, "--archive", str(tmp_path / "log")]
    run = CliRunner().invoke(app, [*ask, "--rubric", "1", "--json"])
    data = json.loads(run.stdout)
    assert (run.exit_code, data["rubric"], data["rollouts"]) == (3, 1, 1)  # of the others the evidence is not there
    assert [change["rollout"] for change in data["changes"]] == [event.rollout]
    assert data["recorded_rubrics"] == [2]
    assert "rollouts were not scored again" in CliRunner().invoke(app, ask).stdout
