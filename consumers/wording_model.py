"""A model behind an OpenAI-compatible address that words published sentences anew.

It is shown sentences that the benchmark publishes and the facts to keep in each, nothing else of a state. What it replies is
held against domain.wording and is not trusted further: the leakage gate reads the whole state afterwards.
"""

import asyncio
import json
import logging
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import structlog
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic import BaseModel, ConfigDict, ValidationError

from bat_events.domain.canonical import seed63
from bat_events.domain.wording import blocks, line_facts, most_characters, wording_fault
from bat_events.errors import ConfigurationError
from bat_events.settings import SynthesisSettings

BLOCK = 8  # sentences in one call
_LONGEST_WAIT_S = 30.0
_LOOK_S = 0.2  # between two looks at whether to stop
_PASSING = (408, 409, 425, 429)  # and all of 500 and above: these may pass
_INSTRUCTIONS = (
    "You word sentences of a task description anew. You get JSON: lines, each with its text, the facts in it, and the most "
    "characters that its wording may have. Give every line another wording with the same meaning, in English, on one line. "
    "Keep all its facts letter for letter and in the given order; add no other name, number, sign, negation or "
    'comparison. Reply with JSON only: {"lines": ["...", ...]}, as many as you got, in the same order.'
)


class WordingUnavailable(Exception):
    """The model cannot be asked now; that may pass."""


class WordingUnusable(ValueError):
    """The model answered every time, and never with a wording that may stand for the line. Quotes no reply."""


@dataclass(frozen=True, kw_only=True)
class Wording:
    """A wording of each line, and what it took; tokens are None where the model did not say."""

    lines: dict[str, str]
    calls: int
    tokens_in: int | None
    tokens_out: int | None


class _Message(BaseModel):
    content: str


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int


class _Reply(BaseModel):
    choices: list[_Choice]
    usage: _Usage | None = None


