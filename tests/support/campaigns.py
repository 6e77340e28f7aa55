"""Facts of one small campaign, each stated in a line: what a test gives to a decider or to the trainer.

Only the fields that the test is about are named; the others are `sample`'s. Every fact goes through the codec.
"""

import hashlib
import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from bat_events.codec import Fact
from bat_events.deciders.interface import Decider, Draft
from bat_events.deciders.report import make_report
from bat_events.domain.bank import SourceCell, cell_order
from bat_events.domain.evaluation import Cell
from bat_events.domain.grouping import group_id, rollout_id
from bat_events.domain.vocabulary import Focus, Outcome, Pool, Stage, Track
from bat_events.events.bank import StateAdmitted, StateRetired
from bat_events.events.base import Event
from bat_events.events.boundary import EvaluationReported
from bat_events.events.campaign import CampaignCancelled, CampaignPaused, CampaignResumed, CampaignStarted
from bat_events.events.plan import CampaignPlan, EvaluationPlan, PoolSizes
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted, TargetStagePrescribed
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted, RolloutFailed
from bat_events.events.rounds import EvaluationRequested, PlannedSlot, PlannedStep, RoundPlanned
from bat_events.events.training import CheckpointProduced, TrainingFailed, TrainingStepCompleted
from tests.support.samples import fact, sample

CAMPAIGN = "c1"
PLAN = CampaignPlan(
    tracks=(Track.SEGMENTATION,),
    rounds=2,
    steps_per_round=3,
    group_size=3,
    group_attempts=2,
    seed=5,
    engine="scripted",
    trainer="scripted",
    pools=PoolSizes(s_target=2, s_mix=1, e2e=1),
    evaluation=EvaluationPlan(repeats=4),
)
_NUMBERS = itertools.count(1)
E = TypeVar("E", bound=Event)


def name(word: str) -> str:
    """A digest for a word: of a checkpoint, a body, a state."""
    return hashlib.sha256(word.encode()).hexdigest()


def told(cls: type[Event], **fields: object) -> Fact:
    """A fact with an id of its own."""
    number = next(_NUMBERS)
    event = sample(cls).model_copy(update=fields)
    told: Fact = fact(event, offset=number, ordinal=number, campaign=CAMPAIGN)
    return told


def required(decider: Decider, kind: type[E]) -> list[E]:
    """The events of one type that a decider requires now."""
    return [draft.event for draft in decider.required() if isinstance(draft.event, kind)]


def fold(decider: Decider, *facts: Fact | Iterable[Fact]) -> Decider:
    """The decider after these facts."""
    for part in facts:
        for one in [part] if isinstance(part, Fact) else part:
            decider.apply(one)
    return decider


def started(plan: CampaignPlan = PLAN, **changes: object) -> Fact:
    """The campaign begins, with changes to its plan."""
    return told(CampaignStarted, plan=plan.model_copy(update=changes))


def paused() -> Fact:
    """An operator pauses."""
    return told(CampaignPaused)


def resumed() -> Fact:
    """An operator resumes."""
    return told(CampaignResumed)


def cancelled() -> Fact:
    """An operator cancels."""
    return told(CampaignCancelled)


def produced(number: int, checkpoint: str, *, healthy: bool = True) -> Fact:
    """A round's candidate."""
    health = () if healthy else ("collapsed",)
    return told(CheckpointProduced, round=number, checkpoint=name(checkpoint), healthy=healthy, health=health)


def training_failed(number: int) -> Fact:
    """The trainer gives up in a round."""
    return told(TrainingFailed, round=number)


def promoted(number: int, checkpoint: str, best: str | None = None) -> Fact:
    """The gate takes a candidate."""
    return told(CheckpointPromoted, round=number, checkpoint=name(checkpoint), best_so_far=name(best or checkpoint))


def held(number: int, checkpoint: str, *, fallback: str, best: str | None = None) -> Fact:
    """The gate holds a candidate."""
    return told(
        CheckpointHeld,
        round=number,
        checkpoint=name(checkpoint),
        fallback=name(fallback),
        best_so_far=name(best or fallback),
    )


def prescribed(number: int, start: str, stage: Stage = Stage.S3) -> Fact:
    """The teacher's word for a round."""
    return told(TargetStagePrescribed, round=number, start_checkpoint=name(start), target_stage=stage)


def admitted(cell: SourceCell, rank: int) -> Fact:
    """A state enters the bank."""
    word = f"{cell.name}/{rank}"
    return told(
        StateAdmitted,
        state=name(word)[:32],
        focus=cell.focus,
        track=cell.track,
        outcome=cell.outcome,
        ordinal=rank,
        rank=rank,
        body=name(f"body {word}"),
    )


