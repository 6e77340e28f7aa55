"""A model behind an OpenAI-compatible address that words published sentences anew.

It is shown sentences that the benchmark publishes and the facts to keep in each, nothing else of a state. What it replies is
held against domain.wording and is not trusted further: the leakage gate reads the whole state afterwards.
"""

import json
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from bat_events.consumers.chat_model import ChatModel, ChatUnavailable, ChatUnusable, Spent, unfenced
from bat_events.domain.canonical import seed63
from bat_events.domain.wording import blocks, line_facts, most_characters, wording_fault
from bat_events.settings import SynthesisSettings

__all__ = ["Wording", "WordingModel", "WordingUnavailable", "WordingUnusable"]

BLOCK = 8  # sentences in one call
_INSTRUCTIONS = (
    "You word sentences of a task description anew. You get JSON: lines, each with its text, the facts in it, and the most "
    "characters that its wording may have. Give every line another wording with the same meaning, in English, on one line. "
    "Keep all its facts letter for letter and in the given order; add no other name, number, sign, negation or "
    'comparison. Reply with JSON only: {"lines": ["...", ...]}, as many as you got, in the same order.'
)
WordingUnavailable = ChatUnavailable
WordingUnusable = ChatUnusable


@dataclass(frozen=True, kw_only=True)
class Wording:
    """A wording of each line, and what it took; tokens are None where the model did not say."""

    lines: dict[str, str]
    calls: int
    tokens_in: int | None
    tokens_out: int | None


class _Lines(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    lines: list[str]


class WordingModel:
    """See the module. One state at a time; `stop` ends waiting between calls."""

    def __init__(self, settings: SynthesisSettings, stop: threading.Event) -> None:
        """Raises ConfigurationError where the key's file cannot be read."""
        self._chat = ChatModel(
            settings, stop, service="synthesizer", part="synthesis", remedy="the benchmark's own wording"
        )
        self.close = self._chat.close

    def reword(self, lines: Collection[str], terms: Collection[str], seed: int) -> Wording:
        """A wording of every line.

        Raises WordingUnavailable after the last call that got no answer, WordingUnusable after the last answer that cannot
        stand for its lines, ConfigurationError where the address, the key or the model's name must be wrong.
        """
        return self._chat.run(self._reword(sorted(lines), frozenset(terms), seed))

    async def _reword(self, lines: Sequence[str], terms: frozenset[str], seed: int) -> Wording:
        spent, parts = Spent(), blocks(lines, BLOCK)
        answers = (
            await self._chat.together(  # one part without a wording is enough: the others are not asked any longer
                [self._block(part, terms, seed63("wording", seed, number), spent) for number, part in enumerate(parts)]
            )
        )
        said = {
            old: new for part, answer in zip(parts, answers, strict=True) for old, new in zip(part, answer, strict=True)
        }
        tokens_in, tokens_out = spent.tokens
        return Wording(lines=said, calls=spent.calls, tokens_in=tokens_in, tokens_out=tokens_out)

    async def _block(self, lines: Sequence[str], terms: frozenset[str], seed: int, spent: Spent) -> list[str]:
        asked = [
            {"text": line, "facts": list(line_facts(line, terms)), "most_characters": most_characters(line)}
            for line in lines
        ]
        messages = [("system", _INSTRUCTIONS), ("user", json.dumps({"lines": asked}, ensure_ascii=False))]
        return await self._chat.ask(messages, lambda text: _read(text, lines, terms), spent, seed=seed)  # type: ignore[arg-type]


def _read(text: str, lines: Sequence[str], terms: frozenset[str]) -> list[str]:
    """The wordings in a reply. Raises ChatUnusable, quoting nothing of it."""
    try:
        said = _Lines.model_validate_json(unfenced(text)).lines
    except ValidationError:
        raise ChatUnusable("the answer is not the JSON that was asked for") from None
    if len(said) != len(lines):
        raise ChatUnusable(f"the answer words {len(said)} lines of {len(lines)}")
    for old, new in zip(lines, said, strict=True):
        fault = wording_fault(old, new, terms)
        if fault is not None:
            raise ChatUnusable(f"the wording of {old[:60]!r} cannot stand for it: {fault}")
    return said