class _Lines(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    lines: list[str]


@dataclass
class _Spent:
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    counted: bool = True


class WordingModel:
    """See the module. One state at a time; `stop` ends waiting between calls."""

    def __init__(self, settings: SynthesisSettings, stop: threading.Event) -> None:
        """Raises ConfigurationError where the key's file cannot be read."""
        assert settings.endpoint is not None
        assert settings.model is not None
        self._settings, self._stop, self._model = settings, stop, settings.model
        self._log = structlog.get_logger(service="synthesizer")
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line for every call, and none of them JSON
        self._loop = asyncio.new_event_loop()
        self._client = AsyncOpenAI(
            base_url=settings.endpoint,
            api_key=_key(settings),
            max_retries=0,  # there is one layer of retries, and it is here
            timeout=settings.timeout_s,
            http_client=DefaultAsyncHttpxClient(timeout=settings.timeout_s, follow_redirects=False),
        )

    def reword(self, lines: Collection[str], terms: Collection[str], seed: int) -> Wording:
        """A wording of every line.

        Raises WordingUnavailable after the last call that got no answer, WordingUnusable after the last answer that cannot
        stand for its lines, ConfigurationError where the address, the key or the model's name must be wrong.
        """
        return self._loop.run_until_complete(self._until_stopped(sorted(lines), frozenset(terms), seed))

    def close(self) -> None:
        """Close the connections, unless a call is still ending: then the process does."""
        if self._loop.is_running():
            return
        self._loop.run_until_complete(self._client.close())
        self._loop.close()

    async def _until_stopped(self, lines: Sequence[str], terms: frozenset[str], seed: int) -> Wording:
        work = asyncio.create_task(self._reword(lines, terms, seed))
        while not work.done():
            await asyncio.wait({work}, timeout=_LOOK_S)
            if self._stop.is_set() and not work.done():
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                raise WordingUnavailable("asked to stop meanwhile")
        return work.result()

    async def _reword(self, lines: Sequence[str], terms: frozenset[str], seed: int) -> Wording:
        spent, places = _Spent(), asyncio.Semaphore(self._settings.concurrency)
        parts = blocks(lines, BLOCK)
        calls = [
            asyncio.create_task(self._block(part, terms, seed63("wording", seed, number), spent, places))
            for number, part in enumerate(parts)
        ]
        try:
            answers = await asyncio.gather(*calls)
        finally:
            for call in calls:  # one part without a wording is enough: the others are not asked for any longer
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        said = {
            old: new for part, answer in zip(parts, answers, strict=True) for old, new in zip(part, answer, strict=True)
        }
        tokens_in, tokens_out = (spent.tokens_in, spent.tokens_out) if spent.counted else (None, None)
        return Wording(lines=said, calls=spent.calls, tokens_in=tokens_in, tokens_out=tokens_out)

    async def _block(
        self, lines: Sequence[str], terms: frozenset[str], seed: int, spent: _Spent, places: asyncio.Semaphore
    ) -> list[str]:
        for attempt in range(self._settings.retries + 1):
            last = attempt == self._settings.retries
            wait_s = min(self._settings.retry_wait_s * 2**attempt, _LONGEST_WAIT_S)
            try:
                async with places:
                    return await self._call(lines, terms, seed63("try", seed, attempt), spent)
            except (WordingUnavailable, WordingUnusable) as error:
                self._log.warning("wording failed", model=self._model, attempt=attempt + 1, error=str(error))
                if last:
                    raise type(error)(f"model {self._model}, {attempt + 1} tries: {error}") from None
            await asyncio.sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")

    async def _call(self, lines: Sequence[str], terms: frozenset[str], seed: int, spent: _Spent) -> list[str]:
        asked = [
            {"text": line, "facts": list(line_facts(line, terms)), "most_characters": most_characters(line)}
            for line in lines
        ]
        spent.calls += 1
        try:
            async with asyncio.timeout(self._settings.timeout_s):  # the client's own limit is between two bytes
                response = await self._client.chat.completions.with_raw_response.create(
                    model=self._model,
                    messages=[
                        {"role": "system", "content": _INSTRUCTIONS},
                        {"role": "user", "content": json.dumps({"lines": asked}, ensure_ascii=False)},
                    ],
                    temperature=self._settings.temperature,
                    max_tokens=self._settings.max_tokens,
                    seed=seed >> 32,  # 31 bits: some servers take no more
                )
        except TimeoutError:
            raise WordingUnavailable(f"no answer within {self._settings.timeout_s:g} s") from None
        except APIStatusError as error:
            if error.status_code in _PASSING or error.status_code >= 500:
                raise WordingUnavailable(f"status {error.status_code}") from None
            raise ConfigurationError(
                f"synthesis.endpoint {self._settings.endpoint} answers {error.status_code} for model {self._model}: correct "
                "synthesis.endpoint, synthesis.model or the key, or unset them for the benchmark's own wording"
            ) from None
        except APIConnectionError as error:  # a time-out of the client's own too
            raise WordingUnavailable(f"{type(error).__name__}: {type(error.__cause__ or error).__name__}") from None
        return _read(response.http_response.content, lines, terms, spent)


def _read(content: bytes, lines: Sequence[str], terms: frozenset[str], spent: _Spent) -> list[str]:
    """The wordings in a completion's body. Raises WordingUnusable, quoting nothing of it."""
    try:
        reply = _Reply.model_validate_json(content)
    except ValidationError:
        spent.counted = False
        raise WordingUnusable("the answer is no chat completion") from None
    if reply.usage is None:
        spent.counted = False
    else:
        spent.tokens_in += reply.usage.prompt_tokens
        spent.tokens_out += reply.usage.completion_tokens
    if len(reply.choices) != 1 or reply.choices[0].finish_reason not in (None, "stop"):
        raise WordingUnusable("the answer was cut short, or is not one answer")
    text = reply.choices[0].message.content.strip()
    if text.startswith("```"):
        text = text.strip("`").removeprefix("json").strip()
    try:
        said = _Lines.model_validate_json(text).lines
    except ValidationError:
        raise WordingUnusable("the answer is not the JSON that was asked for") from None
    if len(said) != len(lines):
        raise WordingUnusable(f"the answer words {len(said)} lines of {len(lines)}")
    for old, new in zip(lines, said, strict=True):
        fault = wording_fault(old, new, terms)
        if fault is not None:
            raise WordingUnusable(f"the wording of {old[:60]!r} cannot stand for it: {fault}")
    return said


def _key(settings: SynthesisSettings) -> str:
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    if settings.api_key_file is None:
        return "none"  # local servers ask for none, the client insists on one
    try:
        key = settings.api_key_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"synthesis.api_key_file {settings.api_key_file} cannot be read: {type(error).__name__}"
        ) from None
    if not key:
        raise ConfigurationError(f"synthesis.api_key_file {settings.api_key_file} is empty")
    return key
