"""A small campaign as records: every event type once at least, with a group that failed, a rejected state and a hold.

The events go through the real codec and the one place where envelopes are made; only the log is a list.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from bat_events.deciders.interface import Draft
from bat_events.domain.vocabulary import FailureCode, Focus, Outcome, Pool, Stage, Track
from bat_events.events.bank import (
    LeakageCheck,
    LeakageVerdict,
    StateAdmitted,
    StateSynthesized,
    SynthesisFailed,
    SynthesisRequested,
)
from bat_events.events.base import Event
from bat_events.events.boundary import (
    ComparatorReport,
    Effect,
    EvaluationReported,
    FailureCount,
    HeldoutFingerprintsPublished,
    StageEffect,
    StageReport,
    TrackEffect,
    TrackReport,
)
from bat_events.events.campaign import CampaignPaused, CampaignResumed, CampaignStarted, LogicVersion
from bat_events.events.corpus import CorpusBuilt, CorpusScanned
from bat_events.events.envelope import Cost, Cut
from bat_events.events.fingerprints import HeldoutNgramsPublished, SharedTextDeclared
from bat_events.events.ids import ROOT_CAUSE
from bat_events.events.plan import CampaignPlan, GateMode, TargetRule
from bat_events.events.promotion import (
    CheckpointHeld,
    CheckpointPromoted,
    GateCheck,
    StageReading,
    TargetStagePrescribed,
)
from bat_events.events.rollouts import RewardScored, RewardWithheld, RolloutCompleted, RolloutFailed, StageValue
from bat_events.events.rounds import (
    CampaignFinished,
    EvaluationRequested,
    GroupRequested,
    PlannedSlot,
    PlannedStep,
    RoundCompleted,
    RoundPlanned,
)
from bat_events.events.training import (
    CheckpointProduced,
    ColdStartCompleted,
    FocusActions,
    PoolTokens,
    TrainedGroup,
    TrainedRollout,
    TrainingStepCompleted,
)
from bat_events.log.interface import Outgoing, Partition, Record
from bat_events.log.topics import TOPICS
from bat_events.service.emit import outgoing

PARTITIONS = {spec.name: 2 if spec.parallel else 1 for spec in TOPICS}
BEGIN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CUT: Cut = {"campaign": {0: 1}}
Ask = Callable[..., list[dict[str, Any]]]
"""ask(file, name or SELECT, param=value…) -> rows by column."""

SEGMENTATION, ENHANCEMENT = Track.SEGMENTATION, Track.ENHANCEMENT


def digest(number: int) -> str:
    """A digest that a person can tell from another."""
    return f"{number:064x}"


def ident(number: int) -> str:
    """An id that a person can tell from another."""
    return f"{number:032x}"


START, CANDIDATE = digest(0xA0), digest(0xA1)


KNOWN = (
    LeakageCheck(name="exact_match", passed=True, evidence="2 fingerprints looked for"),
    LeakageCheck(name="ngram_run", passed=True, evidence="1 runs of 8 words looked for"),
    LeakageCheck(name="near_duplicate", passed=True, evidence="0 sketches compared"),
)
"""What a gate says that was given the fingerprints of `_published`."""


class Maker:
    """Drafts -> outgoing records, then records with offsets that have gaps as transactions leave them."""

    def __init__(self, campaign: str = "c1") -> None:
        self.campaign = campaign
        self.out: list[Outgoing] = []

    def put(
        self,
        event: Event,
        cause: str,
        *,
        by: str,
        ordinal: int = 0,
        key: str | None = None,
        round: int | None = None,
        cost: Cost | None = None,
        decision: bool = False,
    ) -> str:
        """Append an event; returns its id."""
        draft = Draft(
            event=event,
            campaign=self.campaign,
            cause=cause,
            ordinal=ordinal,
            key=key or self.campaign,
            round=round,
            cost=cost,
        )
        self.out.append(
            outgoing(
                draft,
                source=f"bat/{by}",
                logic=f"{by}/1",
                time=BEGIN + timedelta(seconds=len(self.out)),
                partitions=PARTITIONS,
                cut=CUT if decision else None,
            )
        )
        return draft.id


def records(out: Iterable[Outgoing], start: dict[Partition, int] | None = None) -> list[Record]:
    """As a reader would hand them over; every third offset of a partition is a transaction's marker."""
    ends = dict(start or {})
    found = []
    for number, item in enumerate(out):
        where = (item.topic, item.partition)
        offset = ends.get(where, 0)
        ends[where] = offset + (2 if offset % 3 == 0 else 1)
        found.append(
            Record(
                topic=item.topic,
                partition=item.partition,
                offset=offset,
                key=item.key,
                value=item.value,
                headers=item.headers,
                timestamp_ms=int((BEGIN.timestamp() + number) * 1000),
            )
        )
    return found


