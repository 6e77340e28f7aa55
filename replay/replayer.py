"""`replay_campaign`: everything that a log allows to be recomputed, recomputed and compared.

Replay folds from the campaign's start, always: `round` limits what is compared, not what is folded. It reads a source
and returns a result; it writes nothing, and two replays of one log give equal results.
"""

from collections import Counter
from dataclasses import replace

from bat_events import __version__
from bat_events.errors import DecodeError
from bat_events.events.campaign import CampaignStarted
from bat_events.replay.decisions import UNFINISHED_AT_THE_END, Walk, unknown_logic, walk_all
from bat_events.replay.differences import Difference, Pending
from bat_events.replay.evaluation import check_evaluation
from bat_events.replay.findings import Findings
from bat_events.replay.identity import check_identity
from bat_events.replay.index import Index, load
from bat_events.replay.practice import check_practice
from bat_events.replay.receipts import check_receipts
from bat_events.replay.result import REPORTS, CheckResult, DeciderResult, NotRecomputed, ReplayResult
from bat_events.replay.scores import ScoreOf, Scores, check_scores
from bat_events.replay.source import ReplayError, Source
from bat_events.replay.stream import Judge, stream
from bat_events.replay.stream_walk import Mismatch

_TAKEN = (
    ("RolloutCompleted", "sampled turns, token ids and log-probabilities", "sampling is an effect"),
    ("RolloutFailed", "failed rollouts", "an infrastructure fault is taken as recorded"),
    ("RewardWithheld", "withheld rewards", "why a rollout could not be scored is taken as recorded"),
    ("RewardShadowed", "shadowed rewards", "what a model said is taken as recorded: none is asked again"),
    ("StateSynthesized", "bodies of practice states", "building a state is an effect"),
    ("SynthesisFailed", "failed syntheses", "building a state is an effect"),
    ("LeakageVerdict", "results of leakage checks", "they were made with a key that only the leakage gate has"),
    ("ColdStartCompleted", "cold start", "training is an effect"),
    ("TrainingStepCompleted", "weights, losses and health of training steps", "training is an effect"),
    ("CheckpointProduced", "candidates", "training is an effect"),
    ("TrainingFailed", "failures of training", "training is an effect"),
    ("TrainingRewound", "rewinds of training", "training is an effect"),
    ("HeldoutFingerprintsPublished", "fingerprints", "no held-out text is read"),
)
"""What no replay recomputes, whatever it is given."""


def replay_campaign(
    source: Source,
    *,
    campaign: str | None = None,
    round: int | None = None,
    score_of: ScoreOf | None = None,
    log_only: bool = False,
) -> ReplayResult:
    """Replay one campaign of a source, or one round of it; `campaign` may be None where the log holds exactly one.

    `score_of` scores rollouts again from evidence (see scores), `with_heldout` makes reports again. What then was not recomputed
    is listed, and the result's code is 3, unless `log_only` says that no more than the log was to be asked.

    The log is read once, streaming. Where it is not what its rules and facts give, or holds dead letters, it is read again, in
    memory, to say what differs. Raises ReplayError where the campaign or round is not there, LogError where the log cannot be
    read, and DecodeError naming topic, partition and offset of a record that is no event and that no service has parked.
    """
    try:
        result = _streamed(source, campaign, round, score_of)
    except (Mismatch, DecodeError):  # what is no event is told there, in the order of topics
        result = replay_in_memory(source, campaign=campaign, round=round, score_of=score_of)
    return replace(result, log_only=log_only)


def _streamed(
    source: Source, campaign: str | None, round_: int | None, score_of: ScoreOf | None = None
) -> ReplayResult:
    found = stream(source, campaign, round_, judge_of(source), score_of)
    _require_round(found.campaign, sorted(found.rounds), round_)
    pending = tuple(
        Pending(logic=logic, type=draft.event.ce_type(), id=draft.id, round=draft.round)
        for logic, draft in found.pending
    )
    if found.outcome == "completed" and any(p.logic.partition("/")[0] not in UNFINISHED_AT_THE_END for p in pending):
        raise Mismatch("the campaign has ended without what must exist by its end")
    started = found.started.event
    assert isinstance(started, CampaignStarted)
    return ReplayResult(
        source=source.name,
        campaign=found.campaign,
        round=round_,
        outcome=found.outcome,
        package_recorded=started.package_version,
        package_here=__version__,
        events=found.events,
        duplicates=found.duplicates,
        ends=found.ends,
        deciders=tuple(
            DeciderResult(logic=logic, decisions=count, reproduced=count) for logic, count in found.decisions.items()
        ),
        checks=tuple(CheckResult(name=name, checked=count, holds=count) for name, count in found.checks.items()),
        differences=(),
        pending=tuple(p for p in pending if _in_round(p.round, round_)),
        not_recomputed=(*found.lacking, *_reports(found.counts)),
        taken=tuple(_taken(found.counts)),
        signers=found.signers,
        unknown_logic={},
    )


