"""Who acts in an episode: a language model behind a chat protocol, or the scripted stand-in of policy.scripted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from bat_events.benchmark.interface import Task
from bat_events.domain.canonical import seed63
from bat_events.policy.interface import Action, ChatProtocol, Engine, Sampling


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One assistant turn: what was sampled and what it means."""

    token_ids: Sequence[int]
    logprobs: Sequence[float]
    finish: Literal["stop", "length"]
    action: Action


class Cast(Protocol):
    """Several rollouts side by side, one per row; rows are numbered from 0. `prompts` are the rows' prompt ids."""

    prompts: Sequence[Sequence[int]]

    def act(self, rows: Sequence[int], contexts: Sequence[Sequence[int]], max_new_tokens: int) -> list[Turn]:
        """The next turn of each row, as one batch; `contexts` are the rows' tokens so far, the prompt included."""
        ...

    def observe(self, row: int, observation: str) -> Sequence[int]:
        """The ids that put an observation before the row's next turn."""
        ...


class Actor(Protocol):
    """Begins episodes with one set of weights."""

    name: str

    def begin(self, tasks: Sequence[Task], *, temperature: float, seed: int) -> Cast: ...


class ModelActor:
    """An engine and its chat protocol."""

    def __init__(self, engine: Engine, chat: ChatProtocol) -> None:
        self.name = engine.name
        self._engine, self._chat = engine, chat

    def begin(self, tasks: Sequence[Task], *, temperature: float, seed: int) -> Cast:
        """See Actor."""
        return _ModelCast(self._engine, self._chat, tasks, temperature, seed)


class _ModelCast:
    def __init__(
        self, engine: Engine, chat: ChatProtocol, tasks: Sequence[Task], temperature: float, seed: int
    ) -> None:
        self.prompts: Sequence[Sequence[int]] = [chat.start(task.system, task.prompt) for task in tasks]
        self._engine, self._chat = engine, chat
        self._temperature, self._seed = temperature, seed
        self._turn = 0

    def act(self, rows: Sequence[int], contexts: Sequence[Sequence[int]], max_new_tokens: int) -> list[Turn]:  # noqa: ARG002
        sampling = Sampling(
            temperature=self._temperature, max_new_tokens=max_new_tokens, seed=seed63("turn", self._seed, self._turn)
        )
        self._turn += 1
        return [
            Turn(
                token_ids=sample.token_ids,
                logprobs=sample.logprobs,
                finish=sample.finish,
                action=self._chat.parse(sample.token_ids),
            )
            for sample in self._engine.generate(contexts, sampling)
        ]

    def observe(self, row: int, observation: str) -> Sequence[int]:  # noqa: ARG002
        return self._chat.observe(observation)
