"""The Stage Bank: states asked for, synthesised, checked, admitted or refused, retired."""

from typing import Annotated, ClassVar

from pydantic import Field

from bat_events.domain.vocabulary import Focus, Outcome, Track
from bat_events.events.base import Event
from bat_events.events.types import AvroDefault, Choice, Digest, Id, NonNegative, Positive, Record, Seq


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
    VERSION: ClassVar[int] = 3
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
    own_prompt: Annotated[Digest | None, AvroDefault(None)] = Field(
        description="of the prompt's lines that are not published for all states of its track and focus, without ids; null: none"
    )
    own_workspace: Annotated[Digest | None, AvroDefault(None)] = Field(
        description="of the files that are not published, without ids and in no order; null where there is none"
    )
    condition: Annotated[Digest | None, AvroDefault(None)] = Field(
        description="of the cell and own_prompt's lines without numbers; all three are null where not recorded (version 1)"
    )
    wording: Annotated[str, AvroDefault("programmatic")] = Field(
        description="programmatic, or the model that worded published sentences and the rule it kept; own_prompt is from before"
    )


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


class StateRefused(Event):
    """A cleared state does not enter the bank: it is a near-copy of one of its cell that did."""

    TOPIC: ClassVar[str] = "bank.ready"
    state: Id
    focus: Choice[Focus]
    track: Choice[Track]
    outcome: Choice[Outcome]
    ordinal: NonNegative
    reason: str = Field(description="what is the same: prompt or workspace")
    copy_of: Id = Field(description="the admitted state")


class StateRetired(Event):
    """A state has served its uses: no later round draws it."""

    TOPIC: ClassVar[str] = "bank.ready"
    state: Id
    focus: Choice[Focus]
    track: Choice[Track]
    outcome: Choice[Outcome]
    round: Positive = Field(description="the round of its last use")
    uses: Positive = Field(description="rounds that drew it, one group in each")
    reason: str = Field(description="used_up")