def judge_of(source: Source) -> Judge:
    """What of a source is compared."""
    judged = source.judged
    if judged is None:
        return lambda _: True
    return lambda line: line.offset < judged[(line.topic, line.partition)]


def replay_in_memory(
    source: Source, *, campaign: str | None = None, round: int | None = None, score_of: ScoreOf | None = None
) -> ReplayResult:
    """As `replay_campaign`, with every event in memory and everything that differs named."""
    index = load(source, campaign)
    rounds = sorted({f.envelope.round for f in index.facts() if f.envelope.round is not None})
    _require_round(index.campaign, rounds, round)
    findings = Findings(round=round)
    check_identity(index, findings)
    check_practice(index, findings)
    signers = check_receipts(index, findings)
    scores = Scores(score_of, index.started)
    check_scores(index, findings, scores)
    check_evaluation(index, findings)
    walks = walk_all(index)
    differences = [d for walk in walks for d in walk.differences if _in_round(d.round, round)] + findings.differences
    started = index.started.event
    assert isinstance(started, CampaignStarted)
    counts = Counter(fact.event.type_name() for fact in index.facts() if findings.wants(fact))
    unknown = {logic: sum(findings.wants(fact) for fact in facts) for logic, facts in unknown_logic(index).items()}
    return ReplayResult(
        source=index.source,
        campaign=index.campaign,
        round=round,
        outcome=index.outcome,
        package_recorded=started.package_version,
        package_here=__version__,
        events=len(index.by_id),
        duplicates=index.duplicates,
        ends=index.ends,
        deciders=tuple(result for walk in walks for result in _deciders(walk, findings)),
        checks=findings.results(),
        differences=tuple(sorted(differences, key=_order)),
        pending=tuple(p for walk in walks for p in walk.pending if _in_round(p.round, round)),
        not_recomputed=(*scores.lacking(), *_reports(counts)),
        taken=(*_taken(counts), *_left_out(index)),
        signers=signers,
        unknown_logic={logic: count for logic, count in unknown.items() if count},
    )


def _require_round(campaign: str, rounds: list[int], number: int | None) -> None:
    if number is not None and number not in rounds:
        raise ReplayError(f"campaign {campaign} has no event of round {number}; rounds there: {rounds}")


def _in_round(found: int | None, wanted: int | None) -> bool:
    return wanted is None or found == wanted


def _deciders(walk: Walk, findings: Findings) -> list[DeciderResult]:
    """A result for the version that was walked, and for those that the campaign went over to."""
    wrong = {difference.id for difference in walk.differences}
    found = []
    for logic in sorted({walk.logic, *(fact.envelope.logic for fact in walk.decisions)}):
        compared = [f for f in walk.decisions if f.envelope.logic == logic and findings.wants(f)]
        right = sum(fact.id not in wrong for fact in compared)
        if compared or logic == walk.logic:
            found.append(DeciderResult(logic=logic, decisions=len(compared), reproduced=right))
    return found


def _order(difference: Difference) -> tuple[str, str, str, str, str]:
    return (difference.time, difference.at or "", difference.id, difference.kind, difference.field)


def _taken(counts: Counter[str]) -> list[NotRecomputed]:
    return [NotRecomputed(what=what, count=counts[name], why=why) for name, what, why in _TAKEN if counts[name]]


def _reports(counts: Counter[str]) -> list[NotRecomputed]:
    count = counts["EvaluationReported"]
    return (
        [NotRecomputed(what=REPORTS, count=count, why="no held-out cells were handed to replay (--heldout)")]
        if count
        else []
    )


def _left_out(index: Index) -> list[NotRecomputed]:
    found = (
        ("records that are no events", index.strays, "services parked them: see `bat-events dlq list`"),
        ("events that do not count", sum(map(index.ignores, index.facts())), "dead letters say so"),
    )
    return [NotRecomputed(what=what, count=count, why=why) for what, count, why in found if count]
