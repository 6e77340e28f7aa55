"""The Stage Bank: states asked for, synthesised, checked, admitted."""

from typing import ClassVar

from pydantic import Field

from bat_events.domain.vocabulary import Focus, Outcome, Track
from bat_events.events.base import Event
from bat_events.events.types import Choice, Digest, Id, NonNegative, Record, Seq


class SynthesisRequested(Event):
    """The bank wants the `ordinal`-th state of a cell (focus, track, outcome)."""

    TOPIC: ClassVar[str] = "bank.request"
    state: Id
    focus: Choice[Focus]
    track: Choice[Track]
    outcome: Choice[Outcome]
    ordinal: NonNegative
    seed: NonNegative


class StateSynthesized(Event):
    """A candidate reset point; its body (prompt, inputs, workspace, rubric) is an artefact."""

    TOPIC: ClassVar[str] = "bank.state"
    state: Id
    focus: Choice[Focus]
    track: Choice[Track]
    outcome: Choice[Outcome]
    ordinal: NonNegative
    seed: NonNegative
    benchmark: str
    benchmark_version: NonNegative
    body: Digest
    body_bytes: NonNegative
    prompt_digest: Digest
    workspace_digest: Digest


class SynthesisFailed(Event):
    """A state could not be made; its ordinal stays empty."""

    TOPIC: ClassVar[str] = "bank.state"
    state: Id
    focus: Choice[Focus]
    track: Choice[Track]
    outcome: Choice[Outcome]
    ordinal: NonNegative
    reason: str


class LeakageCheck(Record):
    """One check of the leakage gate, in the order in which they ran."""

    name: str
    passed: bool
    evidence: str


class LeakageVerdict(Event):
    """Whether a state may be practised on, with every check's evidence."""

    TOPIC: ClassVar[str] = "bank.verdict"
    state: Id
    focus: Choice[Focus]
    track: Choice[Track]
    outcome: Choice[Outcome]
    ordinal: NonNegative
    body: Digest
    cleared: bool
    checks: Seq[LeakageCheck]


class StateAdmitted(Event):
    """A cleared state enters the bank. `rank` counts admissions in its cell without gaps, in order of ordinal."""

    TOPIC: ClassVar[str] = "bank.ready"
    state: Id
    focus: Choice[Focus]
    track: Choice[Track]
    outcome: Choice[Outcome]
    ordinal: NonNegative
    rank: NonNegative = Field(description="the planner takes states in this order, so a plan depends on no timing")
    body: Digest