def report(round: int, checkpoint: str, overall: float, against: Sequence[str] = ()) -> EvaluationReported:
    """A report whose numbers are rounded."""
    effect = Effect(mean=-0.05, deviation=0.1, n=20, lower80=-0.07, upper80=-0.03)
    return EvaluationReported(
        round=round,
        checkpoint=checkpoint,
        cells=20,
        missing=0,
        overall=overall,
        task=overall,
        agentic=overall,
        tracks=tuple(TrackReport(track=t, overall=overall, task=overall, agentic=overall, cells=10) for t in TRACKS),
        stages=tuple(StageReport(stage=s, mean=0.5, cells=20, reached_mean=0.625, reached_cells=16) for s in Stage),
        comparators=tuple(
            ComparatorReport(
                comparator=other,
                complete=True,
                overall=effect,
                task=effect,
                tracks=tuple(TrackEffect(track=t, effect=effect) for t in TRACKS),
                stages=tuple(StageEffect(stage=s, effect=effect) for s in Stage),
            )
            for other in against
        ),
        failures=(
            FailureCount(stage=Stage.S1, code=FailureCode.E5, cells=3),
            FailureCount(stage=Stage.S3, code=FailureCode.E3, cells=10),
        ),
    )


TRACKS = (SEGMENTATION, ENHANCEMENT)


def _published(log: Maker, began: str) -> None:
    """Two exact fingerprints and one run of words; their sealed bytes are stand-ins."""
    shared = SharedTextDeclared(
        rule_version=1, seed=1, instances=1, texts=(digest(5),), shingles=(digest(6),), shingle_count=1
    )
    log.put(shared, began, by="evaluator")
    ngrams = HeldoutNgramsPublished(
        rule_version=1, windows=(digest(9),), window_count=1, sketches=(digest(10),), sketch_count=0
    )
    log.put(ngrams, began, by="evaluator")
    log.put(HeldoutFingerprintsPublished(rule_version=1, fingerprints=(digest(7), digest(8))), began, by="evaluator")


def _corpus(log: Maker, began: str) -> None:
    """The cold start's corpus, scanned and cleared."""
    built = log.put(CorpusBuilt(corpus=digest(0xC0), body=digest(0xC1), rows=10), began, by="trainer")
    scanned = CorpusScanned(corpus=digest(0xC0), body=digest(0xC1), rows=10, rejected=0, cleared=True, checks=KNOWN)
    log.put(scanned, built, by="leakage-gate")


def _bank(log: Maker, began: str) -> None:
    """States 1 and 2 are admitted, 3 is rejected, 4 cannot be made."""
    for number in (1, 2, 3, 4):
        cell = {
            "state": ident(number),
            "focus": Focus.S3,
            "track": SEGMENTATION,
            "outcome": Outcome.RECOVERY,
            "ordinal": number - 1,
        }
        key = ident(number)
        asked = log.put(
            SynthesisRequested(**cell, seed=number), began, by="bank", ordinal=number, key=key, decision=True
        )
        if number == 4:
            log.put(SynthesisFailed(**cell, reason="no lesion"), asked, by="synthesizer", key=key)
            continue
        made = log.put(
            StateSynthesized(
                **cell,
                seed=number,
                benchmark="mini",
                benchmark_version=1,
                body=digest(number),
                body_bytes=1000,
                prompt_digest=digest(100 + number),
                workspace_digest=digest(200 + number),
                own_prompt=digest(110 + number),
                own_workspace=digest(210 + number),
                condition=digest(120),
                wording="programmatic",
            ),
            asked,
            by="synthesizer",
            key=key,
            cost=Cost(wall_s=0.25, bytes_out=1000),
        )
        checks = (
            LeakageCheck(name="paths", passed=True, evidence=""),
            LeakageCheck(
                name="canaries", passed=number != 3, evidence="canary in data/note.txt" if number == 3 else ""
            ),
            *KNOWN,
        )
        verdict = log.put(
            LeakageVerdict(**cell, body=digest(number), cleared=number != 3, checks=checks),
            made,
            by="leakage-gate",
            key=key,
            cost=Cost(wall_s=0.125),
        )
        if number != 3:
            admitted = StateAdmitted(**cell, rank=number - 1, body=digest(number))
            log.put(admitted, verdict, by="bank", key=key, decision=True)


