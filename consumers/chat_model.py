"""A model behind an OpenAI-compatible address, as every service of this project asks one.

There is one layer of retries, and it is here. What a reply says is read by whoever asks, who may refuse it and is then given
another; no reply is ever quoted in an error. Which model answers is never changed.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, Literal, TypeVar

import structlog
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic import BaseModel, ValidationError

from bat_events.domain.canonical import seed63
from bat_events.errors import ConfigurationError
from bat_events.settings import ModelSettings

_LONGEST_WAIT_S = 30.0
_LONGEST_RETRY_AFTER_S = 60.0
_LOOK_S = 0.2  # between two looks at whether to stop
_PASSING = (408, 409, 425, 429)  # and all of 500 and above: these may pass
T = TypeVar("T")
Messages = Sequence[tuple[Literal["system", "user"], str]]


class ChatUnavailable(Exception):
    """The model cannot be asked now; that may pass. `wait_s` is what the server asked to wait."""

    wait_s: float = 0.0


class ChatStopped(ChatUnavailable):
    """This process was asked to stop meanwhile."""


class ChatUnusable(ValueError):
    """The model answered, and never with what may be used. Quotes no reply."""


class ChatRefused(ChatUnusable):
    """The model declined to answer."""


@dataclass
class Spent:
    """What calls took; `counted` is False once a server did not say its tokens."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    counted: bool = True

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        """Tokens in and out; None where a server did not say."""
        return (self.tokens_in, self.tokens_out) if self.counted else (None, None)


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int


class _Reply(BaseModel):
    choices: list[_Choice]
    usage: _Usage | None = None


class ChatModel:
    """See the module. `part` is the settings' name in errors, `remedy` what to do without a model. For one thread."""

    def __init__(self, settings: ModelSettings, stop: threading.Event, *, service: str, part: str, remedy: str) -> None:
        """Raises ConfigurationError where the key's file cannot be read."""
        assert settings.endpoint is not None
        assert settings.model is not None
        self.model = settings.model
        self._settings, self._stop, self._part, self._remedy = settings, stop, part, remedy
        self._log = structlog.get_logger(service=service)
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line for every call, and none of them JSON
        self._loop = asyncio.new_event_loop()
        self._places = asyncio.Semaphore(settings.concurrency)
        self._next = 0.0  # when the next call may begin, in the loop's time
        self._client = AsyncOpenAI(
            base_url=settings.endpoint,
            api_key=_key(settings, part),
            max_retries=0,
            timeout=settings.timeout_s,
            http_client=DefaultAsyncHttpxClient(timeout=settings.timeout_s, follow_redirects=False),
        )

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work gives. Raises what it raises, and ChatStopped."""
        return self._loop.run_until_complete(self._until_stopped(work))

    async def together(self, asked: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """All answers, asked for at once as far as settings allow. The first failure ends the others."""
        calls = [asyncio.create_task(one) for one in asked]
        try:
            return await asyncio.gather(*calls)
        finally:
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    async def ask(
        self,
        messages: Messages,
        read: Callable[[str], T],
        spent: Spent,
        *,
        seed: int,
        schema: Mapping[str, Any] | None = None,
    ) -> T:
        """What `read` makes of the first reply that it takes; it raises ChatUnusable for others.

        Raises ChatUnavailable after the last call that got no answer, ChatUnusable after the last answer that cannot be
        used, ConfigurationError where the address, the key or the model's name must be wrong.
        """
        for attempt in range(self._settings.retries + 1):
            last = attempt == self._settings.retries
            wait_s = min(self._settings.retry_wait_s * 2**attempt, _LONGEST_WAIT_S)
            try:
                async with self._places:
                    await self._turn()
                    content = await self._call(messages, seed63("try", seed, attempt), schema, spent)
                    return read(_text(content, spent))
            except (ChatUnavailable, ChatUnusable) as error:
                self._log.warning("model call failed", model=self.model, attempt=attempt + 1, error=str(error))
                if last:
                    raise type(error)(f"model {self.model}, {attempt + 1} tries: {error}") from None
                if isinstance(error, ChatUnavailable) and error.wait_s > wait_s:
                    self._next = max(self._next, self._loop.time() + error.wait_s)  # for all calls of this process
            await asyncio.sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Close the connections, unless a call is still ending: then the process does."""
        if self._loop.is_running():
            return
        self._loop.run_until_complete(self._client.close())
        self._loop.close()

    async def _until_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.create_task(work)
        while not task.done():
            await asyncio.wait({task}, timeout=_LOOK_S)
            if self._stop.is_set() and not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise ChatStopped("asked to stop meanwhile")
        return task.result()

    async def _turn(self) -> None:
        """Wait for this call's turn under the rate limit, or as long as the server asked."""
        now = self._loop.time()
        begin = max(now, self._next)
        if self._settings.requests_per_minute is not None:
            self._next = begin + 60.0 / self._settings.requests_per_minute
        if begin > now:
            await asyncio.sleep(begin - now)

    async def _call(self, messages: Messages, seed: int, schema: Mapping[str, Any] | None, spent: Spent) -> bytes:
        spent.calls += 1
        extra: dict[str, Any] = {}
        if schema is not None:
            form = {"name": "answer", "strict": True, "schema": dict(schema)}
            extra["response_format"] = {"type": "json_schema", "json_schema": form}
        try:
            async with asyncio.timeout(self._settings.timeout_s):  # the client's own limit is between two bytes
                response = await self._client.chat.completions.with_raw_response.create(
                    model=self.model,
                    messages=[{"role": role, "content": content} for role, content in messages],  # type: ignore[misc]
                    temperature=self._settings.temperature,
                    max_tokens=self._settings.max_tokens,
                    seed=seed >> 32,  # 31 bits: some servers take no more
                    **extra,
                )
                return response.http_response.content
        except TimeoutError:
            raise ChatUnavailable(f"no answer within {self._settings.timeout_s:g} s") from None
        except APIStatusError as error:
            if error.status_code in _PASSING or error.status_code >= 500:
                unavailable = ChatUnavailable(f"status {error.status_code}")
                unavailable.wait_s = _retry_after(error.response.headers.get("retry-after"))
                raise unavailable from None
            raise ConfigurationError(
                f"{self._part}.endpoint {self._settings.endpoint} answers {error.status_code} for model {self.model}: correct "
                f"{self._part}.endpoint, {self._part}.model or the key, or unset them for {self._remedy}"
            ) from None
        except APIConnectionError as error:  # a time-out of the client's own too
            raise ChatUnavailable(f"{type(error).__name__}: {type(error.__cause__ or error).__name__}") from None


