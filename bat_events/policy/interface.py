"""What an inference engine and a chat protocol promise.

Token ids are carried, never re-made from text: a transcript is the concatenation of the prompt's ids, the ids that the
engine sampled and the ids that the protocol puts around observations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from bat_events.sandbox.interface import Language


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How to sample. top_p is 1 and top_k off always: a truncated distribution biases the GRPO ratio."""

    temperature: float  # 0 is greedy
    max_new_tokens: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Generation:
    """One sampled continuation; `logprobs` are natural, fp32, after temperature, one per token of `token_ids`.

    `token_ids` includes the end-of-turn token where `finish` is "stop".
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Literal["stop", "length"]


class Engine(Protocol):
    """Samples from one set of weights at a time."""

    name: str

    def load(self, folder: Path) -> None:
        """Take the weights and the tokenizer of a checkpoint folder."""
        ...

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Generation]:
        """Sample once per prompt, as one batch; equal calls on equal weights give equal results on a CPU."""
        ...


@dataclass(frozen=True, kw_only=True)
class ExecuteCode:
    """The one tool call a policy can make."""

    language: Language
    code: str


@dataclass(frozen=True, kw_only=True)
class FinalAnswer:
    """The policy ended its turn without a tool call."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Malformed:
    """Not a valid action; `reason` says why. It is the policy's doing: it scores, it is not missing."""

    reason: str


Action = ExecuteCode | FinalAnswer | Malformed


class ChatProtocol(Protocol):
    """Turns messages into token ids and sampled ids into actions, for one tokenizer."""

    def start(self, system: str, prompt: str) -> list[int]:
        """Ids of the opening messages, up to and including the header of the first assistant turn."""
        ...

    def observe(self, observation: str) -> list[int]:
        """Ids that follow a finished assistant turn: the tool's observation and the next assistant header."""
        ...

    def parse(self, token_ids: Sequence[int]) -> Action:
        """The action in one sampled assistant turn."""
        ...

    def render(self, action: ExecuteCode | FinalAnswer) -> list[int]:
        """Ids of an assistant turn that makes this action, end-of-turn token included (for demonstrations)."""
        ...