def _group(log: Maker, planned: str, *, group: int, slot: int, attempt: int, state: int) -> str:
    event = GroupRequested(
        group=ident(group),
        round=1,
        step=0,
        slot=slot,
        attempt=attempt,
        pool=Pool.S_TARGET,
        focus=Focus.S3,
        track=SEGMENTATION,
        state=ident(state),
        body=digest(state),
        weights=START,
        seed=group,
        size=2,
    )
    return log.put(event, planned, by="planner", ordinal=group, key=ident(group), round=1, decision=True)


def _rollout(log: Maker, cause: str, *, group: int, slot: int, index: int, state: int, reward: float | None) -> None:
    """A rollout with its reward; a reward of None is withheld."""
    place = {
        "group": ident(group),
        "rollout": ident(group * 16 + index),
        "index": index,
        "round": 1,
        "step": 0,
        "slot": slot,
    }
    same = {"pool": Pool.S_TARGET, "focus": Focus.S3}
    done = log.put(
        RolloutCompleted(
            **place,
            **same,
            state=ident(state),
            body=digest(state),
            weights=START,
            end="final",
            turns=2,
            valid_actions=2,
            prompt_tokens=3,
            response_tokens=4,
            prompt_ids=struct.pack("<3i", 1, 2, 3),
            response_ids=struct.pack("<4i", 4, 5, 6, 7),
            response_mask=bytes([1, 1, 0, 1]),
            logprobs=struct.pack("<4f", -0.5, -0.5, 0.0, -0.25),
            evidence=digest(300 + group * 16 + index),
            sandbox="bubblewrap",
        ),
        cause,
        by="rollout",
        ordinal=index,
        key=ident(group),
        round=1,
        cost=Cost(wall_s=1.5, sandbox_s=0.5, tokens_in=3, tokens_out=3),
    )
    if reward is None:
        withheld = RewardWithheld(**place, reason="ArtifactError", detail="evidence is not there")
        log.put(withheld, done, by="judge", key=ident(group), round=1)
        return
    scored = RewardScored(
        **place,
        **same,
        reward=reward,
        raw=reward,
        cap=1.0,
        stages=(StageValue(stage=Stage.S3, score=reward),),
        task_score=None,
        items=(),
        failures=(),
        evidence=digest(300 + group * 16 + index),
        judge="evidence",
        rubric_version=1,
    )
    log.put(scored, done, by="judge", key=ident(group), round=1, cost=Cost(wall_s=0.5))


def _practice(log: Maker, planned: str) -> None:
    """Slot 0: a whole group. Slot 1: a group that lost both rollouts, then its replacement."""
    group = _group(log, planned, group=10, slot=0, attempt=0, state=1)
    _rollout(log, group, group=10, slot=0, index=0, state=1, reward=0.25)
    _rollout(log, group, group=10, slot=0, index=1, state=1, reward=0.75)
    broken = _group(log, planned, group=11, slot=1, attempt=0, state=2)
    failed = RolloutFailed(
        group=ident(11),
        rollout=ident(11 * 16),
        index=0,
        round=1,
        step=0,
        slot=1,
        reason="sandbox_lost",
        detail="the sandbox did not start",
    )
    log.put(failed, broken, by="rollout", key=ident(11), round=1)
    _rollout(log, broken, group=11, slot=1, index=1, state=2, reward=None)
    again = _group(log, planned, group=12, slot=1, attempt=1, state=2)
    _rollout(log, again, group=12, slot=1, index=0, state=2, reward=0.5)
    _rollout(log, again, group=12, slot=1, index=1, state=2, reward=0.5)


def _trained(group: int, slot: int, rewards: Sequence[float]) -> TrainedGroup:
    mean = sum(rewards) / len(rewards)
    rows = tuple(
        TrainedRollout(rollout=ident(group * 16 + index), reward=reward, advantage=reward - mean)
        for index, reward in enumerate(rewards)
    )
    return TrainedGroup(group=ident(group), slot=slot, pool=Pool.S_TARGET, rollouts=rows)