def unfenced(text: str) -> str:
    """A reply without the Markdown fence that some models put around JSON."""
    text = text.strip()
    return text.strip("`").removeprefix("json").strip() if text.startswith("```") else text


def _text(content: bytes, spent: Spent) -> str:
    """The one text in a completion's body. Raises ChatUnusable, quoting nothing of it."""
    try:
        reply = _Reply.model_validate_json(content)
    except ValidationError:
        spent.counted = False
        raise ChatUnusable("the answer is no chat completion") from None
    if reply.usage is None:
        spent.counted = False
    else:
        spent.tokens_in += reply.usage.prompt_tokens
        spent.tokens_out += reply.usage.completion_tokens
    if len(reply.choices) != 1:
        raise ChatUnusable("the answer was cut short, or is not one answer")
    choice = reply.choices[0]
    if choice.message.refusal is not None or choice.finish_reason == "content_filter":
        raise ChatRefused("the model refused to answer")
    if choice.finish_reason not in (None, "stop") or choice.message.content is None:
        raise ChatUnusable("the answer was cut short, or is not one answer")
    return choice.message.content


def _retry_after(value: str | None) -> float:
    """Seconds that a server asks to wait, as a number or a date; 0 where it does not say, at most 60."""
    if value is None:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time()
        except ValueError:
            return 0.0
    return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER_S) if seconds == seconds else 0.0


def _key(settings: ModelSettings, part: str) -> str:
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    if settings.api_key_file is None:
        return "none"  # local servers ask for none, the client insists on one
    try:
        key = settings.api_key_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{part}.api_key_file {settings.api_key_file} cannot be read: {type(error).__name__}"
        ) from None
    if not key:
        raise ConfigurationError(f"{part}.api_key_file {settings.api_key_file} is empty")
    return key
