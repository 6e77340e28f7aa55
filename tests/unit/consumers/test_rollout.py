"""The rollout worker issues receipts: chained, signed, the same when the work is done again, and the judge goes by them."""

import stat
from pathlib import Path
from typing import Any

from fake_runtime import FakeEngines, FakeLogContext, FakePool

from bat_events.benchmark.body import state_body, workspace_json
from bat_events.benchmark.interface import Task, TaskKey
from bat_events.benchmark.registry import benchmark
from bat_events.codec import Fact
from bat_events.consumers.judge import Judge
from bat_events.consumers.rollout import Rollout
from bat_events.deciders.interface import Draft
from bat_events.deciders.versions import newest_logic
from bat_events.domain.canonical import digest
from bat_events.domain.receipts import chain_faults, chain_start
from bat_events.domain.vocabulary import Focus, Outcome, Pool, Split, Track
from bat_events.events.campaign import CampaignStarted
from bat_events.events.rollouts import IsolationBreached, RewardScored, RewardWithheld, RolloutCompleted, RolloutFailed
from bat_events.events.rounds import GroupRequested
from bat_events.signing import RECEIPT_KEY, SigningKey, verify
from tests.support.campaigns import PLAN, told
from tests.support.samples import fact as fact_of

SIZE = 2


class Scene:
    """A worker in a home of its own, and one practice state."""

    def __init__(self, folder: Path, pool: FakePool, focus: Focus = Focus.E2E) -> None:
        self.context = FakeLogContext.on(folder, told(CampaignStarted, plan=PLAN, logic=newest_logic()))
        self.worker = Rollout(self.context, FakeEngines(pool))  # type: ignore[arg-type]
        known = benchmark("mini")
        self.task: Task = known.build(
            TaskKey(track=Track.ENHANCEMENT, focus=focus, outcome=Outcome.SUCCESS, seed=1, split=Split.PRACTICE)
        )
        body = self.context.store.put_json(state_body(self.task, benchmark=known.name, version=known.version))
        self.asked = told(GroupRequested, focus=focus, pool=Pool.E2E, track=Track.ENHANCEMENT, body=body, size=SIZE)

    def rollouts(self) -> list[Draft]:
        return list(self.worker.handle(self.asked))

    def judged(self, rollout: RolloutCompleted) -> RewardScored | RewardWithheld:
        told_: Fact = fact_of(rollout, campaign=self.asked.envelope.campaign)
        (draft,) = Judge(self.context).handle(told_)
        event = draft.event
        assert isinstance(event, RewardScored | RewardWithheld)
        return event


def completed(drafts: list[Draft]) -> list[RolloutCompleted]:
    return [draft.event for draft in drafts if isinstance(draft.event, RolloutCompleted)]


def test_receipts_are_a_signed_chain_from_the_state_to_the_evidence(tmp_path: Path) -> None:
    scene = Scene(tmp_path, FakePool("exited"))
    first, second = completed(scene.rollouts())
    for rollout in (first, second):
        assert rollout.receipts is not None
        assert rollout.signer is not None
        assert rollout.seal is not None
        assert len(rollout.receipts) == 5
        signer = rollout.signer
        start = chain_start(
            group=rollout.group,
            rollout=rollout.rollout,
            body=rollout.body,
            workspace=digest(workspace_json(scene.task)),
        )
        faults = chain_faults(
            rollout.receipts,
            start=start,
            seal=rollout.seal,
            evidence=rollout.evidence,
            end=rollout.end,
            verify=lambda made, signature, signer=signer: verify(signer, made, signature),  # type: ignore[misc]
        )
        assert list(faults) == []
    assert first.receipts is not None
    assert second.receipts is not None
    assert {r.digest for r in first.receipts}.isdisjoint(r.digest for r in second.receipts)


def test_work_done_again_has_the_same_bodies_signatures_included_and_its_durations_in_the_envelope(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, FakePool("exited"))
    first, again = scene.rollouts(), scene.rollouts()
    assert [(draft.id, draft.event) for draft in first] == [(draft.id, draft.event) for draft in again]
    for draft in first:
        assert draft.cost is not None
        assert draft.cost.call_s is not None
        assert len(draft.cost.call_s) == 5


def test_the_private_key_is_a_secret_of_the_home_and_in_nothing_that_is_published(tmp_path: Path) -> None:
    scene = Scene(tmp_path, FakePool("exited"))
    rollout = completed(scene.rollouts())[0]
    path = scene.context.settings.home / "secrets" / RECEIPT_KEY
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secret = bytes.fromhex(path.read_text())
    assert SigningKey(secret).public == rollout.signer
    assert secret.hex() not in repr(SigningKey(secret))
    published = rollout.model_dump_json(exclude={"prompt_ids", "response_ids", "response_mask", "logprobs"})
    evidence = scene.context.store.get(rollout.evidence)
    assert secret.hex() not in published + evidence.decode()


def test_the_judge_pays_what_the_receipts_prove(tmp_path: Path) -> None:
    scene = Scene(tmp_path, FakePool("exited"))
    rollout = completed(scene.rollouts())[0]
    event = scene.judged(rollout)
    assert isinstance(event, RewardScored)
    assert (event.rubric_version, event.reward > 0.9) == (2, True)
    assert rollout.receipts is not None
    for item in event.items:
        assert item.score == 0 or (item.proof is not None and rollout.receipts[item.proof].exit_code == 0)


def test_the_judge_withholds_what_the_receipts_do_not_prove(tmp_path: Path) -> None:
    scene = Scene(tmp_path, FakePool("exited"), Focus.S1)
    rollout = completed(scene.rollouts())[0]
    assert rollout.receipts is not None
    last = rollout.receipts[-1]
    changes: list[dict[str, Any]] = [
        {"receipts": rollout.receipts[:-1]},
        {"receipts": (*rollout.receipts[:-1], last.model_copy(update={"exit_code": 1}))},
        {"end": "turn_limit" if rollout.end == "final" else "final"},
        {"signer": "0" * 64},
        {"rollout": "0" * 32},
        {"receipts": None, "signer": None, "seal": None},
    ]
    for change in changes:
        event = scene.judged(rollout.model_copy(update=change))
        assert isinstance(event, RewardWithheld), change
        assert event.reason == "ReceiptsDoNotFit"


def test_the_first_breach_is_blocked_and_the_second_ends_the_rollout_with_nothing_and_both_are_events(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, FakePool("breach", good_calls=2))
    drafts = scene.rollouts()
    breaches = [draft.event for draft in drafts if isinstance(draft.event, IsolationBreached)]
    assert [(b.index, b.receipt, b.breach, b.ended) for b in breaches] == [
        (0, 2, 1, False),
        (0, 3, 2, True),
        (1, 2, 1, False),
        (1, 3, 2, True),
    ]
    assert len({draft.id for draft in drafts}) == len(drafts) == 6
    for rollout in completed(drafts):
        assert rollout.end == "breach"
        event = scene.judged(rollout)
        assert isinstance(event, RewardScored)
        assert (event.reward, event.cap, event.raw) == (0.0, 0.0, 0.0)


def test_a_broken_sandbox_has_no_receipts_and_no_reward(tmp_path: Path) -> None:
    drafts = Scene(tmp_path, FakePool(None)).rollouts()
    assert [type(draft.event) for draft in drafts] == [RolloutFailed, RolloutFailed]
