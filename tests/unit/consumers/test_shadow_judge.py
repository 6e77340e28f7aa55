"""The second judge: on its sample only, below the evidence as the first, and heard by nobody who decides or trains."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from judge_scene import FAST, JudgeScene

from bat_events.codec import Fact
from bat_events.consumers.shadow_judge import ShadowJudge
from bat_events.consumers.text_judge import TextJudge
from bat_events.consumers.trainer_state import TrainerState
from bat_events.deciders.groups import GroupOutcomes
from bat_events.deciders.interface import Draft
from bat_events.deciders.planner import Planner
from bat_events.domain.grouping import rollout_id
from bat_events.domain.judging import in_sample
from bat_events.domain.vocabulary import Focus, Outcome
from bat_events.events.rollouts import RewardShadowed
from bat_events.settings import JudgeSettings, ShadowSettings
from tests.support.campaigns import CAMPAIGN, bank, fold, outcomes, planned, prescribed, produced, started, told
from tests.support.chat_server import ChatServer, chat_server, fails, gives


class ShadowScene:
    """A shadow judge beside a rollout's evidence."""

    def __init__(self, folder: Path, server: ChatServer, *, share: float = 1.0, **state: Any) -> None:
        self.scene = JudgeScene(folder, **state)
        shadow = ShadowSettings.model_validate({**FAST, "model": "second", "endpoint": server.endpoint, "share": share})
        context = self.scene.context
        context.settings = context.settings.model_copy(update={"judge": JudgeSettings(shadow=shadow)})
        self.text = TextJudge(shadow, context.stop, context.store, part="judge.shadow")
        self.shadow = ShadowJudge(context, self.text)

    def drafts(self) -> Sequence[Draft]:
        return self.shadow.handle(self.scene.asked) if self.shadow.wants(self.scene.asked) else []


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(gives(0.4)) as made:
        yield made


def test_it_says_what_it_would_have_given_and_what_that_was_bounded_by(server: ChatServer, tmp_path: Path) -> None:
    made = ShadowScene(tmp_path, server)
    (draft,) = made.drafts()
    event = draft.event
    assert isinstance(event, RewardShadowed)
    assert (event.judge, event.model, event.reason) == ("evidence+text-1", "second", "")
    assert event.reward == pytest.approx(0.8)
    assert event.evidence_reward == 1.0
    assert [(text.item, text.asked, text.cap) for text in event.texts] == [("plan_choice", 0.4, 1.0)]
    assert (draft.cost.tokens_in, draft.cost.tokens_out) == (100, 50)
    assert draft.id != made.scene.draft().id
    made.text.close()


def test_without_a_text_there_is_nothing_to_say(server: ChatServer, tmp_path: Path) -> None:
    made = ShadowScene(tmp_path, server, focus=Focus.S3)
    assert made.drafts() == []
    assert server.raw == []
    made.text.close()


def test_what_it_cannot_do_is_missing_and_not_zero(tmp_path: Path) -> None:
    with chat_server(fails(500)) as server:
        made = ShadowScene(tmp_path, server, outcome=Outcome.FAILURE)
        (draft,) = made.drafts()
        event = draft.event
        assert isinstance(event, RewardShadowed)
        assert (event.reward, event.reason, event.texts) == (None, "judge_unavailable", ())
        made.text.close()


def test_a_sample_is_chosen_by_hash_and_holds_its_share(server: ChatServer, tmp_path: Path) -> None:
    rollouts = [rollout_id(f"{number:032x}", 0) for number in range(2000)]
    chosen = [rollout for rollout in rollouts if in_sample(rollout, 0.1)]
    assert 150 < len(chosen) < 250
    assert set(chosen) <= {rollout for rollout in rollouts if in_sample(rollout, 0.2)}
    assert not [rollout for rollout in rollouts if in_sample(rollout, 0.0)]
    assert all(in_sample(rollout, 1.0) for rollout in rollouts)
    made = ShadowScene(tmp_path, server, share=0.0)
    assert made.drafts() == []
    made.text.close()


def test_nobody_who_decides_or_trains_hears_it() -> None:
    facts: list[Fact] = [started(), *bank(each=4), produced(0, "base"), prescribed(1, "base"), planned(1, "base")]
    facts += [fact for slot in range(2) for fact in outcomes(1, 0, slot, [0.5, 0.25, "unjudged"])]
    last = next(iter(outcomes(1, 0, 0, ["unjudged"]))).event
    shadowed = told(
        RewardShadowed, group=last.group, rollout=last.rollout, index=2, round=1, step=0, slot=0, reward=1.0, reason=""
    )
    with_it, without = Planner(CAMPAIGN), Planner(CAMPAIGN)
    fold(with_it, facts, shadowed)
    fold(without, facts)
    assert with_it.state() == without.state()
    outcome, trainer = GroupOutcomes(), TrainerState(CAMPAIGN)
    for fact in (*facts, shadowed):
        outcome.apply(fact)
        trainer.apply(fact)
    assert outcome.rewards(last.group, 3) is None  # the judge has not spoken
    assert trainer.due() is None
