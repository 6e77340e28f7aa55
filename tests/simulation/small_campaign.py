"""The small campaign that is simulated: its plan, and what stands in for effects that take longer than microseconds. Test-only.

Real here: every decider, the trainer with its folded state, the evaluator with its report, both notaries. Scripted: sampling,
sandboxes, judging, synthesis, leakage checks, fingerprints, weights. What is scripted is a function of its cause alone, so it
is made once and kept over all seeds; ids and bodies are those of an undisturbed run, however often it is done.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from bat_events.codec import Codec, Fact
from bat_events.consumers.evaluator import Measured
from bat_events.consumers.learner import train_groups
from bat_events.consumers.trainer_state import TrainerState
from bat_events.deciders.interface import Draft
from bat_events.deciders.versions import newest_logic
from bat_events.domain.canonical import digest
from bat_events.domain.vocabulary import Track
from bat_events.events.bank import StateSynthesized, SynthesisRequested
from bat_events.events.boundary import HeldoutFingerprintsPublished
from bat_events.events.campaign import CampaignStarted
from bat_events.events.corpus import CorpusBuilt, CorpusScanned
from bat_events.events.envelope import Cost
from bat_events.events.heldout import CellStage, EvaluationCellScored
from bat_events.events.ids import ROOT_CAUSE
from bat_events.events.plan import CampaignPlan, EvaluationPlan, PoolSizes
from bat_events.events.rollouts import RolloutCompleted
from bat_events.events.rounds import EvaluationRequested, GroupRequested
from bat_events.events.training import ColdStartCompleted, TrainingRewound, TrainingStepCompleted
from bat_events.log.heads import Head
from bat_events.log.interface import Record
from bat_events.log.topics import TOPICS
from tests.replay import workers

CAMPAIGN = "small-61"
"""Of this one's facts: one candidate is promoted, one held; two groups are replaced, for a failed and a withheld rollout."""
PLAN = CampaignPlan(
    tracks=(Track.SEGMENTATION,),
    rounds=2,
    steps_per_round=1,
    group_size=2,
    group_attempts=3,
    seed=1,
    engine="scripted",
    trainer="scripted",
    pools=PoolSizes(s_target=1, s_mix=0, e2e=1),
    evaluation=EvaluationPlan(repeats=4),
)
PARTITIONS = {spec.name: 3 if spec.parallel else 1 for spec in TOPICS}


def started() -> Draft:
    """The campaign's first event, as its producer writes it."""
    event = CampaignStarted(plan=PLAN, package_version="0", logic=newest_logic(), benchmark_version=1)
    return Draft(event=event, campaign=CAMPAIGN, cause=ROOT_CAUSE, ordinal=0, key=CAMPAIGN)


