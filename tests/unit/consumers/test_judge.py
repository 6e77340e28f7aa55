"""The judge: what is not proved by receipts earns nothing, and what cannot be scored is withheld, never zero."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_runtime import FakeLogContext, receipt

from bat_events.benchmark.body import evidence_body, state_body, workspace_json
from bat_events.benchmark.interface import EpisodeEnd, Evidence, Grade, ItemScore, TaskKey
from bat_events.benchmark.judging import scored
from bat_events.benchmark.registry import benchmark
from bat_events.consumers.judge import Judge
from bat_events.domain.canonical import digest
from bat_events.domain.receipts import chain_start
from bat_events.domain.vocabulary import Focus, Outcome, Split, Stage, Track
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted
from bat_events.sandbox.interface import Receipt
from bat_events.sandbox.receipts import sign_receipts
from bat_events.signing import SigningKey
from tests.support.campaigns import started, told
from tests.support.samples import sample


def rollout(focus: Focus = Focus.S3) -> RolloutCompleted:
    made: RolloutCompleted = sample(RolloutCompleted).model_copy(update={"focus": focus})
    return made


def evidence(receipts: Sequence[Receipt] = (receipt(),), end: EpisodeEnd = "final") -> Evidence:
    return Evidence(receipts=receipts, files={}, inputs_intact=True, end=end)


def grade(
    *scores: float,
    stage: Stage = Stage.S3,
    task: float | None = None,
    reached: Sequence[Stage] = tuple(Stage),
    applicable: bool = True,
) -> Grade:
    items = [
        ItemScore(item=f"{stage}-{n}", stage=stage, score=score, applicable=applicable)
        for n, score in enumerate(scores)
    ]
    return Grade(items=tuple(items), reached=tuple(reached), task_score=task, failures=("S3:E4",))


WHOLE = Grade(
    items=tuple(ItemScore(item=f"{stage}", stage=stage, score=0.5) for stage in Stage),
    reached=tuple(Stage),
    task_score=0.25,
    failures=(),
)


def reward_of(event: RewardScored | RewardWithheld) -> tuple[float, float, float]:
    assert isinstance(event, RewardScored)
    return event.reward, event.raw, event.cap


def test_a_stage_rollout_is_worth_the_mean_of_its_items() -> None:
    event = scored(rollout(), grade(1.0, 0.5), evidence())
    assert reward_of(event) == (0.75, 0.75, 1.0)
    assert isinstance(event, RewardScored)
    assert event.failures == ("S3:E4",)
    assert [(value.stage, value.score) for value in event.stages] == [(Stage.S3, 0.75)]


def test_an_end_to_end_rollout_is_worth_half_its_stages_and_half_its_task() -> None:
    assert reward_of(scored(rollout(Focus.E2E), WHOLE, evidence())) == (0.375, 0.375, 1.0)


@pytest.mark.parametrize(
    "receipts",
    [
        [],
        [receipt(exit_code=1)],
        [receipt(changed=False)],
        [receipt(end="timeout")],
        [receipt(end="memory"), receipt(1, exit_code=2)],
    ],
)
def test_work_that_no_receipt_proves_earns_nothing_and_keeps_its_raw_score(receipts: list[Receipt]) -> None:
    assert reward_of(scored(rollout(), grade(1.0), evidence(receipts))) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize(("rubric", "cap"), [(1, 1.0), (2, 0.0)])
def test_a_call_that_ran_beside_one_that_changed_the_workspace_was_enough_for_rubric_1(rubric: int, cap: float) -> None:
    receipts = [receipt(exit_code=1), receipt(1, changed=False)]
    event = scored(rollout(), grade(1.0), evidence(receipts), rubric)
    assert reward_of(event) == (cap, 1.0, cap)
    assert isinstance(event, RewardScored)
    assert event.rubric_version == rubric


@pytest.mark.parametrize("focus", [Focus.S3, Focus.E2E])
def test_an_isolation_breach_earns_nothing_whatever_was_made_before_it(focus: Focus) -> None:
    event = scored(rollout(focus), WHOLE, evidence([receipt(), receipt(1, end="breach")], end="breach"))
    reward, raw, cap = reward_of(event)
    assert (reward, cap) == (0.0, 0.0)
    assert raw > 0.0


def test_an_end_to_end_rollout_without_a_task_score_is_withheld() -> None:
    event = scored(rollout(Focus.E2E), Grade(**{**vars(WHOLE), "task_score": None}), evidence())
    assert isinstance(event, RewardWithheld)
    assert event.reason == "incomplete_grade"
    assert (event.group, event.rollout, event.index) == (rollout().group, rollout().rollout, rollout().index)


def test_a_stage_without_an_applicable_item_is_withheld() -> None:
    assert isinstance(scored(rollout(), grade(1.0, applicable=False), evidence()), RewardWithheld)


def test_a_stage_that_was_not_reached_is_worth_nothing() -> None:
    assert reward_of(scored(rollout(), grade(1.0, reached=[Stage.S1]), evidence()))[:2] == (0.0, 0.0)


class Scene:
    """A real practice state and the evidence of a rollout that did nothing, in a store."""

    def __init__(self, folder: Path) -> None:
        self.context = FakeLogContext.on(folder, started())
        known = benchmark("mini")
        key = TaskKey(track=Track.SEGMENTATION, focus=Focus.S3, outcome=Outcome.SUCCESS, seed=1, split=Split.PRACTICE)
        task = known.build(key)
        seen = Evidence(receipts=(), files=dict(task.files), inputs_intact=True, end="final")
        self.body = self.context.store.put_json(state_body(task, benchmark=known.name, version=known.version))
        self.evidence = self.context.store.put(evidence_body(seen, []))
        self.workspace = digest(workspace_json(task))

    def judged(self, **changes: Any) -> RewardScored | RewardWithheld:
        names = {"body": self.body, "evidence": self.evidence} | changes
        place = sample(RolloutCompleted)
        start = chain_start(group=place.group, rollout=place.rollout, body=names["body"], workspace=self.workspace)
        signed = sign_receipts([], start=start, evidence=names["evidence"], end="final", key=SigningKey(b"k" * 32))
        fields = {"end": "final", **vars(signed), **names}
        (draft,) = Judge(self.context).handle(told(RolloutCompleted, focus=Focus.S3, **fields))
        event = draft.event
        assert isinstance(event, RewardScored | RewardWithheld)
        return event


def test_a_rollout_that_did_nothing_is_scored_from_its_evidence(tmp_path: Path) -> None:
    event = Scene(tmp_path).judged()
    assert isinstance(event, RewardScored)
    assert (event.reward, event.cap) == (0.0, 0.0)


@pytest.mark.parametrize("part", ["body", "evidence"])
def test_what_is_lost_or_changed_or_another_thing_is_withheld(tmp_path: Path, part: str) -> None:
    scene = Scene(tmp_path)
    digest = getattr(scene, part)
    lost = scene.judged(**{part: "0" * 64})
    other = scene.judged(evidence=scene.body)
    path = tmp_path / "home" / "artifacts" / digest[:2] / digest
    path.write_bytes(path.read_bytes().replace(b"kind", b"mind"))
    changed = scene.judged()
    assert isinstance(lost, RewardWithheld)
    assert (lost.reason, "is not in" in lost.detail) == ("ArtifactError", True)
    assert isinstance(changed, RewardWithheld)
    assert (changed.reason, "changed" in changed.detail) == ("ArtifactError", True)
    assert isinstance(other, RewardWithheld)
    assert other.reason == "ValueError"


def test_evidence_that_its_receipts_do_not_prove_is_withheld(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    body = scene.context.store.get_json(scene.evidence)
    body["files"]["plan/plan.json"] = "e30="  # somebody put a file into the evidence
    for event, word in (
        (scene.judged(evidence=scene.context.store.put_json(body)), "workspace"),
        (scene.judged(receipts=None, signer=None, seal=None), None),
        (scene.judged(seal="0" * 128), "seal"),
        (scene.judged(signer=SigningKey(b"x" * 32).public), "seal"),
    ):
        if word is None:  # a campaign that pins rubric 1 has rollouts from before receipts were signed
            assert isinstance(event, RewardScored)
            continue
        assert isinstance(event, RewardWithheld)
        assert event.reason == "ReceiptsDoNotFit"
        assert event.detail.startswith(word)
