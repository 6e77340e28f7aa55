"""What rollout workers and the judge record."""

from typing import Annotated, ClassVar

from pydantic import Field

from bat_events.domain.vocabulary import Focus, Pool, Stage
from bat_events.events.base import Event
from bat_events.events.types import (
    AvroDefault,
    Choice,
    Digest,
    Id,
    NonNegative,
    Positive,
    PublicKey,
    Record,
    Seq,
    Signature,
    Unit,
)


class CallReceipt(Record):
    """One tool call as the runtime saw it from outside the sandbox. `digest` covers all fields before it and the receipt before.

    Code, outputs and files stand in the evidence artefact; here are their digests. Durations stand in the envelope.
    """

    ordinal: NonNegative = Field(description="which call of the rollout; a rubric item's proof names it")
    engine: str
    isolation: str = Field(description="how strongly the call was shut in")
    language: str
    code: Digest
    exit_code: int | None = Field(description="null unless the call exited")
    end: str = Field(
        description="exited, or the limit that cut it short: timeout, memory, output, processes, disk, breach"
    )
    stdout: Digest
    stderr: Digest
    workspace_before: Digest
    workspace_after: Digest
    changes: Digest = Field(description="of the list of paths with their digests before and after")
    changed: NonNegative = Field(description="paths that the call changed")
    digest: Digest
    signature: Signature = Field(description="Ed25519, of digest, by the rollout's signer")


class RolloutCompleted(Event):
    """One rollout, however it ended. Packed fields are little-endian: int32 ids, uint8 masks, float32 log-probabilities.

    `response_*` have `response_tokens` entries each; the mask is 1 where the policy sampled the token.
    """

    TOPIC: ClassVar[str] = "rollout"
    VERSION: ClassVar[int] = 2
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
    receipts: Annotated[Seq[CallReceipt] | None, AvroDefault(None)] = Field(
        description="every call in order, each naming the one before; null where they were not recorded"
    )
    signer: Annotated[PublicKey | None, AvroDefault(None)] = Field(
        description="public key that receipts and seal are checked with; its private half never enters a sandbox"
    )
    seal: Annotated[Signature | None, AvroDefault(None)] = Field(
        description="Ed25519, of the last receipt, their number, the evidence and the end: nothing can be cut off"
    )


class RolloutFailed(Event):
    """The infrastructure failed: this rollout is missing, not zero."""

    TOPIC: ClassVar[str] = "rollout"
    group: Id
    rollout: Id
    index: NonNegative
    round: NonNegative
    step: NonNegative
    slot: NonNegative
    reason: str
    detail: str


class IsolationBreached(Event):
    """A call did what only an escape needs. The first of a rollout is blocked and shown, the second ends it with reward 0."""

    TOPIC: ClassVar[str] = "rollout"
    group: Id
    rollout: Id
    index: NonNegative
    round: NonNegative
    step: NonNegative
    slot: NonNegative
    receipt: NonNegative = Field(description="ordinal of the call's receipt")
    breach: Positive = Field(description="which breach of the rollout")
    ended: bool = Field(description="whether it ended the rollout")


class RubricItem(Record):
    """One judged item; `proof` is the index of the receipt that proves an execution item."""

    item: str
    stage: Choice[Stage]
    score: Unit
    applicable: bool
    proof: NonNegative | None
    note: str


class StageValue(Record):
    """A stage's score in [0, 1]."""

    stage: Choice[Stage]
    score: Unit


class TextScore(Record):
    """What a model said of one item that a text must settle, and what the evidence allows; the lower of the two counts."""

    item: str
    asked: Unit = Field(description="the model's score")
    cap: Unit = Field(description="the item's score by the evidence alone")
    judgement: Digest = Field(description="artefact: what the model was asked and what it answered")


class RewardScored(Event):
    """A rollout's reward, from evidence: min(raw, cap)."""

    TOPIC: ClassVar[str] = "reward"
    VERSION: ClassVar[int] = 2
    group: Id
    rollout: Id
    index: NonNegative
    round: NonNegative
    step: NonNegative
    slot: NonNegative
    pool: Choice[Pool]
    focus: Choice[Focus]
    reward: Unit
    raw: Unit
    cap: Unit
    stages: Seq[StageValue]
    task_score: Unit | None
    items: Seq[RubricItem]
    failures: Seq[str]
    evidence: Digest
    judge: str
    rubric_version: NonNegative
    model: Annotated[str | None, AvroDefault(None)] = Field(
        description="the model that judges texts within the evidence; null where the evidence alone judges"
    )
    texts: Annotated[Seq[TextScore], AvroDefault([])] = Field(description="the items that the model was asked about")


class RewardShadowed(Event):
    """What a second judge would have given a rollout of its sample. Nothing is decided or trained by it."""

    TOPIC: ClassVar[str] = "reward"
    group: Id
    rollout: Id
    index: NonNegative
    round: NonNegative
    step: NonNegative
    slot: NonNegative
    focus: Choice[Focus]
    judge: str
    model: str
    rubric_version: NonNegative
    reward: Unit | None = Field(description="null where this judge has none, and then reason says why")
    evidence_reward: Unit | None = Field(description="by the evidence alone; null where that could not be said")
    texts: Seq[TextScore]
    reason: str = Field(description="empty where there is a reward")
    detail: str


class RewardWithheld(Event):
    """The judge could not score a rollout: its reward is missing, not zero."""

    TOPIC: ClassVar[str] = "reward"
    group: Id
    rollout: Id
    index: NonNegative
    round: NonNegative
    step: NonNegative
    slot: NonNegative
    reason: str
    detail: str