class RememberingCodec(Codec):
    """The real codec, which decodes each record once in a run, and equal bodies once in all runs."""

    bodies: dict[tuple[str, str, str, str], tuple[Any, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.facts: dict[tuple[str, int, int], Fact] = {}

    def decode(self, record: Record) -> Fact:
        """See Codec.decode."""
        place = (record.topic, record.partition, record.offset)
        fact = self.facts.get(place)
        if fact is None:
            fact = self.facts[place] = super().decode(record)
        return fact

    def event_of(
        self, value: bytes, *, ce_type: str, schema_digest: str, body_digest: str, where: dict[str, Any]
    ) -> tuple[Any, Any]:
        """See Codec.event_of."""
        key = (ce_type, schema_digest, hashlib.sha256(value).hexdigest(), where["topic"])
        if key[2] != body_digest or key not in self.bodies:
            made = super().event_of(
                value, ce_type=ce_type, schema_digest=schema_digest, body_digest=body_digest, where=where
            )
            self.bodies[key] = made
        return self.bodies[key]


State = Callable[[Fact, CampaignPlan], list[Draft]]


def scan_corpus(fact: Fact, _: CampaignPlan) -> list[Draft]:
    """The leakage gate clears the cold-start corpus."""
    built = fact.event
    assert isinstance(built, CorpusBuilt)
    event = CorpusScanned(corpus=built.corpus, body=built.body, rows=built.rows, rejected=0, cleared=True, checks=())
    return [_of(fact, event)]


def publish_fingerprints(fact: Fact, _: CampaignPlan) -> list[Draft]:
    """The held-out plane's word to the gate, cut short to the event that is always there."""
    event = HeldoutFingerprintsPublished(rule_version=1, fingerprints=(digest("a held-out text"),))
    return [_of(fact, event)]


def _of(fact: Fact, event: Any) -> Draft:
    key = fact.envelope.campaign
    return Draft(event=event, campaign=key, cause=fact.id, ordinal=0, key=key)


SCRIPTED: dict[str, tuple[str, str, type[Any], State, tuple[str, ...]]] = {
    "synthesizer": ("synthesizer", "bank.request", SynthesisRequested, workers.synthesize, ("bank.state",)),
    "leakage-gate": ("leakage-gate", "bank.state", StateSynthesized, workers.check_leakage, ("bank.verdict",)),
    "leakage-gate-corpus": ("leakage-gate", "training", CorpusBuilt, scan_corpus, ("bank.verdict",)),
    "evaluator-fingerprints": (
        "evaluator",
        "campaign",
        CampaignStarted,
        publish_fingerprints,
        ("boundary.fingerprint",),
    ),
    "rollout": ("rollout", "group", GroupRequested, workers.roll_out, ("rollout",)),
    "judge": ("judge", "rollout", RolloutCompleted, workers.judge, ("reward",)),
}
"""Group -> principal, topic, what is work, what comes of it, output topics."""


class ScriptedHandler:
    """A Handler that states what a scripted effect gives; see SCRIPTED."""

    version = 1
    _made: dict[tuple[str, str], list[Draft]] = {}

    def __init__(self, group: str) -> None:
        self.group = group
        self.name, self.topic, self._work, self._state, self.outputs = SCRIPTED[group]

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, self._work)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """See Handler."""
        key = (self.group, fact.id)
        if key not in self._made:
            self._made[key] = self._state(fact, PLAN)
        return self._made[key]


def measure(fact: Fact) -> Measured:
    """Held-out cells of a checkpoint, drawn from its digest: what an outside harness would send."""
    request = fact.event
    assert isinstance(request, EvaluationRequested)
    return [(_cell(request, cell), Cost()) for cell in workers._cells(request.checkpoint, request, PLAN)]


def _cell(request: EvaluationRequested, cell: Any) -> EvaluationCellScored:
    return EvaluationCellScored(
        checkpoint=request.checkpoint,
        round=request.round,
        track=cell.track,
        task=cell.task,
        repeat=cell.repeat,
        task_score=cell.task_score,
        stages=tuple(
            CellStage(stage=stage, score=score, reached=stage in cell.reached) for stage, score in cell.stages.items()
        ),
        failures=(),
        turns=1,
        end="final",
        evidence=digest(["cell", request.checkpoint, cell.track, cell.repeat]),
    )


class ScriptedLearner:
    """Stands in for the trainer's Learner: weights are a digest of what they were trained on, and of the weights before."""

    def build_corpus(self, _: CampaignPlan) -> tuple[CorpusBuilt, Cost]:
        """See Learner."""
        return CorpusBuilt(corpus=digest("corpus"), body=digest("corpus body"), rows=1), Cost()

    def cold_start(self, _: CampaignPlan, scanned: CorpusScanned) -> tuple[ColdStartCompleted, Cost]:
        """See Learner."""
        event = ColdStartCompleted(
            checkpoint=digest(["weights", CAMPAIGN, 0, 0]),
            corpus=scanned.corpus,
            demonstrations=1,
            steps=1,
            rows_train=1,
            rows_validation=1,
            train_loss=1.0,
            validation_loss=1.0,
            valid_action_rate=1.0,
            trainer="scripted",
        )
        return event, Cost()

    def prepare(self, campaign: str, state: TrainerState, step: int) -> TrainingRewound | None:  # noqa: ARG002
        """See Learner."""
        return None

    def step(self, campaign: str, state: TrainerState, step: int) -> tuple[TrainingStepCompleted, Cost]:  # noqa: ARG002
        """See Learner. The rows are the real ones: tokens, masks, rewards and advantages."""
        planned = state.current()[1]
        rows = [
            [group.group, [[list(row.response_ids), row.reward, row.advantage] for row in group.rollouts]]
            for group in train_groups(state, step)
        ]
        stated = workers._step(state, planned.round, planned.steps[step])
        return stated.model_copy(update={"weights": digest([state.last_healthy(), step, rows])}), Cost()

    def end_round(self) -> None:
        """See Learner."""


class HeadsInMemory:
    """Stands in for the file of heads, which outlives the notary's process."""

    def __init__(self) -> None:
        self.kept: list[Head] = []

    def exists(self) -> bool:
        """See Path."""
        return bool(self.kept)
