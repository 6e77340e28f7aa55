"""The trainer's effects, with the scripted backend: what is done again after a crash comes out as it was.

The context is a real one without a broker: settings, store and status, on a folder of the test's own.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bat_events.codec import Fact
from bat_events.consumers.learner import KEEP_RECOVERIES, Learner
from bat_events.consumers.trainer import Trainer
from bat_events.consumers.trainer_state import TrainerState
from bat_events.deciders.interface import Draft
from bat_events.domain.vocabulary import Focus
from bat_events.errors import ConfigurationError
from bat_events.events.bank import LeakageCheck
from bat_events.events.corpus import CorpusBuilt, CorpusScanned
from bat_events.events.plan import ColdStartPlan, GrpoPlan
from bat_events.events.training import (
    CheckpointProduced,
    ColdStartCompleted,
    TrainingFailed,
    TrainingRewound,
    TrainingStepCompleted,
)
from bat_events.policy.scripted import read_weights, write_weights
from bat_events.service.context import Context
from bat_events.service.runtime import Status
from bat_events.settings import load_settings
from tests.support.campaigns import CAMPAIGN, PLAN, name, outcomes, planned, produced, started, told

STEPS = 5


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(
        settings=load_settings(home=tmp_path / "home"), bootstrap="no broker", status=Status(service="trainer")
    )


def facts(context: Context, *, every: int = 1) -> list[Fact]:
    """A round of five steps with every reward there, from scripted weights in the store."""
    folder = context.settings.home / "first"
    write_weights(folder, {focus.value: 0.3 for focus in Focus})
    start = context.store.put_folder(folder)
    shutil.rmtree(folder)
    return [
        started(grpo=GrpoPlan(checkpoint_every=every)),
        planned(1, start, steps=STEPS),
        *(
            fact
            for step in range(STEPS)
            for slot in range(2)
            for fact in outcomes(1, step, slot, [step / 8, 0.5, (4 + slot) / 8])
        ),
    ]


def told_state(inputs: list[Fact]) -> TrainerState:
    state = TrainerState(CAMPAIGN)
    base = produced(0, "base")
    state.learn(base.event, base.id)
    for fact in inputs:
        state.apply(fact)
    return state


def train(learner: Learner, state: TrainerState, step: int) -> str:
    """One step, published: the digest of its weights."""
    assert state.due() == step
    assert learner.prepare(CAMPAIGN, state, step) is None
    event, _ = learner.step(CAMPAIGN, state, step)
    state.learn(event, "")
    return event.weights


def undisturbed(context: Context, inputs: list[Fact]) -> list[str]:
    learner, state = Learner(context), told_state(inputs)
    return [train(learner, state, step) for step in range(STEPS)]


def work(context: Context) -> Path:
    return context.settings.home / "work" / context.settings.namespace / CAMPAIGN


def test_steps_change_the_weights_and_are_stored_whole(context: Context) -> None:
    weights = undisturbed(context, facts(context))
    assert len(set(weights)) == STEPS
    qualities = [read_weights(context.store.get_folder(digest))[Focus.S3] for digest in weights]
    assert qualities == sorted(qualities)


@pytest.mark.parametrize("every", [1, 2, 9])
def test_a_learner_that_is_new_at_every_step_makes_the_same_weights(context: Context, every: int) -> None:
    inputs = facts(context, every=every)
    expected = undisturbed(context, inputs)
    shutil.rmtree(work(context), ignore_errors=True)

    state = told_state(inputs)
    assert [train(Learner(context), state, step) for step in range(STEPS)] == expected


def test_after_the_recovery_folders_are_lost_the_round_is_done_again_from_its_start(context: Context) -> None:
    inputs = facts(context)
    expected = undisturbed(context, inputs)
    shutil.rmtree(work(context))

    state = told_state(inputs)
    before = [train(Learner(context), state, step) for step in range(3)]
    shutil.rmtree(work(context))
    learner = Learner(context)
    assert [*before, *(train(learner, state, step) for step in (3, 4))] == expected


def test_a_step_that_was_trained_but_not_published_is_trained_from_the_recovery_before_it(context: Context) -> None:
    inputs = facts(context)
    expected = undisturbed(context, inputs)
    shutil.rmtree(work(context))

    state = told_state(inputs)
    dying = Learner(context)
    train(dying, state, 0)
    assert dying.prepare(CAMPAIGN, state, 1) is None
    dying.step(CAMPAIGN, state, 1)  # its recovery folder is there, its event is not on the log
    assert train(Learner(context), state, 1) == expected[1]


def test_a_recovery_folder_that_was_being_written_is_not_used(context: Context) -> None:
    inputs = facts(context)
    expected = undisturbed(context, inputs)
    shutil.rmtree(work(context))

    state = told_state(inputs)
    train(Learner(context), state, 0)
    recovery = next(work(context).rglob("step-00001"))
    recovery.rename(recovery.with_name("step-00001.tmp"))
    (recovery.with_name("step-00001.tmp") / "scripted.json").write_text("half a fi")
    assert train(Learner(context), state, 1) == expected[1]


def test_steps_that_cannot_be_reached_again_are_rewound_by_event_and_trained_anew(context: Context) -> None:
    inputs = facts(context)
    expected = undisturbed(context, inputs)
    shutil.rmtree(work(context))

    state = told_state(inputs)
    for step in range(2):
        train(Learner(context), state, step)
    other = state.steps[(1, 1)].model_copy(update={"weights": name("another processor's rounding")})
    state.learn(other, "")
    shutil.rmtree(work(context))
    learner = Learner(context)
    rewound = learner.prepare(CAMPAIGN, state, 2)
    assert rewound is not None
    assert (rewound.round, rewound.step, rewound.attempt) == (1, 0, 1)
    assert "step 1" in rewound.reason
    state.learn(rewound, "")
    assert [train(learner, state, step) for step in range(STEPS)] == expected
    assert {event.attempt for event in state.steps.values()} == {1}


def test_only_the_newest_recovery_folders_are_kept(context: Context) -> None:
    undisturbed(context, facts(context))
    kept = sorted(path.name for path in work(context).glob("round-001/*"))
    assert kept == [f"step-{step:05d}" for step in range(STEPS + 1 - KEEP_RECOVERIES, STEPS + 1)]


def test_no_scratch_folder_is_left(context: Context) -> None:
    undisturbed(context, facts(context))
    assert list((context.settings.home / "work" / "scratch").iterdir()) == []


def test_the_steps_event_carries_what_was_trained(context: Context) -> None:
    inputs = [*facts(context)[:2], *outcomes(1, 0, 0, [0.25, "failed", 0.75]), *outcomes(1, 0, 1, [0.5] * 3)]
    learner, state = Learner(context), told_state(inputs)
    train(learner, state, 0)
    event = state.steps[(1, 0)]
    assert [[(row.reward, row.advantage) for row in group.rollouts] for group in event.groups] == [
        [(0.25, -0.25), (0.75, 0.25)],
        [(0.5, 0.0)] * 3,
    ]
    assert event.zero_variance == 0.5
    assert event.reward == pytest.approx(0.5)
    assert [(part.focus, part.valid, part.turns) for part in event.actions] == [
        (Focus.E2E, 12, 12),
        (Focus.S3, 8, 8),
    ]


def run(trainer: Trainer) -> list[Draft]:
    """What the trainer makes until it has nothing to do."""
    made: list[Draft] = []
    while (call := trainer.next_work(lambda _: False)) is not None:
        drafts = call()
        trainer.emitted(drafts)
        made += drafts
    return made


def corpus_built(trainer: Trainer) -> CorpusBuilt:
    (built,) = [draft.event for draft in run(trainer)]
    assert isinstance(built, CorpusBuilt)
    return built


def scanned(built: CorpusBuilt, *, cleared: bool = True) -> Fact:
    checks = (LeakageCheck(name="ngram_run", passed=cleared, evidence="row 1: a place"),)
    fields = {"corpus": built.corpus, "body": built.body, "rows": built.rows, "rejected": 0 if cleared else 1}
    return told(CorpusScanned, **fields, cleared=cleared, checks=checks)


def test_the_cold_start_is_made_once_and_is_the_first_candidate(context: Context) -> None:
    trainer = Trainer(context)
    trainer.apply(started(cold_start=ColdStartPlan(demonstrations=2)))
    trainer.apply(scanned(corpus_built(trainer)))
    done, candidate = [draft.event for draft in run(trainer)]
    assert isinstance(done, ColdStartCompleted)
    assert isinstance(candidate, CheckpointProduced)
    assert (candidate.round, candidate.parent, candidate.healthy) == (0, None, True)
    assert candidate.checkpoint == done.checkpoint
    assert done.demonstrations == 2
    assert set(read_weights(context.store.get_folder(done.checkpoint))) == set(Focus)


def test_nothing_is_trained_before_the_corpus_was_scanned(context: Context) -> None:
    trainer = Trainer(context)
    trainer.apply(started(cold_start=ColdStartPlan(demonstrations=2)))
    built = corpus_built(trainer)
    assert built.rows == 2
    assert trainer.next_work(lambda _: False) is None
    assert "leakage gate" in context.status.doing


def test_a_rejected_corpus_is_refused_with_what_was_found(context: Context) -> None:
    trainer = Trainer(context)
    trainer.apply(started(cold_start=ColdStartPlan(demonstrations=2)))
    trainer.apply(scanned(corpus_built(trainer), cleared=False))
    (failed,) = [draft.event for draft in run(trainer)]
    assert isinstance(failed, TrainingFailed)
    assert "rejected 1 of 2 rows" in failed.reason
    assert "ngram_run: row 1: a place" in failed.reason


def test_a_corpus_other_than_the_scanned_one_is_refused(context: Context) -> None:
    trainer = Trainer(context)
    trainer.apply(started(cold_start=ColdStartPlan(demonstrations=2)))
    built = corpus_built(trainer)
    trainer.apply(scanned(built.model_copy(update={"corpus": name("another")})))
    (failed,) = [draft.event for draft in run(trainer)]
    assert isinstance(failed, TrainingFailed)
    assert "another corpus" in failed.reason


def test_a_round_is_trained_step_by_step_and_ends_with_its_candidate(context: Context) -> None:
    trainer = Trainer(context)
    trainer.existing(produced(0, "base"))
    inputs = facts(context)
    for fact in inputs:
        trainer.apply(fact)
    drafts = run(trainer)
    events = [draft.event for draft in drafts]
    assert [type(event) for event in events] == [TrainingStepCompleted] * STEPS + [CheckpointProduced]
    last, candidate = events[-2:]
    assert isinstance(last, TrainingStepCompleted)
    assert isinstance(candidate, CheckpointProduced)
    assert (candidate.checkpoint, candidate.steps, candidate.healthy) == (last.weights, STEPS, True)
    assert len({draft.id for draft in drafts}) == len(drafts)
    assert {draft.cause for draft in drafts} == {inputs[1].id}


def test_events_after_a_rewind_have_ids_of_their_own(context: Context) -> None:
    inputs = facts(context)
    first = Trainer(context)
    first.existing(produced(0, "base"))
    for fact in inputs:
        first.apply(fact)
    before = run(first)[:2]
    shutil.rmtree(work(context))

    second = Trainer(context)
    second.existing(produced(0, "base"))
    for fact in inputs:
        second.apply(fact)
    elsewhere = before[1].event.model_copy(update={"weights": name("another processor's rounding")})
    second.emitted([before[0], replace(before[1], event=elsewhere)])
    again = run(second)
    assert isinstance(again[0].event, TrainingRewound)
    assert not {draft.id for draft in before} & {draft.id for draft in again}


def test_an_unknown_trainer_is_named_with_the_known_ones(context: Context) -> None:
    trainer = Trainer(context)
    trainer.apply(started(PLAN, trainer="magic", cold_start=ColdStartPlan(demonstrations=1)))
    trainer.apply(scanned(corpus_built(trainer)))
    call = trainer.next_work(lambda _: False)
    assert call is not None
    with pytest.raises(ConfigurationError, match=r"'magic'.*trl or scripted"):
        call()
