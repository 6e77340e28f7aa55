"""Makes practice states on demand, off the training path: SynthesisRequested -> StateSynthesized | SynthesisFailed."""

from collections.abc import Sequence
from typing import Any

from bat_events.benchmark.body import state_body, workspace_json
from bat_events.benchmark.interface import TaskKey
from bat_events.benchmark.registry import benchmark
from bat_events.codec import Fact
from bat_events.deciders.interface import Draft
from bat_events.domain.bank import SourceCell
from bat_events.domain.bank_copies import own_digests
from bat_events.domain.canonical import canonical_json, digest
from bat_events.domain.vocabulary import Split
from bat_events.events.bank import StateSynthesized, SynthesisFailed, SynthesisRequested
from bat_events.events.envelope import Cost
from bat_events.service.context import Context
from bat_events.service.measure import stopwatch


class Synthesizer:
    """See the module."""

    name = "synthesizer"
    version = 2
    topic = "bank.request"
    outputs: tuple[str, ...] = ("bank.state",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, SynthesisRequested)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """Build the instance and store its body."""
        request: SynthesisRequested = fact.event  # type: ignore[assignment]
        campaign = fact.envelope.campaign
        known = benchmark(self._context.campaign(campaign).plan.benchmark)
        self._context.status.say(f"synthesising {request.focus} {request.track} {request.outcome} {request.ordinal}")
        key = TaskKey(
            track=request.track,
            focus=request.focus,
            outcome=request.outcome,
            seed=request.seed,
            split=Split.PRACTICE,
        )
        watch = stopwatch()
        event: StateSynthesized | SynthesisFailed
        same: dict[str, Any] = {
            "state": request.state,
            "focus": request.focus,
            "track": request.track,
            "outcome": request.outcome,
            "ordinal": request.ordinal,
        }
        size = None
        try:
            task = known.build(key)
        except ValueError as error:  # this instance cannot be made; others can
            event = SynthesisFailed(**same, reason=str(error))
        else:
            own = own_digests(
                SourceCell(request.focus, request.track, request.outcome),
                task.prompt,
                task.inputs,
                task.files,
                known.published(request.track, request.focus),
            )
            body = canonical_json(state_body(task, benchmark=known.name, version=known.version))
            size = len(body)
            event = StateSynthesized(
                **same,
                seed=request.seed,
                benchmark=known.name,
                benchmark_version=known.version,
                body=self._context.store.put(body),
                body_bytes=size,
                prompt_digest=digest([task.system, task.prompt]),
                workspace_digest=digest(workspace_json(task)),
                own_prompt=own.prompt,
                own_workspace=own.workspace,
                condition=own.condition,
            )
        cost = Cost(wall_s=watch(), bytes_out=size)
        return [Draft(event=event, campaign=campaign, cause=fact.id, ordinal=0, key=request.state, cost=cost)]
