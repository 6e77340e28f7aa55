"""Earlier versions of the Stage Bank's events."""

from typing import Annotated, ClassVar

from pydantic import Field

from bat_events.domain.vocabulary import Focus, Outcome, Track
from bat_events.domain.wording import PROGRAMMATIC
from bat_events.events.bank import StateSynthesized
from bat_events.events.base import Event, OldEvent
from bat_events.events.types import AvroDefault, Choice, Digest, Id, NonNegative


class StateSynthesizedV2(OldEvent):
    """A candidate reset point; its body (prompt, inputs, workspace, rubric) is an artefact."""

    SUCCESSOR: ClassVar[type[Event]] = StateSynthesized
    VERSION: ClassVar[int] = 2
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

    def upcast(self) -> StateSynthesized:
        """Version 3, worded by the benchmark: models could not word states yet."""
        return StateSynthesized(**dict(self), wording=PROGRAMMATIC)


class StateSynthesizedV1(OldEvent):
    """A candidate reset point; its body (prompt, inputs, workspace, rubric) is an artefact."""

    SUCCESSOR: ClassVar[type[Event]] = StateSynthesizedV2
    VERSION: ClassVar[int] = 1
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

    def upcast(self) -> StateSynthesizedV2:
        """Version 2 without the digests of what is its own: they were not recorded."""
        return StateSynthesizedV2(**dict(self), own_prompt=None, own_workspace=None, condition=None)
