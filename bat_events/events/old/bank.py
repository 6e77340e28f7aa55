"""Earlier versions of the Stage Bank's events."""

from typing import ClassVar

from bat_events.domain.vocabulary import Focus, Outcome, Track
from bat_events.events.bank import StateSynthesized
from bat_events.events.base import Event, OldEvent
from bat_events.events.types import Choice, Digest, Id, NonNegative


class StateSynthesizedV1(OldEvent):
    """A candidate reset point; its body (prompt, inputs, workspace, rubric) is an artefact."""

    SUCCESSOR: ClassVar[type[Event]] = StateSynthesized
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

    def upcast(self) -> StateSynthesized:
        """Version 2 without the digests of what is its own: they were not recorded."""
        return StateSynthesized(**dict(self), own_prompt=None, own_workspace=None, condition=None)
