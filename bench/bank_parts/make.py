"""Makes states by the real synthesizer and clears them by the real leakage gate, without a broker: their log is a list.

Every event goes through the codec. Bodies are read by the gate, measured, and then dropped: 20,299 of them take gigabytes.
"""

import hashlib
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bat_events.benchmark.body import task_from_body
from bat_events.benchmark.instance import VERSION
from bat_events.benchmark.instance import request as recorded
from bat_events.benchmark.registry import benchmark
from bat_events.codec import Codec, Fact
from bat_events.consumers.fingerprinter import Fingerprinter
from bat_events.consumers.leakage_gate import LeakageGate
from bat_events.consumers.synthesizer import Synthesizer
from bat_events.deciders.bank import Bank
from bat_events.deciders.interface import Draft
from bat_events.domain.bank import StateRequest
from bat_events.domain.bank_copies import blank_ids
from bat_events.domain.canonical import digest
from bat_events.domain.grouping import state_id, state_seed
from bat_events.events.bank import StateSynthesized, SynthesisRequested
from bat_events.events.campaign import CampaignStarted, LogicVersion
from bat_events.events.ids import ROOT_CAUSE
from bat_events.events.plan import CampaignPlan
from bat_events.log.interface import Record
from bat_events.log.topics import TOPICS
from bat_events.service.context import Context
from bat_events.service.emit import outgoing
from bat_events.service.runtime import Status, SystemClock
from bat_events.settings import Settings

from .condition import condition_fault

CAMPAIGN = "bank-bench"
_PARTITIONS = {spec.name: 1 for spec in TOPICS}
_COARSE, _LEVELS = 4, 8  # of a picture's signature: blocks a side, grey levels


class OneBody:
    """An artefact store that holds the last body only."""

    def __init__(self) -> None:
        self._digest, self.content = "", b""

    def put(self, content: bytes) -> str:
        """See ArtifactStore.put."""
        self._digest, self.content = hashlib.sha256(content).hexdigest(), content
        return self._digest

    def get_json(self, wanted: str) -> Any:
        """See ArtifactStore.get_json."""
        if wanted != self._digest:
            raise LookupError(f"only body {self._digest} is kept, not {wanted}")
        return json.loads(self.content)


class BenchContext(Context):
    """A real context (settings, secrets) whose log is the list `facts` and whose store keeps one body."""

    facts: list[Fact]

    @classmethod
    def begun(cls, settings: Settings, plan: CampaignPlan) -> "BenchContext":
        """A campaign whose held-out fingerprints are published."""
        made = cls(settings=settings, bootstrap="no broker", status=Status(service="bench"))
        made.facts = []
        made.store = OneBody()  # type: ignore[assignment]
        logic = (LogicVersion(name=Bank.name, version=Bank.version),)
        event = CampaignStarted(plan=plan, package_version="bench", logic=logic, benchmark_version=VERSION)
        start = told(Draft(event=event, campaign=CAMPAIGN, cause=ROOT_CAUSE, ordinal=0, key=CAMPAIGN))
        made.facts.append(start)
        made.facts += [told(draft, by="evaluator") for draft in Fingerprinter(made).handle(start)]
        return made

    def read_all(self, topic: str) -> list[Fact]:
        """See Context.read_all."""
        return [fact for fact in self.facts if fact.topic == topic]


@dataclass(kw_only=True)
class Made:
    """What became of one request, and what it took; `pictures` are coarse signatures of its cases' clean images."""

    request: StateRequest
    drafts: list[Draft] = field(default_factory=list)
    prompt: str | None = None  # digest of the whole prompt, ids blanked
    rough_prompt: str | None = None  # digest of the prompt's own lines, every number to the nearest 4
    body_bytes: int = 0
    synthesis_s: float = 0.0
    gate_s: float = 0.0
    pictures: tuple[str, ...] = ()
    checked: bool = False
    fault: str | None = None


class Maker:
    """One process's synthesizer and gate."""

    def __init__(self, context: BenchContext, plan: CampaignPlan, sample_every: int) -> None:
        self._context, self._plan, self._every = context, plan, sample_every
        self._synthesizer, self._gate = Synthesizer(context), LeakageGate(context)
        self._published = benchmark(plan.benchmark).published

    def make(self, request: StateRequest) -> Made:
        """The state of a request, its verdict, and, for every so many ordinals of its cell, whether its condition is there."""
        made = Made(request=request)
        began = time.process_time()
        (state,) = self._synthesizer.handle(told(request_draft(request, self._plan), by="bank"))
        made.synthesis_s = time.process_time() - began
        made.drafts.append(state)
        if not isinstance(state.event, StateSynthesized):
            return made
        began = time.process_time()
        made.drafts += self._gate.handle(told(state, by="synthesizer"))
        made.gate_s = time.process_time() - began
        body = self._context.store.get_json(state.event.body)
        task = task_from_body(body)
        ids = {path.rpartition("/")[2].partition(".")[0] for path in task.inputs if path.startswith("input/cases/")}
        made.prompt = digest([task.system, blank_ids(task.prompt, ids)])
        published = self._published(task.key.track, task.key.focus)
        own = [line for line in task.prompt.splitlines() if line not in published]
        made.rough_prompt = digest(
            [re.sub(r"\d+", lambda number: str(4 * round(int(number[0]) / 4)), line) for line in own]
        )
        made.body_bytes = state.event.body_bytes
        cases = recorded(task.key.track, task.key.split, task.key.seed).cases
        made.pictures = tuple(_signature(case.scan) for case in cases)
        if request.ordinal % self._every == 0:
            made.checked, made.fault = True, condition_fault(task)
        return made


def request_draft(request: StateRequest, plan: CampaignPlan) -> Draft:
    """The request as the bank makes it."""
    cell = request.cell
    state = state_id(CAMPAIGN, cell.focus, cell.track, cell.outcome, request.ordinal)
    event = SynthesisRequested(
        state=state,
        focus=cell.focus,
        track=cell.track,
        outcome=cell.outcome,
        ordinal=request.ordinal,
        seed=state_seed(plan.seed, state),
    )
    return Draft(event=event, campaign=CAMPAIGN, cause=ROOT_CAUSE, ordinal=request.ordinal, key=state)


def told(draft: Draft, *, by: str = "campaign") -> Fact:
    """The fact that a draft becomes on the log."""
    out = outgoing(draft, source=f"bat/{by}", logic=f"{by}/1", time=SystemClock().now(), partitions=_PARTITIONS)
    return _codec().decode(
        Record(
            topic=out.topic,
            partition=0,
            offset=0,
            key=out.key,
            value=out.value,
            headers=out.headers,
            timestamp_ms=0,
        )
    )


_CODECS: list[Codec] = []


def _codec() -> Codec:
    if not _CODECS:  # parses every committed schema
        _CODECS.append(Codec())
    return _CODECS[0]


def _signature(image: np.ndarray[Any, np.dtype[np.float64]]) -> str:
    side = image.shape[0] // _COARSE
    blocks = image.reshape(_COARSE, side, _COARSE, side).mean(axis=(1, 3))
    return bytes(np.clip(blocks * _LEVELS, 0, _LEVELS - 1).astype(np.uint8).ravel()).hex()


_MAKERS: list[Maker] = []


def begin(context: BenchContext, plan: CampaignPlan, sample_every: int) -> None:
    """Called once in each process."""
    _MAKERS[:] = [Maker(context, plan, sample_every)]


def make_all(requests: Sequence[StateRequest]) -> list[Made]:
    """Some requests in this process."""
    return [_MAKERS[0].make(request) for request in requests]