def bank(plan: CampaignPlan = PLAN, *, each: int) -> list[Fact]:
    """A bank with the same number of states in every cell."""
    return [admitted(cell, rank) for rank in range(each) for cell in cell_order(plan.tracks)]


def retired(plan: RoundPlanned) -> list[Fact]:
    """The bank retires what a round drew."""
    slots = [slot for step in plan.steps for slot in step.slots]
    return [told(StateRetired, state=slot.state, focus=slot.focus, round=plan.round) for slot in slots]


def stepped(number: int, step: int, weights: str, *, healthy: bool = True, attempt: int = 0) -> Fact:
    """A step was trained."""
    return told(
        TrainingStepCompleted,
        round=number,
        step=step,
        attempt=attempt,
        weights=name(weights),
        healthy=healthy,
        health=() if healthy else ("entropy fell",),
    )


def cells(quality: float, plan: CampaignPlan = PLAN, *, stages: Mapping[Stage, float] | None = None) -> list[Cell]:
    """A checkpoint's cells; the quality is each one's task and stage scores, so that differences have no noise."""
    scores = dict.fromkeys(Stage, quality) | dict(stages or {})
    return [
        Cell(track=track, task=f"{track}-e2e", repeat=n, task_score=quality, stages=scores, reached=frozenset(Stage))
        for track in plan.tracks
        for n in range(plan.evaluation.repeats)
    ]


def reported(
    number: int,
    checkpoint: str,
    quality: float | Sequence[Cell],
    against: Mapping[str, float] | None = None,
    plan: CampaignPlan = PLAN,
) -> Fact:
    """A report by the real arithmetic; `against` gives the comparators' qualities."""
    request = sample(EvaluationRequested).model_copy(
        update={
            "round": number,
            "checkpoint": name(checkpoint),
            "tracks": plan.tracks,
            "repeats": plan.evaluation.repeats,
        }
    )
    own = cells(quality, plan) if isinstance(quality, float) else quality
    others = {name(word): cells(value, plan) for word, value in (against or {}).items()}
    report: EvaluationReported = make_report(request, own, others)
    return told(EvaluationReported, **dict(report))


def planned(number: int, start: str, *, steps: int = 3, slots: int = 2) -> Fact:
    """A round's plan; `start` is a checkpoint's name, or a digest of the store."""
    pools = (Pool.S_TARGET, Pool.E2E)
    focuses = (Focus.S3, Focus.E2E)
    return told(
        RoundPlanned,
        round=number,
        target_stage=Stage.S3,
        start_checkpoint=start if len(start) == 64 else name(start),
        steps=tuple(
            PlannedStep(
                step=step,
                slots=tuple(
                    PlannedSlot(
                        slot=slot,
                        pool=pools[slot % 2],
                        focus=focuses[slot % 2],
                        track=Track.SEGMENTATION,
                        outcome=Outcome.SUCCESS,
                        state=name(f"state {number} {step} {slot}")[:32],
                        body=name(f"body {number} {step} {slot}"),
                    )
                    for slot in range(slots)
                ),
            )
            for step in range(steps)
        ),
    )


def outcomes(
    number: int, step: int, slot: int, rewards: Sequence[float | str], *, attempt: int = 0, pool: Pool = Pool.S_TARGET
) -> Iterator[Fact]:
    """What became of a group: a reward, "withheld", "failed", or "unjudged" (the judge has not spoken yet)."""
    group = group_id(CAMPAIGN, number, step, slot, attempt)
    for index, reward in enumerate(rewards):
        place: dict[str, object] = {
            "group": group,
            "rollout": rollout_id(group, index),
            "index": index,
            "round": number,
            "step": step,
            "slot": slot,
        }
        if reward == "failed":
            yield told(RolloutFailed, **place)
            continue
        yield told(
            RolloutCompleted,
            **place,
            turns=4,
            valid_actions=4,
            prompt_tokens=1,
            response_tokens=2,
            prompt_ids=struct.pack("<i", 1),
            response_ids=struct.pack("<2i", 2, 3),
            response_mask=b"\1\0",
            logprobs=struct.pack("<2f", -0.5, 0.0),
        )
        if reward == "withheld":
            yield told(RewardWithheld, **place)
        elif reward != "unjudged":
            yield told(RewardScored, **place, pool=pool, reward=reward)


def ids(drafts: Iterable[Draft]) -> list[str]:
    """The ids of drafts."""
    return [draft.id for draft in drafts]
