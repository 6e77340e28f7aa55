"""Earlier versions of what rollout workers record."""

from typing import ClassVar

from pydantic import Field

from bat_events.domain.vocabulary import Focus, Pool
from bat_events.events.base import Event, OldEvent
from bat_events.events.rollouts import RolloutCompleted
from bat_events.events.types import Choice, Digest, Id, NonNegative


class RolloutCompletedV1(OldEvent):
    """One rollout, however it ended. Packed fields are little-endian: int32 ids, uint8 masks, float32 log-probabilities.

    `response_*` have `response_tokens` entries each; the mask is 1 where the policy sampled the token.
    """

    SUCCESSOR: ClassVar[type[Event]] = RolloutCompleted
    VERSION: ClassVar[int] = 1
    group: Id
    rollout: Id
    index: NonNegative
    round: NonNegative
    step: NonNegative
    slot: NonNegative
    pool: Choice[Pool]
    focus: Choice[Focus]
    state: Id
    body: Digest
    weights: Digest
    end: str = Field(description="final, turn_limit, token_limit, malformed or breach")
    turns: NonNegative
    valid_actions: NonNegative
    prompt_tokens: NonNegative
    response_tokens: NonNegative
    prompt_ids: bytes
    response_ids: bytes
    response_mask: bytes
    logprobs: bytes
    evidence: Digest = Field(description="artefact: receipts, final workspace, end")
    sandbox: str

    def upcast(self) -> RolloutCompleted:
        """Version 2 without receipts: they stand in the evidence artefact only, unsigned."""
        return RolloutCompleted(**dict(self), receipts=None, signer=None, seal=None)
