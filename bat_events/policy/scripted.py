"""A stand-in for a language model, for tests of the loop without torch. It is a fake and is called one.

Its "weights" are a JSON file with one number per focus: the probability of making the right choice. It plays the
benchmark's own demonstrations (so it knows the truth, as no policy may), and spells actions as UTF-8 bytes.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from bat_events.benchmark.interface import Benchmark, Task
from bat_events.domain.canonical import seed63
from bat_events.domain.vocabulary import Focus
from bat_events.errors import ConfigurationError
from bat_events.policy.actor import Cast, Turn
from bat_events.policy.interface import Action, ExecuteCode, FinalAnswer

WEIGHTS_FILE = "scripted.json"
END = 256  # the end-of-turn token, beside 256 bytes


def write_weights(folder: Path, quality: dict[str, float]) -> None:
    """A scripted checkpoint: the share of right choices per focus."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / WEIGHTS_FILE).write_text(json.dumps({"kind": "scripted", "quality": quality}, sort_keys=True))


def read_weights(folder: Path) -> dict[Focus, float]:
    """The inverse of `write_weights`. Raises ConfigurationError for a folder of another kind."""
    path = folder / WEIGHTS_FILE
    if not path.exists():
        raise ConfigurationError(f"{folder} holds no scripted checkpoint: the campaign's engine must match its trainer")
    return {Focus(name): float(value) for name, value in json.loads(path.read_text())["quality"].items()}


class ScriptedActor:
    """See the module."""

    name = "scripted"

    def __init__(self, benchmark: Benchmark, quality: dict[Focus, float]) -> None:
        self._benchmark, self._quality = benchmark, quality

    def begin(self, tasks: Sequence[Task], *, temperature: float, seed: int) -> Cast:  # noqa: ARG002
        """See Actor; the temperature means nothing here."""
        return _ScriptedCast(tasks, [self._script(task, seed63("script", seed, n)) for n, task in enumerate(tasks)])

    def _script(self, task: Task, seed: int) -> list[str]:
        quality = self._quality[task.key.focus]
        if task.key.focus is Focus.E2E:  # what is practised stage by stage shows end to end
            quality = sum(self._quality.values()) / len(self._quality)
        played = self._benchmark.demonstration(task.key, seed=seed, quality=quality)
        return [code for code, _ in played]


class _ScriptedCast:
    def __init__(self, tasks: Sequence[Task], scripts: list[list[str]]) -> None:
        self.prompts: Sequence[Sequence[int]] = [
            list((task.system + "\n" + task.prompt + "\n").encode()) for task in tasks
        ]
        self._scripts = scripts
        self._next = [0] * len(scripts)

    def act(self, rows: Sequence[int], contexts: Sequence[Sequence[int]], max_new_tokens: int) -> list[Turn]:  # noqa: ARG002
        return [self._turn(row) for row in rows]

    def observe(self, row: int, observation: str) -> Sequence[int]:  # noqa: ARG002
        return list(("\n" + observation + "\n").encode())

    def _turn(self, row: int) -> Turn:
        script, position = self._scripts[row], self._next[row]
        self._next[row] += 1
        action: Action = FinalAnswer(text="done")
        text = "done"
        if position < len(script):
            text = script[position]
            action = ExecuteCode(language="python", code=text)
        ids = [*text.encode(), END]
        return Turn(token_ids=ids, logprobs=[0.0] * len(ids), finish="stop", action=action)