def campaign(name: str = "c1") -> Maker:
    """One whole campaign of one round, which is held."""
    log = Maker(name)
    logic = (LogicVersion(name="planner", version=1),)
    plan = CampaignPlan(rounds=1, steps_per_round=1, group_size=2)
    started = CampaignStarted(plan=plan, package_version="0.1.0", logic=logic, benchmark_version=1)
    began = log.put(started, ROOT_CAUSE, by="campaign")
    _published(log, began)
    paused = log.put(CampaignPaused(reason="lunch"), began, by="campaign")
    log.put(CampaignResumed(reason="lunch is over"), paused, by="campaign")
    _bank(log, began)
    _corpus(log, began)
    cold = ColdStartCompleted(
        checkpoint=START,
        corpus=digest(0xC0),
        demonstrations=10,
        steps=5,
        rows_train=9,
        rows_validation=1,
        train_loss=1.0,
        validation_loss=1.5,
        valid_action_rate=0.95,
        trainer="scripted",
    )
    log.put(cold, began, by="trainer", cost=Cost(wall_s=60.0))
    first = _checkpoint(log, began, round=0, checkpoint=START, parent=None, steps=0)
    reported = _evaluated(log, first, round=0, checkpoint=START, overall=0.5, against=())
    promoted = CheckpointPromoted(
        round=0,
        checkpoint=START,
        mode=GateMode.PAIRED,
        baseline=True,
        overall=0.5,
        best_so_far=START,
        best_overall=0.5,
        checks=(),
        reasons=("the first report is the baseline",),
    )
    decided = log.put(promoted, reported, by="gate", round=0, decision=True)
    prescribed = TargetStagePrescribed(
        round=1,
        target_stage=Stage.S3,
        corrective=False,
        rule=TargetRule.REACHED,
        start_checkpoint=START,
        readings=tuple(StageReading(stage=s, value=0.625) for s in Stage),
        reason="S3 is the weakest",
    )
    target = log.put(prescribed, decided, by="teacher", round=1, decision=True)
    planned = log.put(_plan(), target, by="planner", round=1, decision=True)
    _practice(log, planned)
    stepped = TrainingStepCompleted(
        round=1,
        step=0,
        attempt=0,
        weights=CANDIDATE,
        groups=(_trained(10, 0, (0.25, 0.75)), _trained(12, 1, (0.5, 0.5))),
        reward=0.5,
        zero_variance=0.5,
        loss=0.125,
        grad_norm=1.0,
        entropy=0.75,
        kl=0.01,
        clip_ratio=0.0,
        logprob_gap=0.0,
        pools=(PoolTokens(pool=Pool.S_TARGET, tokens=12, reward=0.5),),
        actions=(FocusActions(focus=Focus.S3, valid=3, turns=4),),
        healthy=True,
        health=(),
    )
    step = log.put(stepped, planned, by="trainer", round=1, cost=Cost(wall_s=4.0))
    second = _checkpoint(log, step, round=1, checkpoint=CANDIDATE, parent=START, steps=1)
    reported = _evaluated(log, second, round=1, checkpoint=CANDIDATE, overall=0.45, against=(START,))
    held = CheckpointHeld(
        round=1,
        checkpoint=CANDIDATE,
        fallback=START,
        mode=GateMode.PAIRED,
        overall=0.45,
        best_so_far=START,
        best_overall=0.5,
        checks=(GateCheck(name="gain", passed=False, value=-0.07, threshold=0.0),),
        reasons=("the lower bound is below zero",),
    )
    decided = log.put(held, reported, by="gate", round=1, decision=True)
    completed = RoundCompleted(round=1, outcome="held", candidate=CANDIDATE, next_checkpoint=START)
    done = log.put(completed, decided, by="planner", round=1, decision=True)
    log.put(CampaignFinished(outcome="completed", rounds=1, best_checkpoint=START), done, by="planner", decision=True)
    return log


def _plan() -> RoundPlanned:
    slots = tuple(
        PlannedSlot(
            slot=slot,
            pool=Pool.S_TARGET,
            focus=Focus.S3,
            track=SEGMENTATION,
            outcome=Outcome.RECOVERY,
            state=ident(slot + 1),
            body=digest(slot + 1),
        )
        for slot in (0, 1)
    )
    steps = (PlannedStep(step=0, slots=slots),)
    return RoundPlanned(round=1, target_stage=Stage.S3, start_checkpoint=START, steps=steps)


def _checkpoint(log: Maker, cause: str, *, round: int, checkpoint: str, parent: str | None, steps: int) -> str:
    event = CheckpointProduced(round=round, checkpoint=checkpoint, parent=parent, steps=steps, healthy=True, health=())
    return log.put(event, cause, by="trainer", round=round)


def _evaluated(log: Maker, cause: str, *, round: int, checkpoint: str, overall: float, against: tuple[str, ...]) -> str:
    asked = EvaluationRequested(
        round=round,
        checkpoint=checkpoint,
        comparators=against,
        tracks=TRACKS,
        repeats=10,
        temperature=0.7,
        seed=3,
    )
    request = log.put(asked, cause, by="planner", round=round, decision=True)
    event = report(round, checkpoint, overall, against)
    return log.put(event, request, by="evaluator", round=round, cost=Cost(wall_s=30.0))
