"""The held-out plane's word to the gate: CampaignStarted -> SharedTextDeclared, HeldoutNgramsPublished,
HeldoutFingerprintsPublished.

What is shared is not said by anyone but read off: practice instances of the same benchmark, from a seed that stands on the
open log, until a whole pass over tracks, stages and outcomes shows no new pair of words. Held out is what they do not show.
"""

from collections.abc import Iterator, Sequence

from bat_events.benchmark.interface import Benchmark, TaskKey
from bat_events.benchmark.registry import benchmark
from bat_events.codec import Fact
from bat_events.consumers.evaluator import heldout_tasks
from bat_events.consumers.fingerprints import FINGERPRINT_KEY, as_events, task_texts
from bat_events.consumers.meanings import published
from bat_events.deciders.interface import Draft
from bat_events.domain.canonical import seed63
from bat_events.domain.leakage import make_fingerprints
from bat_events.domain.leakage.fingerprints import SharedText
from bat_events.domain.vocabulary import Focus, Outcome, Split, Track
from bat_events.embedding.interface import Embedder, EmbeddingFailed, embedder
from bat_events.events.base import Event
from bat_events.events.campaign import CampaignStarted
from bat_events.events.envelope import Cost
from bat_events.events.plan import CampaignPlan
from bat_events.service.context import Context
from bat_events.service.measure import stopwatch
from bat_events.service.runtime import Retryable

MINIMUM_PASSES, MAXIMUM_PASSES = 3, 8


class Fingerprinter:
    """See the module."""

    name = "evaluator"
    version = 2
    topic = "campaign"
    outputs: tuple[str, ...] = ("boundary.fingerprint",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, CampaignStarted)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """Fingerprint every held-out instance of the campaign."""
        started: CampaignStarted = fact.event  # type: ignore[assignment]
        campaign, plan = fact.envelope.campaign, started.plan
        watch = stopwatch()
        self._context.status.say("reading the text that practice and evaluation share")
        shared, instances = shared_texts(benchmark(plan.benchmark), plan)
        self._context.status.say("fingerprinting held-out instances")
        texts = [
            text
            for track in plan.tracks
            for task in heldout_tasks(self._context, plan, track, plan.evaluation.repeats)
            for text in task_texts(task)
        ]
        known = make_fingerprints(texts, self._context.secret(FINGERPRINT_KEY), shared)
        events: list[Event] = [*as_events(known, shared, seed=shared_seed(plan), instances=instances)]
        made = embedder(self._context.settings.embedding)
        if made is not None:
            self._context.status.say("sketching what held-out sentences mean")
            events.insert(0, self._meanings(made, texts, shared))
        cost = Cost(wall_s=watch())
        return [
            Draft(
                event=event,
                campaign=campaign,
                cause=fact.id,
                ordinal=0,
                key=campaign,
                cost=cost if event is events[-1] else None,
            )
            for event in events
        ]

    def _meanings(self, made: Embedder, texts: Sequence[str], shared: Sequence[str]) -> Event:
        try:
            return published(
                made, texts, shared, self._context.secret(FINGERPRINT_KEY), self._context.settings.embedding.similar
            )
        except EmbeddingFailed as error:
            raise Retryable(str(error)) from error


def shared_seed(plan: CampaignPlan) -> int:
    """From which seed the practice instances are drawn: a function of the open plan."""
    return seed63("shared text", plan.seed, plan.benchmark)


def shared_texts(known: Benchmark, plan: CampaignPlan) -> tuple[list[str], int]:
    """(the distinct texts of practice instances, how many instances were read)."""
    texts: dict[str, None] = {}
    pairs, instances = -1, 0
    for number in range(MAXIMUM_PASSES):
        for key in _keys(plan.tracks, shared_seed(plan), number):
            texts.update(dict.fromkeys(task_texts(known.build(key))))
            instances += 1
        now = SharedText.of(texts).pairs
        if now == pairs and number + 1 >= MINIMUM_PASSES:
            break
        pairs = now
    return list(texts), instances


def _keys(tracks: Sequence[Track], seed: int, number: int) -> Iterator[TaskKey]:
    for track in tracks:
        for focus in Focus:
            for outcome in Outcome:
                yield TaskKey(
                    track=track,
                    focus=focus,
                    outcome=outcome,
                    seed=seed63("shared instance", seed, track, focus, outcome, number),
                    split=Split.PRACTICE,
                )
