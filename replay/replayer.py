"""`replay_campaign`: everything that a log allows to be recomputed, recomputed and compared.

Replay folds from the campaign's start, always: `round` limits what is compared, not what is folded. It reads a source
and returns a result; it writes nothing, and two replays of one log give equal results.
"""

from collections import Counter

from bat_events import __version__
from bat_events.events.campaign import CampaignStarted
from bat_events.replay.decisions import Walk, unknown_logic, walk_all
from bat_events.replay.differences import Difference
from bat_events.replay.evaluation import check_evaluation
from bat_events.replay.findings import Findings
from bat_events.replay.identity import check_identity
from bat_events.replay.index import Index, load
from bat_events.replay.practice import check_practice
from bat_events.replay.receipts import check_receipts
from bat_events.replay.result import DeciderResult, NotRecomputed, ReplayResult
from bat_events.replay.source import ReplayError, Source

_TAKEN = (
    ("RolloutCompleted", "sampled turns, token ids and log-probabilities", "sampling is an effect"),
    ("RolloutFailed", "failed rollouts", "an infrastructure fault is taken as recorded"),
    (
        "RewardScored",
        "rubric items",
        "they come from evidence artefacts, which replay does not read; their proofs and the caps are checked by receipts",
    ),
    ("RewardWithheld", "withheld rewards", "why a rollout could not be scored is taken as recorded"),
    ("StateSynthesized", "bodies of practice states", "building a state needs the benchmark"),
    ("SynthesisFailed", "failed syntheses", "building a state needs the benchmark"),
    ("LeakageVerdict", "results of leakage checks", "they come from artefacts and keyed fingerprints"),
    ("ColdStartCompleted", "cold start", "training is an effect"),
    ("TrainingStepCompleted", "weights, losses and health of training steps", "training is an effect"),
    ("CheckpointProduced", "candidates", "training is an effect"),
    ("TrainingFailed", "failures of training", "training is an effect"),
    ("TrainingRewound", "rewinds of training", "training is an effect"),
    ("EvaluationReported", "track and stage means, failures, paired intervals", "held-out cells are not read"),
    ("HeldoutFingerprintsPublished", "fingerprints", "held-out texts are not read"),
)


def replay_campaign(source: Source, *, campaign: str | None = None, round: int | None = None) -> ReplayResult:
    """Replay one campaign of a source, or one round of it; `campaign` may be None where the log holds exactly one.

    Raises ReplayError where the campaign or round is not there, LogError where the log cannot be read, and DecodeError
    naming topic, partition and offset of a record that is no event and that no service has parked.
    """
    index = load(source, campaign)
    _require_round(index, round)
    findings = Findings(round=round)
    check_identity(index, findings)
    check_practice(index, findings)
    signers = check_receipts(index, findings)
    check_evaluation(index, findings)
    walks = walk_all(index)
    differences = [d for walk in walks for d in walk.differences if _in_round(d.round, round)] + findings.differences
    started = index.started.event
    assert isinstance(started, CampaignStarted)
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
        deciders=tuple(_decider(walk, findings) for walk in walks),
        checks=findings.results(),
        differences=tuple(sorted(differences, key=_order)),
        pending=tuple(p for walk in walks for p in walk.pending if _in_round(p.round, round)),
        not_recomputed=_not_recomputed(index, findings),
        signers=signers,
        unknown_logic={logic: count for logic, count in unknown.items() if count},
    )


def _require_round(index: Index, number: int | None) -> None:
    if number is None:
        return
    rounds = sorted({f.envelope.round for f in index.facts() if f.envelope.round is not None})
    if number not in rounds:
        raise ReplayError(f"campaign {index.campaign} has no event of round {number}; rounds there: {rounds}")


def _in_round(found: int | None, wanted: int | None) -> bool:
    return wanted is None or found == wanted


def _decider(walk: Walk, findings: Findings) -> DeciderResult:
    compared = [fact for fact in walk.decisions if findings.wants(fact)]
    wrong = {difference.id for difference in walk.differences}
    return DeciderResult(
        logic=walk.logic,
        decisions=len(compared),
        reproduced=sum(fact.id not in wrong for fact in compared),
    )


def _order(difference: Difference) -> tuple[str, str, str, str, str]:
    return (difference.time, difference.at or "", difference.id, difference.kind, difference.field)


def _not_recomputed(index: Index, findings: Findings) -> tuple[NotRecomputed, ...]:
    counts = Counter(fact.event.type_name() for fact in index.facts() if findings.wants(fact))
    found = [NotRecomputed(what=what, count=counts[name], why=why) for name, what, why in _TAKEN if counts[name]]
    for what, count, why in (
        ("records that are no events", index.strays, "services parked them: see `bat-events dlq list`"),
        ("events that do not count", sum(map(index.ignores, index.facts())), "dead letters say so"),
    ):
        if count:
            found.append(NotRecomputed(what=what, count=count, why=why))
    return tuple(found)
