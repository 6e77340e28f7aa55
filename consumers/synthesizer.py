"""Makes practice states on demand, off the training path: SynthesisRequested -> StateSynthesized | SynthesisFailed.

With a wording model configured (settings.synthesis) the published sentences of a state's prompt are said in its words. Where
it cannot be asked, the request stays unserved and is tried again; where it never says what may stand there, the state
failed. The benchmark's own wording never takes its place.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bat_events.benchmark.body import state_body, workspace_json
from bat_events.benchmark.interface import Benchmark, Task, TaskKey
from bat_events.benchmark.registry import benchmark
from bat_events.codec import Fact
from bat_events.deciders.interface import Draft
from bat_events.domain.bank import SourceCell
from bat_events.domain.bank_copies import own_digests
from bat_events.domain.canonical import canonical_json, digest
from bat_events.domain.vocabulary import Split
from bat_events.domain.wording import PROGRAMMATIC, rewordable, reworded, wording_name
from bat_events.events.bank import StateSynthesized, SynthesisFailed, SynthesisRequested
from bat_events.events.envelope import Cost
from bat_events.service.context import Context
from bat_events.service.measure import stopwatch
from bat_events.service.runtime import Retryable

if TYPE_CHECKING:
    from bat_events.consumers.wording_model import Wording, WordingModel


class Synthesizer:
    """See the module."""

    name = "synthesizer"
    version = 3
    topic = "bank.request"
    outputs: tuple[str, ...] = ("bank.state",)

    def __init__(self, context: Context, wording: "WordingModel | None" = None) -> None:
        self._context, self._wording = context, wording

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, SynthesisRequested)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """Build the instance and store its body. Raises Retryable when asked to end while a model is waited for."""
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
        said: Wording | None = None
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
            own = own_digests(  # before anything is said otherwise: another wording makes no other state
                SourceCell(request.focus, request.track, request.outcome),
                task.prompt,
                task.inputs,
                task.files,
                known.published(request.track, request.focus),
            )
            if self._wording is not None:
                said = self._reword(self._wording, known, task)
                task = replace(task, prompt=reworded(task.prompt, said.lines))
        except ValueError as error:  # this instance cannot be made, or not worded; others can
            event = SynthesisFailed(**same, reason=str(error))
        else:
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
                wording=PROGRAMMATIC if said is None else wording_name(str(self._context.settings.synthesis.model)),
            )
        cost = Cost(
            wall_s=watch(),
            bytes_out=size,
            tokens_in=None if said is None else said.tokens_in,
            tokens_out=None if said is None else said.tokens_out,
        )
        return [Draft(event=event, campaign=campaign, cause=fact.id, ordinal=0, key=request.state, cost=cost)]

    def _reword(self, model: "WordingModel", known: Benchmark, task: Task) -> "Wording":
        """The model's wording of the task's sentences; waits for a model that cannot be asked.

        Raises ValueError where it has no usable wording for this state.
        """
        from bat_events.consumers.wording_model import WordingUnavailable

        prose = known.prose(task.key.track, task.key.focus)
        lines = [line for line in prose.lines if rewordable(line, prose.terms)]
        while True:
            try:
                return model.reword(lines, prose.terms, task.key.seed)
            except WordingUnavailable as error:
                self._context.status.say(f"waiting for the wording model, nothing is synthesised without it: {error}")
            if self._context.stop.wait(self._context.settings.synthesis.pause_s):
                raise Retryable("stopped while waiting for the wording model")
