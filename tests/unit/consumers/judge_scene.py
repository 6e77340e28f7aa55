"""A real practice state, played by the benchmark's own expert, and a judge whose model is a server that a test scripts."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fake_runtime import FakeLogContext

from bat_events.benchmark.body import evidence_body, state_body
from bat_events.benchmark.interface import Evidence, TaskKey
from bat_events.benchmark.play import Rollout
from bat_events.benchmark.registry import benchmark
from bat_events.codec import Fact
from bat_events.consumers.judge import Judge
from bat_events.consumers.text_judge import TextJudge
from bat_events.deciders.interface import Draft
from bat_events.domain.canonical import digest
from bat_events.domain.receipts import chain_start
from bat_events.domain.vocabulary import Focus, Outcome, Split, Stage, Track
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted
from bat_events.sandbox.receipts import sign_receipts
from bat_events.settings import JudgeSettings
from bat_events.signing import SigningKey
from tests.support.campaigns import started, told
from tests.support.chat_server import ChatServer
from tests.support.samples import sample

KEY = "sk-held-by-nobody-else"
FAST: Mapping[str, Any] = {"model": "tiny", "timeout_s": 5.0, "retries": 2, "retry_wait_s": 0.0}


@cache
def played(focus: Focus, outcome: Outcome, extra: Sequence[str] = ()) -> tuple[Rollout, tuple[str, ...], TaskKey]:
    """The expert's rollout of a state, after calls of one's own."""
    known = benchmark("mini")
    key = TaskKey(track=Track.SEGMENTATION, focus=focus, outcome=outcome, seed=1, split=Split.PRACTICE)
    made = Rollout(known.build(key))
    codes = (*known.expert(key), *extra)
    for code in codes:
        made.call(code)
    return made, codes, key


WROTE = "open('note', 'w')"


def _with_files(made: Rollout, files: Mapping[str, bytes]) -> Rollout:
    """The same rollout with one more call, which left these files."""
    more = Rollout(made.task)
    more.files, more.receipts = dict(made.files), list(made.receipts)
    more.note(WROTE, {**more.files, **files})
    return more


class JudgeScene:
    """A judge over one rollout's evidence in a real store. Without a server the evidence judges alone."""

    def __init__(
        self,
        folder: Path,
        server: ChatServer | None = None,
        *,
        focus: Focus = Focus.S1,
        outcome: Outcome = Outcome.SUCCESS,
        extra: Sequence[str] = (),
        files: Mapping[str, bytes] | None = None,
        **settings: object,
    ) -> None:
        self.context = FakeLogContext.on(folder, started())
        made, codes, key = played(focus, outcome, tuple(extra))
        known = benchmark("mini")
        if files:
            made, codes = _with_files(made, files), (*codes, WROTE)
        seen: Evidence = made.evidence()
        state = state_body(known.build(key), benchmark=known.name, version=known.version)
        body = self.context.store.put_json(state)
        evidence = self.context.store.put(evidence_body(seen, codes))
        place = sample(RolloutCompleted)
        workspace = digest({"inputs": state["inputs"], "files": state["files"]})
        start = chain_start(group=place.group, rollout=place.rollout, body=body, workspace=workspace)
        signed = sign_receipts(seen.receipts, start=start, evidence=evidence, end=seen.end, key=SigningKey(b"k" * 32))
        fields = {"focus": focus, "body": body, "evidence": evidence, "end": seen.end, **vars(signed)}
        self.asked: Fact = told(RolloutCompleted, **fields)
        self.text: TextJudge | None = None
        if server is not None:
            judge = JudgeSettings.model_validate({**FAST, "endpoint": server.endpoint, **settings})
            self.text = TextJudge(judge, self.context.stop, self.context.store)
        self.judge = Judge(self.context, self.text)

    def draft(self) -> Draft:
        (draft,) = self.judge.handle(self.asked)
        return draft

    def event(self) -> RewardScored | RewardWithheld:
        event = self.draft().event
        assert isinstance(event, RewardScored | RewardWithheld)
        return event

    def scored(self) -> RewardScored:
        event = self.event()
        assert isinstance(event, RewardScored), event
        return event

    def withheld(self) -> RewardWithheld:
        event = self.event()
        assert isinstance(event, RewardWithheld), event
        return event

    def close(self) -> None:
        if self.text is not None:
            self.text.close()


def item(event: RewardScored, name: str) -> float:
    """An item's score."""
    (found,) = [one.score for one in event.items if one.item == name]
    return found


def stage(event: RewardScored, wanted: Stage) -> float:
    """A stage's score."""
    (found,) = [one.score for one in event.stages if one.stage is wanted]
    return found
